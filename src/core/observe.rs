//! What an operator may see of the running process: plain values, read from their owners at the
//! moment of asking. The admin API serialises them; field names are a contract.

use super::endpoint_drain::EndpointDrainState;
use super::endpoint_drain_port::BoardStatus;
use super::ids::{EndpointId, ModelName, PoolId, RequestId, TenantId};
use super::policy::Mode;
use super::quota::StoreStatus;
use serde::Serialize;
use std::collections::BTreeMap;

/// One tenant now. `arrivals = Σ outcomes + in_flight + queued` holds within one value.
#[derive(Clone, Debug, Serialize)]
pub struct TenantState {
    pub tenant: TenantId,
    pub limit: u32,
    pub mode: Mode,
    /// Admitted requests of this replica that have not ended.
    pub in_flight: u64,
    /// Slots held over all replicas, as the store last said.
    pub fleet_in_flight: u64,
    /// Requests that wait for an admission decision or in the tenant's queue.
    pub queued: u64,
    pub arrivals: u64,
    /// Ended requests by [`Outcome`](super::outcome::Outcome) name; every outcome is present.
    pub outcomes: BTreeMap<&'static str, u64>,
}

/// One pool now.
#[derive(Clone, Debug, Serialize)]
pub struct PoolState {
    pub pool: PoolId,
    /// `engines` or `gateway`.
    pub kind: &'static str,
    pub models: Vec<String>,
    /// `0`: no cap.
    pub max_in_flight: u32,
    /// Requests in flight at, or waiting for, this pool.
    pub demand: u64,
    pub endpoints: Vec<EndpointState>,
}

/// Whether an endpoint may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointPhase {
    /// May be chosen.
    Ready,
    /// Leaving: not chosen; requests on it go on.
    Draining,
    /// Refused or failed its probe: not chosen until a probe succeeds.
    Down,
}

impl EndpointPhase {
    /// Every phase.
    pub const ALL: [Self; 3] = [Self::Ready, Self::Draining, Self::Down];

    /// The `state` label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Down => "down",
        }
    }
}

/// One endpoint now.
#[derive(Clone, Debug, Serialize)]
pub struct EndpointState {
    pub endpoint: EndpointId,
    pub state: EndpointPhase,
    pub in_flight: u64,
}

/// One request that holds a slot.
#[derive(Clone, Debug, Serialize)]
pub struct HolderState {
    pub request_id: RequestId,
    pub tenant: TenantId,
    pub model: Option<ModelName>,
    /// `None` while no endpoint is chosen.
    pub endpoint: Option<EndpointId>,
    pub age_seconds: f64,
    /// Output tokens delivered so far, as far as events tell.
    pub tokens: u64,
}

/// The drain state machine of this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainPhase {
    Serving,
    LameDuck,
    Draining,
    Drained,
    Cut,
}

impl DrainPhase {
    /// Every phase, in order.
    pub const ALL: [Self; 5] =
        [Self::Serving, Self::LameDuck, Self::Draining, Self::Drained, Self::Cut];

    /// The `state` label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::LameDuck => "lame_duck",
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Cut => "cut",
        }
    }
}

/// The drain as an operator sees it.
#[derive(Clone, Debug, Serialize)]
pub struct DrainState {
    pub state: DrainPhase,
    /// Admitted requests that have not ended.
    pub in_flight: u64,
    pub queued: u64,
    /// Seconds since the drain began; `None` while serving.
    pub since_seconds: Option<f64>,
}

/// The whole answer of `GET /api/v1/state`.
#[derive(Clone, Debug, Serialize)]
pub struct State {
    pub version: &'static str,
    pub uptime_seconds: f64,
    pub tenants: Vec<TenantState>,
    pub pools: Vec<PoolState>,
    pub store: StoreStatus,
    pub drain: DrainState,
    /// Endpoints that drain, also pods behind a gateway.
    pub endpoint_drains: Vec<EndpointDrainState>,
    /// Where replicas agree on them.
    pub drain_board: BoardStatus,
}

/// Reads the owners. Implemented by the composition root, used by admin and metrics.
pub trait Observe: Send + Sync {
    fn tenants(&self) -> Vec<TenantState>;
    fn pools(&self) -> Vec<PoolState>;
    fn holders(&self) -> Vec<HolderState>;
    fn store(&self) -> StoreStatus;
    fn drain(&self) -> DrainState;
    /// Seconds since the process started serving.
    fn uptime_seconds(&self) -> f64;
    /// Whether endpoints that are to be discovered are still unknown and worth waiting for, so
    /// that this replica should not be sent requests yet.
    fn awaits_endpoints(&self) -> bool {
        false
    }
    /// Cut one running request: its client gets an explicit error event and its slot comes back.
    /// `false`: no such request.
    fn cut_holder(&self, request: &str) -> bool;
}
