//! A set of endpoints that serve the same models.

use super::attempts::Attempts;
use super::counts::{Count, Counted, Counts};
use super::endpoint::{Endpoint, EndpointLease};
use crate::config::{self, Discovery, PoolKind};
use crate::core::discovery::{Availability, Found};
use crate::core::endpoint_health::HealthRules;
use crate::core::ids::{EndpointId, PoolId};
use crate::core::observe::{EndpointPhase, PoolState};
use crate::core::policy::ModelSet;
use crate::core::retry::Kind;
use crate::core::retry_budget::RetryBudget;
use crate::core::routing::{Candidate, NoChoice, least_in_flight};
use crate::core::sync::lock;
use arc_swap::ArcSwap;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A pool at work.
#[derive(Debug)]
pub struct Pool {
    id: PoolId,
    spec: ArcSwap<config::Pool>,
    /// Also the choice lock: chosen and counted in one step.
    endpoints: Mutex<Vec<Arc<Endpoint>>>,
    budget: Mutex<RetryBudget>,
    demand: Arc<Count>,
    counts: Arc<Counts>,
    /// Its endpoints are known: they are listed, or were found once.
    known: AtomicBool,
    keeper: Arc<Notify>,
    /// Names that drain by an order, whether or not they are endpoints at the moment. Locked
    /// inside `endpoints`.
    ordered: Mutex<HashSet<EndpointId>>,
    /// Rings when an endpoint may have changed its state.
    changes: Notify,
}

impl Pool {
    /// The pool of a configuration, all endpoints Ready as far as their addresses are known; with
    /// `discovery` it has none before the first list. It stands alone: its counts begin at zero.
    pub fn new(spec: Arc<config::Pool>) -> Arc<Self> {
        Self::over(spec, &Arc::default())
    }

    /// The same as one of several; requests of before that still run are counted.
    pub(super) fn over(spec: Arc<config::Pool>, counts: &Arc<Counts>) -> Arc<Self> {
        let now = Instant::now().into_std();
        let retries = spec.retries;
        let budget = RetryBudget::new(retries.budget_percent, retries.min_per_second, now);
        let pool = Self {
            id: spec.id.clone(),
            demand: counts.pool(&spec.id),
            counts: Arc::clone(counts),
            known: AtomicBool::new(spec.discovery.is_none()),
            spec: ArcSwap::new(Arc::clone(&spec)),
            endpoints: Mutex::default(),
            budget: Mutex::new(budget),
            keeper: Arc::new(Notify::new()),
            ordered: Mutex::default(),
            changes: Notify::new(),
        };
        pool.set_endpoints(&spec.endpoints);
        Arc::new(pool)
    }

    /// The pool's name.
    pub fn id(&self) -> &PoolId {
        &self.id
    }

    /// The settings in force.
    pub fn spec(&self) -> Arc<config::Pool> {
        self.spec.load_full()
    }

    /// A reload. Endpoints that stay keep their health and their counts. A pool that finds its
    /// endpoints keeps those it has until its source, the old or a new one, says otherwise.
    pub fn update(&self, spec: Arc<config::Pool>) {
        lock(&self.budget).set(spec.retries.budget_percent, spec.retries.min_per_second);
        {
            let mut endpoints = lock(&self.endpoints);
            self.spec.store(Arc::clone(&spec));
            match &spec.discovery {
                Some(_) => endpoints.iter().for_each(|known| known.set_rules(rules(&spec.health))),
                None => self.replace(&mut endpoints, &listed(&spec.endpoints)),
            }
        }
        self.keeper.notify_one();
    }

    /// Replace the set of endpoints. Those that stay keep their health and their counts. Requests
    /// on those that leave go on and stay counted: whoever comes back while they run, in whatever
    /// pool, begins with a clean health and with them.
    pub fn set_endpoints(&self, names: &[EndpointId]) {
        self.replace(&mut lock(&self.endpoints), &listed(names));
        self.keeper.notify_one();
    }

