//! Endpoints by name: every address that the name resolves to is one.
//!
//! DNS says neither that an endpoint terminates nor whether an empty answer is an answer: a
//! resolver reports "no such name" for a service without endpoints and for a fault of its own.
//! So an empty answer counts as a failure and changes nothing; engines that are gone are then found
//! out by their health.

use super::Pauses;
use super::outage::Outage;
use crate::config::Discovery;
use crate::core::discovery::{Availability, Found};
use crate::core::ids::EndpointId;
use crate::upstream::keeper::resolve::Resolve;
use crate::upstream::pool::Pool;
use rand::Rng;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Time between lookups, less up to a quarter by chance: the usual lifetime of a record of a
/// headless service.
const PERIOD: Duration = Duration::from_secs(5);
/// Longest time a lookup may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Never ends.
pub(super) async fn follow(
    pool: Arc<Pool>,
    source: Discovery,
    name: String,
    resolver: Arc<dyn Resolve>,
) {
    let (mut pauses, mut outage) = (Pauses::default(), Outage::new(pool.id().clone()));
    loop {
        let answer = timeout(LIMIT, resolver.resolve(&name)).await;
        let fault = match answer {
            Ok(Ok(addresses)) if !addresses.is_empty() => {
                outage.is_over();
                pool.discovered(&source, &found(addresses));
                let pause = PERIOD.mul_f64(rand::rng().random_range(0.75..1.0));
                sleep(pause).await;
                continue;
            }
            Ok(Ok(_)) => "the name has no address".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the resolver does not answer in time".to_owned(),
        };
        outage.goes_on(&format!("{name}: {fault}"), "check that the name resolves from here");
        sleep(pauses.after_failure()).await;
    }
}

/// In a fixed order; resolvers turn it from answer to answer.
fn found(addresses: Vec<SocketAddr>) -> Vec<Found> {
    let addresses: BTreeSet<SocketAddr> = addresses.into_iter().collect();
    let found = |address: SocketAddr| Found {
        id: EndpointId::from(address.to_string()),
        incarnation: None,
        availability: Availability::Ready,
    };
    addresses.into_iter().map(found).collect()
}
