//! One endpoint and the leases on it.

use super::counts::{Count, Counted, may_be_same};
use crate::core::discovery::{Availability, Found, Incarnation};
use crate::core::endpoint_health::{EndpointHealth, HealthRules, Mark, Probe};
use crate::core::ids::EndpointId;
use crate::core::observe::{EndpointPhase, EndpointState};
use crate::core::routing::{Candidate, Standing};
use crate::core::sync::lock;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// One engine replica, or one gateway address.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) id: EndpointId,
    /// Which pod it is, once that is known.
    incarnation: OnceLock<Incarnation>,
    known: Mutex<Known>,
    in_flight: Arc<Count>,
    /// Changes each time the endpoint begins to leave.
    departures: watch::Sender<()>,
    /// Rings when the keeper should look at its endpoints again.
    keeper: Arc<Notify>,
}

/// What is known of an endpoint.
#[derive(Debug)]
struct Known {
    /// Where `id` resolves to; `None`: not resolved yet, cannot be chosen.
    address: Option<SocketAddr>,
    /// What the source of the endpoint says; its health counts only while this is Ready.
    availability: Availability,
    health: EndpointHealth,
}

impl Known {
    fn standing(&self, now: Instant) -> Standing {
        match (self.address, self.availability) {
            (Some(_), Availability::Ready) => self.health.standing(now.into_std()),
            _ => Standing::Out,
        }
    }

    fn phase(&self, now: Instant) -> EndpointPhase {
        match (self.address, self.availability) {
            (_, Availability::Leaving) => EndpointPhase::Draining,
            (Some(_), Availability::Ready) => self.health.phase(now.into_std()),
            (None, _) | (_, Availability::NotReady) => EndpointPhase::Down,
        }
    }
}

impl Endpoint {
    /// An endpoint named by an address is usable at once; any other name must be resolved first.
    /// `in_flight` goes on from what still runs there.
    pub(super) fn new(
        found: &Found,
        rules: HealthRules,
        in_flight: Arc<Count>,
        keeper: Arc<Notify>,
    ) -> Self {
        let known = Known {
            address: found.id.as_str().parse().ok(),
            availability: found.availability,
            health: EndpointHealth::new(rules, Instant::now().into_std()),
        };
        Self {
            id: found.id.clone(),
            incarnation: found.incarnation.clone().map_or_else(OnceLock::new, OnceLock::from),
            known: Mutex::new(known),
            in_flight,
            departures: watch::Sender::new(()),
            keeper,
        }
    }

    /// Whether `found` may be this endpoint: the same name, and not known to be another pod.
    pub(super) fn is(&self, found: &Found) -> bool {
        self.id == found.id && may_be_same(self.incarnation.get(), found.incarnation.as_ref())
    }

    /// What its source says of it now.
    pub(super) fn said(&self, found: &Found) {
        if let Some(incarnation) = &found.incarnation {
            // If it is set, then to this one; see `is`.
            let _ = self.incarnation.set(Arc::clone(incarnation));
        }
        self.change(|known, now| {
            let before = std::mem::replace(&mut known.availability, found.availability);
            // While it started, its probes failed; the next one may be seconds away.
            if (before, found.availability) == (Availability::NotReady, Availability::Ready) {
                known.health.vouched(now.into_std());
            }
        });
    }

    /// It is of the pool no longer, or nobody listens there: requests that wait here may go
    /// elsewhere.
    pub(super) fn left(&self) {
        self.departures.send_replace(());
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        lock(&self.known).address
    }

    /// The name resolved to `address`.
    pub(super) fn set_address(&self, address: SocketAddr) {
        let before = lock(&self.known).address.replace(address);
        if before != Some(address) {
            tracing::info!(endpoint = %self.id, %address, "endpoint resolved");
            if before.is_some() {
                self.judge(EndpointHealth::moved);
            }
        }
    }

    pub(super) fn set_rules(&self, rules: HealthRules) {
        lock(&self.known).health.set_rules(rules);
    }

    /// Whether `id` is a name to be resolved.
    pub(super) fn has_name(&self) -> bool {
        self.id.as_str().parse::<SocketAddr>().is_err()
    }