    /// What `source` says, whole. The same as [`set_endpoints`](Self::set_endpoints), and besides:
    /// an endpoint that is not ready or leaves is not chosen, and another pod at the same address
    /// begins with a clean ledger. `false`: the pool has another source by now, and nothing was
    /// changed.
    pub(super) fn discovered(&self, source: &Discovery, found: &[Found]) -> bool {
        {
            let mut endpoints = lock(&self.endpoints);
            if self.spec.load().discovery.as_ref() != Some(source) {
                return false;
            }
            self.replace(&mut endpoints, found);
        }
        self.known.store(true, Ordering::Relaxed);
        self.keeper.notify_one();
        true
    }

    /// Whether nothing is known of the endpoints yet, because they were never found.
    pub fn awaits_endpoints(&self) -> bool {
        !self.known.load(Ordering::Relaxed)
    }

    fn replace(&self, endpoints: &mut Vec<Arc<Endpoint>>, found: &[Found]) {
        let rules = rules(&self.spec.load().health);
        let mut known = std::mem::take(endpoints);
        for found in found {
            let place = known.iter().position(|endpoint| endpoint.is(found));
            endpoints.push(if let Some(place) = place {
                let endpoint = known.swap_remove(place);
                endpoint.set_rules(rules);
                endpoint.said(found);
                endpoint
            } else {
                self.tell(&found.id, "endpoint added");
                let count = self.counts.endpoint(&found.id, found.incarnation.as_ref());
                Arc::new(Endpoint::new(found, rules, count, Arc::clone(&self.keeper)))
            });
        }
        let discovers = self.spec.load().discovery.is_some();
        let mut ordered = lock(&self.ordered);
        for gone in known {
            self.tell(&gone.id, "endpoint removed");
            gone.left();
            if discovers {
                // The pod is gone; what was ordered of it is not for the next one at its address.
                ordered.remove(&gone.id);
            }
        }
        let ordered = |one: &&Arc<Endpoint>| ordered.contains(&one.id);
        endpoints.iter().filter(ordered).for_each(|one| one.order_drain());
    }

    /// What is listed was told by whoever lists it.
    fn tell(&self, endpoint: &EndpointId, change: &str) {
        if self.spec.load().discovery.is_some() {
            tracing::info!(pool = %self.id, %endpoint, "{change}");
        }
    }

    /// Choose the endpoint with the fewest requests in flight, ties at random, none of
    /// `exclude` (those already tried), none at its limit; and count this request on it.
    ///
    /// # Errors
    /// [`NoChoice`]; its `reason()` is what the client is told.
    pub fn pick(&self, exclude: &[EndpointId]) -> Result<EndpointLease, NoChoice> {
        let now = Instant::now();
        let endpoints = lock(&self.endpoints);
        let limit = self.limit();
        loop {
            let chosen = self.choose(&endpoints, exclude, limit, now)?;
            let address = chosen.address().ok_or(NoChoice::NoEndpoint)?;
            // A pool that a reload removed may still use the endpoint too, under its own lock; who
            // comes second to the last place chooses again.
            if let Some(lease) = EndpointLease::new(Arc::clone(chosen), address, limit, now) {
                return Ok(lease);
            }
        }
    }

    /// Whether [`pick`](Self::pick) would choose an endpoint at this moment.
    pub(super) fn can_pick(&self, exclude: &[EndpointId]) -> bool {
        self.choose(&lock(&self.endpoints), exclude, self.limit(), Instant::now()).is_ok()
    }

    fn limit(&self) -> Option<u64> {
        self.spec.load().max_in_flight_per_endpoint.map(u64::from)
    }

