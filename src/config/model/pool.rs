//! A pool: engines that serve the same models, or one upstream gateway.

use crate::config::Secret;
use crate::core::discovery::PortRef;
use crate::core::ids::{EndpointId, PoolId};
use crate::core::policy::ModelSet;
use std::sync::Arc;
use std::time::Duration;

/// One pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    pub id: PoolId,
    pub models: ModelSet,
    /// `host:port`, unique over all pools. Empty only if `discovery` is set. Exactly one for
    /// [`PoolKind::Gateway`].
    pub endpoints: Arc<[EndpointId]>,
    pub discovery: Option<Discovery>,
    pub kind: PoolKind,
    /// How an endpoint is chosen; without meaning for [`PoolKind::Gateway`].
    pub strategy: Strategy,
    /// Requests of all tenants that may run in the pool at once; `None`: no cap.
    pub max_in_flight: Option<u32>,
    /// Requests that may run at one endpoint at once; `None`: no cap.
    pub max_in_flight_per_endpoint: Option<u32>,
    /// Sent to the engines as `Authorization: Bearer`. Visible ASCII.
    pub credential: Option<Secret>,
    pub health: Health,
    pub retries: Retries,
    /// How long the engines go on after they were told to stop (vLLM's `--shutdown-timeout`).
    /// What runs there is cut `drain.cut_margin` before; `None`: never by us.
    pub engine_shutdown_timeout: Option<Duration>,
}

/// What the endpoints of a pool are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolKind {
    /// Engine replicas among which this process chooses.
    #[default]
    Engines,
    /// One address that routes by itself.
    Gateway,
}

impl PoolKind {
    /// The name in the configuration and in `GET /api/v1/state`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Engines => "engines",
            Self::Gateway => "gateway",
        }
    }
}

/// How an endpoint of a pool of engines is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    Random,
    /// The endpoint with the fewest requests of this replica in flight.
    #[default]
    LeastRequest,
    PrefixCache,
    ExpectedTtft,
}

/// Where endpoints come from when they are not listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// `host:port`; every address the name resolves to is an endpoint.
    Dns(String),
    /// The EndpointSlices of a service.
    Kubernetes { namespace: String, service: String, port: PortRef },
}

/// The active probe of each endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Request path; an answer 2xx within `timeout` is healthy. `None`: never probed, only what
    /// requests meet decides (default of a gateway, which has no path of that meaning).
    pub path: Option<String>,
    /// From the end of one probe to the start of the next.
    pub interval: Duration,
    pub timeout: Duration,
}

impl Health {
    /// The defaults of a pool of this kind.
    pub fn of(kind: PoolKind) -> Self {
        Self {
            path: (kind == PoolKind::Engines).then(|| "/health".to_owned()),
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
        }
    }
}

/// How often a request that reached no engine may be sent to another one. The budget keeps
/// retries from multiplying the load of a pool that is failing as a whole: over the last ten
/// seconds, retries ≤ `budget_percent` % of requests + 10 × `min_per_second`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Attempts of one request including the first; 1: never retried.
    pub max_attempts: u32,
    pub budget_percent: u32,
    pub min_per_second: u32,
}

impl Default for Retries {
    fn default() -> Self {
        Self { max_attempts: 3, budget_percent: 20, min_per_second: 10 }
    }
}