    /// Whether its address is unknown or does not serve.
    pub(super) fn is_lost(&self) -> bool {
        self.phase(Instant::now()) == EndpointPhase::Down
    }

    pub(super) fn candidate(&self, now: Instant) -> Candidate {
        Candidate { standing: lock(&self.known).standing(now), in_flight: self.in_flight.now() }
    }

    pub(super) fn phase(&self, now: Instant) -> EndpointPhase {
        lock(&self.known).phase(now)
    }

    pub(super) fn state(&self, now: Instant) -> EndpointState {
        EndpointState {
            endpoint: self.id.clone(),
            state: self.phase(now),
            in_flight: self.in_flight.now(),
        }
    }

    pub(super) fn probed(&self, probe: Probe, began: Instant) {
        self.judge(|health, now| health.probed(probe, began.into_std(), now));
    }

    pub(super) fn order_drain(&self) {
        self.judge(EndpointHealth::order_drain);
    }

    pub(super) fn mark_from_fleet(&self, since: std::time::Instant) {
        self.judge(|health, now| health.mark_from_fleet(since, now));
    }

    pub(super) fn restore(&self) {
        self.judge(EndpointHealth::restore);
    }

    /// Time to the next probe, before jitter; `None`: never.
    pub(super) fn probe_delay(&self) -> Option<Duration> {
        lock(&self.known).health.probe_delay()
    }

    fn judge(&self, change: impl FnOnce(&mut EndpointHealth, std::time::Instant)) -> bool {
        self.change(|known, now| change(&mut known.health, now.into_std()))
    }

    /// Make a change. If it changes the phase, tell an operator, the keeper, and those who wait
    /// here if the endpoint leaves. Whether it changed the phase.
    fn change(&self, change: impl FnOnce(&mut Known, Instant)) -> bool {
        let now = Instant::now();
        let (before, after) = {
            let mut known = lock(&self.known);
            let before = known.phase(now);
            change(&mut known, now);
            (before, known.phase(now))
        };
        if before != after {
            tracing::info!(
                endpoint = %self.id, from = before.as_str(), to = after.as_str(),
                "endpoint changed its state"
            );
            self.keeper.notify_one();
            if after == EndpointPhase::Draining {
                self.left();
            }
        }
        before != after
    }
}

/// One request's use of one endpoint: counted from the choice until the drop.
#[derive(Debug)]
pub struct EndpointLease {
    endpoint: Arc<Endpoint>,
    address: SocketAddr,
    chosen_at: Instant,
    departures: watch::Receiver<()>,
    _counted: Counted,
}

impl EndpointLease {
    /// Counted, unless `limit` is reached. The pool calls this under its choice lock, with the
    /// address the choice saw.
    pub(super) fn new(
        endpoint: Arc<Endpoint>,
        address: SocketAddr,
        limit: Option<u64>,
        now: Instant,
    ) -> Option<Self> {
        let counted = endpoint.in_flight.up_below(limit.unwrap_or(u64::MAX))?;
        let departures = endpoint.departures.subscribe();
        Some(Self { endpoint, address, chosen_at: now, departures, _counted: counted })
    }

    /// Resolves when the endpoint begins to leave: it terminates, drains, refuses connections, or
    /// is of the pool no longer. It does not borrow the lease. Cancel-safe.
    pub fn leaving(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut departures = self.departures.clone();
        async move {
            if departures.changed().await.is_err() {
                // Only without an endpoint, which this lease or the caller's end outlives.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whether the endpoint is known to serve at this moment.
    pub(super) fn is_ready(&self) -> bool {
        self.endpoint.candidate(Instant::now()).standing == Standing::Ready
    }

    /// The endpoint's name, as configured or discovered.
    pub fn id(&self) -> &EndpointId {
        &self.endpoint.id
    }

    /// Where to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Report what speaks against the endpoint. Ignored if the endpoint has changed its state
    /// since this lease was picked.
    pub fn mark(&self, mark: Mark) {
        let chosen_at = self.chosen_at.into_std();
        let changed = self.endpoint.judge(|health, now| health.mark(mark, chosen_at, now));
        if changed && mark == Mark::Refused {
            self.endpoint.left();
        }
    }
}
