//! What requests are sent to.

mod direct;
mod fleet;
pub(crate) mod streamgate;
mod url;

pub use direct::Direct;
pub use fleet::Fleet;
pub use streamgate::Streamgate;
pub use url::{BaseUrl, Url, UrlError};

use std::collections::BTreeMap;
use std::net::SocketAddr;

use futures::future::{BoxFuture, FutureExt};

use crate::record::Evidence;
use crate::scenario::{PhaseSpec, Policy};

/// Something that answers requests.
///
/// A target is told about engines that come and go; where a target does not care, the default
/// does nothing.
pub trait Target: Send + Sync {
    /// What it is, in one line.
    fn describe(&self) -> String;

    /// Where a request goes; called at the moment it starts.
    fn route(&self, ask: &Ask<'_>) -> Routed;

    /// A phase begins: its policy and its draws.
    ///
    /// # Errors
    /// The phase asks for something that this target cannot do.
    fn begin_phase(&self, phase: &PhaseSpec, seed: u64) -> BoxFuture<'_, anyhow::Result<()>>;

    /// Forgets which replica has which prefix.
    fn reset_index(&self) -> BoxFuture<'_, anyhow::Result<()>> {
        async { Ok(()) }.boxed()
    }

    /// Sets which replica has which prefix group. `false`: it cannot be told, it must learn from
    /// requests (see [`Target::only`]).
    fn set_index(&self, _index: &BTreeMap<String, Vec<u32>>) -> bool {
        true
    }

    /// Sends requests only to that engine, or to all again.
    fn only(&self, _engine: Option<&str>) -> BoxFuture<'_, anyhow::Result<()>> {
        async { Ok(()) }.boxed()
    }

    /// An engine is ready.
    fn engine_ready(&self, _name: &str, _addr: SocketAddr) -> BoxFuture<'_, anyhow::Result<()>> {
        async { Ok(()) }.boxed()
    }

    /// An engine is no longer an endpoint.
    fn engine_gone(&self, _name: &str, _addr: SocketAddr) -> BoxFuture<'_, anyhow::Result<()>> {
        async { Ok(()) }.boxed()
    }

    /// Drains an engine: no new requests, then waits for its streams at most so long (virtual).
    fn drain_engine(
        &self,
        _name: &str,
        _addr: SocketAddr,
        _wait: std::time::Duration,
    ) -> BoxFuture<'_, anyhow::Result<String>> {
        async { anyhow::bail!("this target cannot drain an engine") }.boxed()
    }

    /// Stops the quota store from answering for so long (virtual).
    fn freeze_store(&self, _length: std::time::Duration) -> BoxFuture<'_, anyhow::Result<String>> {
        async { anyhow::bail!("this target has no quota store") }.boxed()
    }

    /// Replaces the replicas of the ingress one by one.
    fn roll(&self) -> BoxFuture<'_, anyhow::Result<String>> {
        async { anyhow::bail!("this target has no replicas to replace") }.boxed()
    }

    /// Prometheus endpoints: name and URL.
    fn metrics(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// What it counted since the phase began.
    fn evidence(&self) -> BoxFuture<'_, Counted> {
        async { Counted::new() }.boxed()
    }

    /// Stops what it started.
    fn stop(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

/// Counts by source.
pub type Counted = BTreeMap<String, BTreeMap<String, u64>>;

/// What a router may know of a request.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Tenant.
    pub tenant: &'a str,
    /// Prefix group.
    pub group: Option<u32>,
}

/// Where a request goes.
pub enum Routed {
    /// There.
    To(Route),
    /// Nowhere: refused in this process.
    Refused {
        /// Status.
        status: u16,
        /// Reason.
        reason: &'static str,
    },
}

/// The way of one request.
pub struct Route {
    /// Where to connect.
    pub addr: SocketAddr,
    /// `host` field.
    pub host: String,
    /// Goes before the path.
    pub prefix: String,
    /// Fields of the head.
    pub headers: Vec<(String, String)>,
    /// Name of the replica, where known.
    pub target: Option<String>,
    /// How it was chosen.
    pub selection: Option<&'static str>,
    /// Match percent seen.
    pub match_percent: Option<u32>,
    /// Given back when the request has ended.
    pub lease: Option<Box<dyn Send + Sync>>,
}

impl Route {
    /// To an address, nothing else known.
    #[must_use]
    pub fn to(addr: SocketAddr) -> Self {
        Self {
            addr,
            host: addr.to_string(),
            prefix: String::new(),
            headers: Vec::new(),
            target: None,
            selection: None,
            match_percent: None,
            lease: None,
        }
    }
}

/// All evidence of a phase: the engines' and the target's.
pub async fn evidence(
    target: &dyn Target,
    fleet: Option<&Fleet>,
    seed: u64,
    phase: &str,
) -> Vec<Evidence> {
    let engines = fleet.map(Fleet::evidence).unwrap_or_default();
    let all = engines.into_iter().chain(target.evidence().await);
    all.map(|(source, counts)| Evidence { seed, phase: phase.to_owned(), source, counts }).collect()
}

/// The policies that a router in this process can play.
pub(crate) fn playable(policy: Policy) -> anyhow::Result<Policy> {
    anyhow::ensure!(
        policy != Policy::ExpectedTtft,
        "expected-ttft is Streamgate's own: use target.streamgate"
    );
    Ok(policy)
}
