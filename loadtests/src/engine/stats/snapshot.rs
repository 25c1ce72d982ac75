//! The figures, as they are read.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Figures of an engine since its start or the last reset.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StatsSnapshot {
    /// Phase of the engine's life: `serving`, `draining`, `aborting`, `frozen`, `engine_dead`,
    /// `exited`.
    pub phase: &'static str,
    /// Generation requests whose head was read.
    pub requests: u64,
    /// Generation requests in flight: head read, generation not ended, abort not processed.
    pub in_flight: usize,
    /// Most in flight at once.
    pub max_in_flight: usize,
    /// Sequences that run (a request with `n: 2` has two).
    pub running: usize,
    /// Sequences that wait.
    pub waiting: usize,
    /// Most that were waiting (calibrated profile).
    pub waiting_peak: usize,
    /// Answers to generation requests, by status.
    pub by_status: BTreeMap<u16, u64>,
    /// Answers to all others but `/sim/…`, by status.
    pub other_by_status: BTreeMap<u16, u64>,
    /// Generations answered to their regular end.
    pub completed: u64,
    /// Generation requests whose client went away before the end.
    pub aborts: u64,
    /// Longest time from seeing a client's close to the processed abort.
    pub abort_latency_max_ms: f64,
    /// Output tokens.
    pub tokens_generated: u64,
    /// Prompt tokens looked up in the prefix cache, and found (calibrated profile).
    pub prefix_queries: u64,
    /// See [`StatsSnapshot::prefix_queries`].
    pub prefix_hits: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open_connections: usize,
    /// By tenant. A request is counted here once its tenant is known: with its head if that has
    /// `x-sim-tenant`, else with its whole body.
    pub tenants: BTreeMap<String, TenantStats>,
}

/// Figures of one tenant.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TenantStats {
    /// Generation requests.
    pub requests: u64,
    /// In flight now.
    pub in_flight: usize,
    /// Most in flight at once.
    pub max_in_flight: usize,
    /// Answered to the regular end.
    pub completed: u64,
    /// Client gone before the end.
    pub aborts: u64,
    /// Longest time from seeing a client's close to the processed abort.
    pub abort_latency_max_ms: f64,
    /// Output tokens.
    pub tokens_generated: u64,
}

/// One abort.
#[derive(Debug, Clone)]
pub struct AbortRecord {
    /// Whose request; empty if unknown.
    pub tenant: String,
    /// It had no token yet.
    pub queued: bool,
    /// Output tokens generated before.
    pub tokens: u64,
    /// When the close was seen.
    pub seen: Instant,
    /// From there until the scheduler had processed it.
    pub latency: Duration,
}

impl StatsSnapshot {
    /// The figures of a tenant, begun if new.
    pub(super) fn tenant(&mut self, name: &str) -> &mut TenantStats {
        if !self.tenants.contains_key(name) {
            self.tenants.insert(name.to_owned(), TenantStats::default());
        }
        self.tenants.entry(name.to_owned()).or_default()
    }

    /// The same with everything forgotten but what is in flight.
    pub(super) fn restarted(&self) -> Self {
        let tenants = self.tenants.iter().filter(|(_, t)| t.in_flight > 0);
        Self {
            in_flight: self.in_flight,
            max_in_flight: self.in_flight,
            tenants: tenants
                .map(|(name, t)| {
                    let (in_flight, max_in_flight) = (t.in_flight, t.in_flight);
                    (name.clone(), TenantStats { in_flight, max_in_flight, ..Default::default() })
                })
                .collect(),
            ..Self::default()
        }
    }
}
