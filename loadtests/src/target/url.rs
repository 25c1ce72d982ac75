//! A server that runs already.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Ask, Route, Routed, Target};
use crate::scenario::{PhaseSpec, UrlSpec};

/// A base URL that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// Not `http://host[:port][/prefix]`.
    #[error("{0:?} is no http:// address (TLS is not spoken: put a plain listener in front)")]
    Shape(String),
    /// The host has no address.
    #[error("cannot resolve {host}: {source}")]
    Resolve {
        /// Which.
        host: String,
        /// Why.
        source: std::io::Error,
    },
    /// Nothing answers there.
    #[error(
        "target.url.base: nothing can be reached at {addr}: {why} (start the server first, or \
         correct the address)"
    )]
    Unreachable {
        /// Where.
        addr: SocketAddr,
        /// Why.
        why: String,
    },
    /// A key is to come from the environment and is not there.
    #[error("target.url.keys: the environment has no {0}")]
    NoKey(String),
}

/// A resolved base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    /// Where to connect.
    pub addr: SocketAddr,
    /// `host` field.
    pub host: String,
    /// Path before all paths, without a slash at its end.
    pub prefix: String,
}

impl BaseUrl {
    /// Parses and resolves.
    ///
    /// # Errors
    /// [`UrlError`].
    pub async fn resolve(text: &str) -> Result<Self, UrlError> {
        let rest = text.strip_prefix("http://").ok_or_else(|| UrlError::Shape(text.into()))?;
        let (host, prefix) = match rest.split_once('/') {
            Some((host, path)) => (host, format!("/{}", path.trim_end_matches('/'))),
            None => (rest, String::new()),
        };
        if host.is_empty() {
            return Err(UrlError::Shape(text.into()));
        }
        let port = host.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok());
        let name = if port { host.to_owned() } else { format!("{host}:80") };
        let failed = |source| UrlError::Resolve { host: host.to_owned(), source };
        let mut found = tokio::net::lookup_host(&name).await.map_err(failed)?;
        let none = || failed(std::io::ErrorKind::NotFound.into());
        let addr = found.next().ok_or_else(none)?;
        let prefix = if prefix == "/" { String::new() } else { prefix };
        Ok(Self { addr, host: host.to_owned(), prefix })
    }
}

/// For the first connection.
const PATIENCE: Duration = Duration::from_secs(5);

async fn reach(addr: SocketAddr) -> Result<(), UrlError> {
    let failed = |why| UrlError::Unreachable { addr, why };
    match timeout(PATIENCE, TcpStream::connect(addr)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(e)) => Err(failed(e.to_string())),
        Err(_) => Err(failed(format!("no answer within {PATIENCE:?}"))),
    }
}

/// The server.
pub struct Url {
    base: BaseUrl,
    keys: BTreeMap<String, String>,
    metrics: Vec<String>,
}

impl Url {
    /// Reads the keys, resolves the address and connects once: a run in which every request fails
    /// for want of a server tells nothing.
    ///
    /// # Errors
    /// [`UrlError`].
    pub async fn new(spec: &UrlSpec) -> Result<Self, UrlError> {
        let mut keys = BTreeMap::new();
        for (tenant, key) in &spec.keys {
            let key = match key.strip_prefix("env:") {
                Some(name) => std::env::var(name).map_err(|_| UrlError::NoKey(name.into()))?,
                None => key.clone(),
            };
            keys.insert(tenant.clone(), key);
        }
        let base = BaseUrl::resolve(&spec.base).await?;
        reach(base.addr).await?;
        Ok(Self { base, keys, metrics: spec.metrics.clone() })
    }
}

impl Target for Url {
    fn describe(&self) -> String {
        format!("http://{}{}", self.base.host, self.base.prefix)
    }

    fn route(&self, ask: &Ask<'_>) -> Routed {
        let key = self.keys.get(ask.tenant);
        let headers = key.map(|k| ("authorization".to_owned(), format!("Bearer {k}")));
        Routed::To(Route {
            host: self.base.host.clone(),
            prefix: self.base.prefix.clone(),
            headers: headers.into_iter().collect(),
            ..Route::to(self.base.addr)
        })
    }

    fn begin_phase(&self, _: &PhaseSpec, _: u64) -> BoxFuture<'_, anyhow::Result<()>> {
        async { Ok(()) }.boxed()
    }

    fn metrics(&self) -> Vec<(String, String)> {
        self.metrics.iter().map(|url| (url.clone(), url.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn base_urls() {
        let base = BaseUrl::resolve("http://127.0.0.1:8000/x/").await.unwrap();
        assert_eq!((base.addr.port(), base.prefix.as_str()), (8000, "/x"));
        let base = BaseUrl::resolve("http://127.0.0.1/").await.unwrap();
        assert_eq!((base.addr.port(), base.prefix.as_str()), (80, ""));
        assert!(matches!(BaseUrl::resolve("https://a").await, Err(UrlError::Shape(_))));
        assert!(matches!(BaseUrl::resolve("http:///x").await, Err(UrlError::Shape(_))));
    }
}
