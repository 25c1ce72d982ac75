//! One endpoint and the leases on it.

use super::counts::{Count, Counted};
use crate::core::endpoint_health::{EndpointHealth, HealthRules, Mark, Probe};
use crate::core::ids::EndpointId;
use crate::core::observe::{EndpointPhase, EndpointState};
use crate::core::routing::{Candidate, Standing};
use crate::core::sync::lock;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// One engine replica, or one gateway address.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) id: EndpointId,
    /// Where `id` resolves to; `None`: not resolved yet, cannot be chosen.
    address: Mutex<Option<SocketAddr>>,
    health: Mutex<EndpointHealth>,
    in_flight: Arc<Count>,
    /// Rings when the keeper should look at its endpoints again.
    keeper: Arc<Notify>,
}

impl Endpoint {
    /// An endpoint named by an address is usable at once; any other name must be resolved first.
    /// `in_flight` goes on from what still runs there.
    pub(super) fn new(
        id: EndpointId,
        rules: HealthRules,
        in_flight: Arc<Count>,
        keeper: Arc<Notify>,
    ) -> Self {
        let address = id.as_str().parse().ok();
        Self {
            id,
            address: Mutex::new(address),
            health: Mutex::new(EndpointHealth::new(rules, Instant::now().into_std())),
            in_flight,
            keeper,
        }
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        *lock(&self.address)
    }

    /// The name resolved to `address`.
    pub(super) fn set_address(&self, address: SocketAddr) {
        let before = lock(&self.address).replace(address);
        if before != Some(address) {
            tracing::info!(endpoint = %self.id, %address, "endpoint resolved");
            if before.is_some() {
                self.judge(EndpointHealth::moved);
            }
        }
    }

    pub(super) fn set_rules(&self, rules: HealthRules) {
        lock(&self.health).set_rules(rules);
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
        let standing = match self.address() {
            Some(_) => lock(&self.health).standing(now.into_std()),
            None => Standing::Out,
        };
        Candidate { standing, in_flight: self.in_flight.now() }
    }

    pub(super) fn phase(&self, now: Instant) -> EndpointPhase {
        match self.address() {
            Some(_) => lock(&self.health).phase(now.into_std()),
            None => EndpointPhase::Down,
        }
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
        lock(&self.health).probe_delay()
    }

    /// Change the health, tell an operator if the phase changed, and wake the keeper if so.
    fn judge(&self, change: impl FnOnce(&mut EndpointHealth, std::time::Instant)) {
        let now = Instant::now().into_std();
        let (before, after) = {
            let mut health = lock(&self.health);
            let before = health.phase(now);
            change(&mut health, now);
            (before, health.phase(now))
        };
        if before != after {
            tracing::info!(
                endpoint = %self.id, from = before.as_str(), to = after.as_str(),
                "endpoint changed its state"
            );
            self.keeper.notify_one();
        }
    }
}

/// One request's use of one endpoint: counted from the choice until the drop.
#[derive(Debug)]
pub struct EndpointLease {
    endpoint: Arc<Endpoint>,
    address: SocketAddr,
    chosen_at: Instant,
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
        Some(Self { endpoint, address, chosen_at: now, _counted: counted })
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
        self.endpoint.judge(|health, now| health.mark(mark, chosen_at, now));
    }
}
