//! Names to addresses.

use crate::upstream::endpoint::Endpoint;
use futures::future::BoxFuture;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

/// Longest time a lookup may take beyond the probe's own timeout: resolvers try several servers.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks names up.
pub(in crate::upstream) trait Resolve: Send + Sync {
    /// The addresses of `host:port`, in the order of preference.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// The system's resolver.
pub(in crate::upstream) struct Dns;

impl Resolve for Dns {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host(name).await?.collect()) })
    }
}

/// Resolve the endpoint's name, if it has one. A failed lookup leaves the address as it is: an
/// address that served is better than none.
pub(super) async fn visit(endpoint: &Endpoint, resolver: &dyn Resolve, limit: Duration) {
    if !endpoint.has_name() {
        return;
    }
    match timeout(limit + PATIENCE, resolver.resolve(endpoint.id.as_str())).await {
        Ok(Ok(found)) => {
            if let Some(address) = choose(endpoint.address(), endpoint.is_lost(), &found) {
                endpoint.set_address(address);
            }
        }
        Ok(Err(error)) => {
            tracing::warn!(endpoint = %endpoint.id, %error, "cannot resolve the endpoint's name");
        }
        Err(_) => {
            tracing::warn!(endpoint = %endpoint.id, "resolving the endpoint's name takes too long");
        }
    }
}

/// Keep the present address while it is among those found and works; else the one after it, so
/// that every address has its turn.
fn choose(present: Option<SocketAddr>, lost: bool, found: &[SocketAddr]) -> Option<SocketAddr> {
    let place = present.and_then(|present| found.iter().position(|found| *found == present));
    match place {
        Some(place) if lost => found.get((place + 1) % found.len()).copied(),
        Some(_) => present,
        None => found.first().copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn an_address_that_works_is_kept() {
        assert_eq!(choose(None, true, &[at(1), at(2)]), Some(at(1)));
        assert_eq!(choose(Some(at(2)), false, &[at(1), at(2)]), Some(at(2)));
    }

    #[test]
    fn a_lost_address_gives_way_to_the_next() {
        assert_eq!(choose(Some(at(1)), true, &[at(1), at(2)]), Some(at(2)));
        assert_eq!(choose(Some(at(2)), true, &[at(1), at(2)]), Some(at(1)));
        assert_eq!(choose(Some(at(1)), true, &[at(1)]), Some(at(1)));
    }

    #[test]
    fn an_address_that_left_is_replaced_and_an_empty_answer_changes_nothing() {
        assert_eq!(choose(Some(at(3)), false, &[at(1)]), Some(at(1)));
        assert_eq!(choose(Some(at(3)), true, &[]), None);
    }
}
