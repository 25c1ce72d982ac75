//! The counts of a run while it goes on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::record::{Arrival, Outcome, Slo};
use crate::sync::lock;

/// Counts, shared by all tasks of a run.
#[derive(Debug, Clone, Default)]
pub struct Live {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    phase: Mutex<String>,
    planned: AtomicU64,
    recorded: AtomicU64,
    decided: AtomicU64,
    in_flight: AtomicU64,
    good: AtomicU64,
    by_outcome: [AtomicU64; Outcome::ALL.len()],
}

/// The counts at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Phase under way.
    pub phase: String,
    /// Planned so far, as far as known (open loops).
    pub planned: u64,
    /// Arrivals whose time has come.
    pub decided: u64,
    /// In flight.
    pub in_flight: u64,
    /// Good.
    pub good: u64,
    /// By [`Outcome::ALL`].
    pub by_outcome: [u64; Outcome::ALL.len()],
}

/// A request in flight; counted down by its drop.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Inner>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Live {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn phase(&self, name: &str, planned: u64) {
        name.clone_into(&mut lock(&self.inner.phase));
        self.inner.planned.fetch_add(planned, Ordering::Relaxed);
    }

    /// One more in flight, unless there are `bound` already (0: no bound).
    pub(super) fn begin(&self, bound: usize) -> Option<InFlight> {
        let count = &self.inner.in_flight;
        let more = |n: u64| (bound == 0 || n < bound as u64).then_some(n + 1);
        let begun = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        begun.then(|| InFlight(Arc::clone(&self.inner)))
    }

    pub(super) fn decided(&self) {
        self.inner.decided.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn record(&self, arrival: &Arrival, slo: &Slo) {
        self.inner.recorded.fetch_add(1, Ordering::Relaxed);
        if arrival.warm_up {
            return;
        }
        if arrival.good(slo) {
            self.inner.good.fetch_add(1, Ordering::Relaxed);
        }
        let at = Outcome::ALL.iter().position(|o| *o == arrival.outcome).unwrap_or(0);
        self.inner.by_outcome[at].fetch_add(1, Ordering::Relaxed);
    }

    /// Arrivals recorded, warm-up included.
    pub(super) fn recorded(&self) -> u64 {
        self.inner.recorded.load(Ordering::Relaxed)
    }

    /// The counts now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Snapshot {
            phase: lock(&self.inner.phase).clone(),
            planned: get(&self.inner.planned),
            decided: get(&self.inner.decided),
            in_flight: get(&self.inner.in_flight),
            good: get(&self.inner.good),
            by_outcome: std::array::from_fn(|i| get(&self.inner.by_outcome[i])),
        }
    }
}

impl Snapshot {
    /// Requests that ended so.
    #[must_use]
    pub fn of(&self, outcome: Outcome) -> u64 {
        let at = Outcome::ALL.iter().position(|o| *o == outcome);
        at.map_or(0, |at| self.by_outcome[at])
    }
}