    fn choose<'e>(
        &self,
        endpoints: &'e [Arc<Endpoint>],
        exclude: &[EndpointId],
        limit: Option<u64>,
        now: Instant,
    ) -> Result<&'e Arc<Endpoint>, NoChoice> {
        let eligible: Vec<&Arc<Endpoint>> =
            endpoints.iter().filter(|endpoint| !exclude.contains(&endpoint.id)).collect();
        let candidates: Vec<Candidate> =
            eligible.iter().map(|endpoint| endpoint.candidate(now)).collect();
        Ok(eligible[least_in_flight(&candidates, limit, rand::random())?])
    }

    /// The attempts of one request that was admitted.
    pub fn attempts(self: &Arc<Self>, kind: Kind) -> Attempts {
        lock(&self.budget).request(Instant::now().into_std());
        Attempts::new(Arc::clone(self), kind)
    }

    /// Count one request that wants this pool, until the guard is dropped.
    pub fn demand(&self) -> DemandGuard {
        DemandGuard { _counted: self.demand.up() }
    }

    /// Stop choosing `endpoint`; requests on it go on. Whatever was chosen before is counted when
    /// this returns. `false`: it is not of this pool.
    pub fn drain_endpoint(&self, endpoint: &str) -> bool {
        self.judge(endpoint, |endpoint| endpoint.order_drain())
    }

    /// The same until [`serve`](Self::serve), also if it becomes an endpoint only later.
    pub fn stop(&self, endpoint: &EndpointId) {
        let endpoints = lock(&self.endpoints);
        lock(&self.ordered).insert(endpoint.clone());
        endpoints.iter().filter(|known| known.id == *endpoint).for_each(|one| one.order_drain());
    }

    /// Undo [`stop`](Self::stop) and [`mark`](Self::mark).
    pub fn serve(&self, endpoint: &EndpointId) {
        let endpoints = lock(&self.endpoints);
        lock(&self.ordered).remove(endpoint);
        endpoints.iter().filter(|known| known.id == *endpoint).for_each(|one| one.restore());
    }

    /// Another replica was told by the engine at `since` that it shuts down. Whatever was chosen
    /// before is counted when this returns.
    pub fn mark(&self, endpoint: &EndpointId, since: std::time::Instant) {
        self.judge(endpoint.as_str(), |endpoint| endpoint.mark_from_fleet(since));
    }

    /// Requests on `endpoint`, from the choice to the end of the engine's work; `None`: it is not
    /// of this pool.
    pub fn in_flight(&self, endpoint: &str) -> Option<u64> {
        self.find(endpoint).map(|endpoint| endpoint.state(Instant::now()).in_flight)
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
            demand: self.demand.now(),
            endpoints: self.endpoints().iter().map(|endpoint| endpoint.state(now)).collect(),
        }
    }

    /// Whether the pool is one gateway that routes by itself.
    pub fn is_gateway(&self) -> bool {
        self.spec.load().kind == PoolKind::Gateway
    }

    pub(super) fn try_retry(&self) -> bool {
        lock(&self.budget).try_retry(Instant::now().into_std())
    }

    pub(super) fn endpoints(&self) -> Vec<Arc<Endpoint>> {
        lock(&self.endpoints).clone()
    }

    /// Rings when an endpoint changed its state or the set changed.
    pub(super) fn bell(&self) -> &Notify {
        &self.keeper
    }

    /// Resolves when an endpoint may have changed its state since this call, or since the last
    /// one resolved; the keeper must run. Cancel-safe.
    pub async fn changed(&self) {
        self.changes.notified().await;
    }

    /// For the keeper: it was woken.
    pub(super) fn announce(&self) {
        self.changes.notify_one();
    }

    /// Under the choice lock, so that no choice is half made.
    fn judge(&self, endpoint: &str, judge: impl FnOnce(&Endpoint)) -> bool {
        let endpoints = lock(&self.endpoints);
        let known = endpoints.iter().find(|known| known.id.as_str() == endpoint);
        known.map(|endpoint| judge(endpoint)).is_some()
    }

    fn find(&self, endpoint: &str) -> Option<Arc<Endpoint>> {
        lock(&self.endpoints).iter().find(|known| known.id.as_str() == endpoint).map(Arc::clone)
    }
}

/// Endpoints of which nothing but their names is known.
fn listed(names: &[EndpointId]) -> Vec<Found> {
    let listed = |id: &EndpointId| Found {
        id: id.clone(),
        incarnation: None,
        availability: Availability::Ready,
    };
    names.iter().map(listed).collect()
}

fn rules(health: &config::Health) -> HealthRules {
    match health.path {
        Some(_) => HealthRules::probed(health.interval),
        None => HealthRules::unprobed(),
    }
}

/// One request in flight at, or waiting for, a pool.
#[derive(Debug)]
pub struct DemandGuard {
    _counted: Counted,
}
