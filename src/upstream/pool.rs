//! A set of endpoints that serve the same models.

use super::endpoint::{Endpoint, EndpointLease};
use crate::core::endpoint_health::HealthRules;
use crate::core::ids::{EndpointId, PoolId};
use crate::core::observe::{EndpointPhase, PoolState};
use crate::core::policy::ModelSet;
use crate::core::routing::{Candidate, NoChoice, least_in_flight};
use crate::core::sync::lock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio::time::Instant;

/// What answers behind a pool's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// Each endpoint is one engine replica.
    Engines,
    /// The endpoint is a gateway that routes by itself.
    Gateway,
}

impl PoolKind {
    /// The configuration's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Engines => "engines",
            Self::Gateway => "gateway",
        }
    }
}

/// A pool as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSpec {
    pub id: PoolId,
    pub kind: PoolKind,
    pub models: ModelSet,
    /// `host:port`, each once.
    pub endpoints: Vec<EndpointId>,
    /// The pool's cap over all tenants; `None`: no cap.
    pub max_in_flight: Option<u32>,
    /// Requests this process may have on one endpoint; `None`: no limit.
    pub max_in_flight_per_endpoint: Option<u32>,
    /// The path that answers 2xx while the engine is well; `None`: a probe only connects.
    pub health_path: Option<String>,
    pub health: HealthRules,
}

/// A pool at work.
#[derive(Debug)]
pub struct Pool {
    spec: Mutex<Arc<PoolSpec>>,
    /// Also the choice lock: chosen and counted in one step.
    endpoints: Mutex<Vec<Arc<Endpoint>>>,
    demand: AtomicU64,
    keeper: Arc<Notify>,
    id: PoolId,
}

impl Pool {
    /// A pool whose endpoints are unknown to anybody yet; run its [keeper](super::keeper) too.
    pub fn new(spec: PoolSpec) -> Arc<Self> {
        let pool = Self {
            id: spec.id.clone(),
            spec: Mutex::new(Arc::new(spec)),
            endpoints: Mutex::default(),
            demand: AtomicU64::new(0),
            keeper: Arc::new(Notify::new()),
        };
        let names = pool.spec().endpoints.clone();
        pool.set_endpoints(&names);
        Arc::new(pool)
    }

    /// The pool's name.
    pub fn id(&self) -> &PoolId {
        &self.id
    }

    /// The settings in force.
    pub fn spec(&self) -> Arc<PoolSpec> {
        Arc::clone(&lock(&self.spec))
    }

    /// A reload. Endpoints that stay keep their health and their counts.
    pub fn update(&self, spec: PoolSpec) {
        let names = spec.endpoints.clone();
        *lock(&self.spec) = Arc::new(spec);
        self.set_endpoints(&names);
    }

    /// Replace the set of endpoints (discovery, reload). Those that stay keep their health and
    /// their counts; requests on those that leave go on.
    pub fn set_endpoints(&self, names: &[EndpointId]) {
        let rules = self.spec().health;
        {
            let mut endpoints = lock(&self.endpoints);
            let known = std::mem::take(&mut *endpoints);
            *endpoints = names
                .iter()
                .map(|name| match known.iter().find(|endpoint| endpoint.id == *name) {
                    Some(endpoint) => Arc::clone(endpoint),
                    None => Arc::new(Endpoint::new(name.clone(), rules, Arc::clone(&self.keeper))),
                })
                .collect();
        }
        self.keeper.notify_one();
    }

    /// Choose the endpoint with the fewest requests in flight, ties at random, none of
    /// `exclude` (those already tried), none at its limit; and count this request on it.
    ///
    /// # Errors
    /// [`NoChoice`]; its `reason()` is what the client is told.
    pub fn pick(&self, exclude: &[EndpointId]) -> Result<EndpointLease, NoChoice> {
        let now = Instant::now();
        let limit = self.spec().max_in_flight_per_endpoint.map(u64::from);
        let endpoints = lock(&self.endpoints);
        let eligible: Vec<&Arc<Endpoint>> =
            endpoints.iter().filter(|endpoint| !exclude.contains(&endpoint.id)).collect();
        let candidates: Vec<Candidate> =
            eligible.iter().map(|endpoint| endpoint.candidate(now)).collect();
        let chosen = eligible[least_in_flight(&candidates, limit, rand::random())?];
        let address = chosen.address().ok_or(NoChoice::NoEndpoint)?;
        Ok(EndpointLease::new(Arc::clone(chosen), address, now))
    }

    pub fn temp_resolve(&self) {
        for e in lock(&self.endpoints).iter() {
            if let Ok(a) = e.id.as_str().parse() {
                e.set_address(a);
            }
        }
    }
    /// Count one request that wants this pool, until the guard is dropped.
    pub fn demand(self: &Arc<Self>) -> DemandGuard {
        self.demand.fetch_add(1, Ordering::Relaxed);
        DemandGuard(Arc::clone(self))
    }

    /// Stop choosing `endpoint`; requests on it go on. `false`: it is not of this pool.
    pub fn drain_endpoint(&self, endpoint: &str) -> bool {
        self.find(endpoint).map(|endpoint| endpoint.order_drain()).is_some()
    }

    /// Undo [`drain_endpoint`](Self::drain_endpoint), or a drain the engine itself announced.
    /// `false`: it is not of this pool.
    pub fn restore_endpoint(&self, endpoint: &str) -> bool {
        self.find(endpoint).map(|endpoint| endpoint.restore()).is_some()
    }

    /// The state of `endpoint`, if it is of this pool.
    pub fn endpoint_phase(&self, endpoint: &str) -> Option<EndpointPhase> {
        self.find(endpoint).map(|endpoint| endpoint.phase(Instant::now()))
    }

    /// The pool as an operator sees it.
    pub fn state(&self) -> PoolState {
        let (spec, now) = (self.spec(), Instant::now());
        PoolState {
            pool: self.id.clone(),
            kind: spec.kind.as_str(),
            models: match &spec.models {
                ModelSet::Any => vec!["*".to_owned()],
                ModelSet::Only(names) => names.iter().map(ToString::to_string).collect(),
            },
            max_in_flight: spec.max_in_flight.unwrap_or(0),
            demand: self.demand.load(Ordering::Relaxed),
            endpoints: self.endpoints().iter().map(|endpoint| endpoint.state(now)).collect(),
        }
    }

    pub(super) fn endpoints(&self) -> Vec<Arc<Endpoint>> {
        lock(&self.endpoints).clone()
    }

    /// Rings when an endpoint changed its state or the set changed.
    pub(super) fn keeper_bell(&self) -> &Notify {
        &self.keeper
    }

    fn find(&self, endpoint: &str) -> Option<Arc<Endpoint>> {
        lock(&self.endpoints).iter().find(|known| known.id.as_str() == endpoint).map(Arc::clone)
    }
}

/// One request in flight at, or waiting for, a pool.
#[derive(Debug)]
pub struct DemandGuard(Arc<Pool>);

impl Drop for DemandGuard {
    fn drop(&mut self) {
        self.0.demand.fetch_sub(1, Ordering::Relaxed);
    }
}
