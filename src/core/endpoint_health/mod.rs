//! Whether an endpoint may be chosen: a pure state machine over what requests and probes saw.
//!
//! ```text
//!            mark, n failed probes                drain answer, order
//!   ┌──────────────────────────────── Ready ───────────────────────────────┐
//!   ▼              healthy probe        ▲ ▲      restore, mark too old     ▼
//! Down ─────────────────────────────────┘ └──────────────────────────── Draining
//!   ▲                              probe cannot connect                    │
//!   └──────────────────────────────────────────────────────────────────────┘
//!        (an order also takes a Down endpoint to Draining)
//! ```
//!
//! * Ready → Down, *suspected*: a request could not connect, or lost a fresh connection before any
//!   answer. One request may be wrong, so a suspect is still a last resort for the choice: a pool
//!   whose only evidence is passive is never locked out.
//! * Ready → Down, *confirmed*: [`HealthRules::failures`] probes failed in a row.
//! * Down, suspected → confirmed: a probe that began after the mark failed. Now nothing is sent
//!   there, and a pool without another endpoint answers `no_endpoint`.
//! * Down → Ready: one healthy probe that began after the mark.
//! * Ready → Draining, *answered*: the engine gave vLLM's drain-time answer. Its health path goes
//!   on saying 200 until the process is gone, so a healthy probe proves nothing here.
//! * Ready, Down → Draining, *ordered*: an operator or the orchestrator said so.
//! * Draining → Down, confirmed: a probe could not connect, so the process is gone. The next
//!   healthy probe is a new process, and the endpoint is Ready with a clean slate.
//! * Draining → Ready: restored by an operator; or, for *answered* alone, the mark got older than
//!   [`HealthRules::drain_mark`] (an engine that really still drains is marked again by its next
//!   answer, at the price of one retry).
//!
//! Evidence older than the present state is ignored: a probe or request that began before the
//! last transition says nothing about the process that serves now.

use super::observe::EndpointPhase;
use super::routing::Standing;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// The numbers of the state machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HealthRules {
    /// Time between probes of an endpoint that is not Down, before jitter.
    pub interval: Duration,
    /// A probe that took longer has failed.
    pub timeout: Duration,
    /// Failed probes in a row that take a Ready endpoint down; at least 1.
    pub failures: u32,
    /// Time to the first probe of an endpoint that just went down; doubles with each failure.
    pub backoff_first: Duration,
    /// The longest time between probes of a Down endpoint.
    pub backoff_max: Duration,
    /// How long a drain answer is believed if the process is never seen to go.
    pub drain_mark: Duration,
}

impl Default for HealthRules {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(2),
            failures: 3,
            backoff_first: Duration::from_millis(250),
            backoff_max: Duration::from_secs(5),
            drain_mark: Duration::from_secs(600),
        }
    }
}

/// A Ready endpoint that goes down again within this time has its backoff continued.
const FORGIVEN_AFTER: Duration = Duration::from_secs(30);

/// What a request saw that speaks against its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// No connection: refused, unreachable or too slow.
    Unreachable,
    /// A fresh connection ended before any answer, or an answer ended before its first token.
    Lost,
    /// The engine answered that it is shutting down.
    DrainAnswer,
}

/// What a probe saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    Healthy,
    /// Connected, but no good answer in time.
    Unhealthy,
    /// No connection.
    Unreachable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// `failures`: failed probes in a row.
    Ready {
        failures: u32,
    },
    Down {
        confirmed: bool,
    },
    Draining {
        ordered: bool,
    },
}

/// The state of one endpoint.
#[derive(Clone, Debug)]
pub struct EndpointHealth {
    rules: HealthRules,
    state: State,
    since: Instant,
    /// Exponent of the backoff.
    strikes: u32,
}

impl EndpointHealth {
    /// A new endpoint is Ready until something speaks against it.
    pub fn new(rules: HealthRules, now: Instant) -> Self {
        Self { rules, state: State::Ready { failures: 0 }, since: now, strikes: 0 }
    }

    /// What operators see.
    pub fn phase(&self, now: Instant) -> EndpointPhase {
        match self.state {
            State::Ready { .. } => EndpointPhase::Ready,
            State::Down { .. } => EndpointPhase::Down,
            State::Draining { .. } if self.mark_is_too_old(now) => EndpointPhase::Ready,
            State::Draining { .. } => EndpointPhase::Draining,
        }
    }

    /// What the choice sees.
    pub fn standing(&self, now: Instant) -> Standing {
        match (self.phase(now), self.state) {
            (EndpointPhase::Ready, _) => Standing::Ready,
            (EndpointPhase::Down, State::Down { confirmed: false }) => Standing::LastResort,
            (EndpointPhase::Down | EndpointPhase::Draining, _) => Standing::Out,
        }
    }

    /// A request that chose this endpoint at `chosen_at` reports at `now`.
    pub fn mark(&mut self, mark: Mark, chosen_at: Instant, now: Instant) {
        self.settle(now);
        if chosen_at < self.since {
            return;
        }
        match (self.state, mark) {
            (State::Ready { .. } | State::Down { .. }, Mark::DrainAnswer) => {
                self.enter(State::Draining { ordered: false }, now);
            }
            (State::Ready { .. }, Mark::Unreachable | Mark::Lost) => {
                self.go_down(false, now);
            }
            (State::Down { .. } | State::Draining { .. }, _) => {}
        }
    }

    /// A probe that began at `began` ended at `now`.
    pub fn probed(&mut self, probe: Probe, began: Instant, now: Instant) {
        self.settle(now);
        if began < self.since {
            return;
        }
        match (self.state, probe) {
            (State::Ready { .. }, Probe::Healthy) => self.state = State::Ready { failures: 0 },
            (State::Ready { failures }, _) if failures + 1 < self.rules.failures => {
                self.state = State::Ready { failures: failures + 1 };
            }
            (State::Ready { .. }, _) => self.go_down(true, now),
            (State::Down { .. }, Probe::Healthy) => {
                self.enter(State::Ready { failures: 0 }, now);
            }
            (State::Down { .. }, _) => {
                // `since` stays: it is the time of the mark, and later probes are newer anyway.
                self.state = State::Down { confirmed: true };
                self.strikes = self.strikes.saturating_add(1);
            }
            (State::Draining { .. }, Probe::Unreachable) => self.go_down(true, now),
            (State::Draining { .. }, _) => {}
        }
    }

    /// Take the endpoint out of service until its process is replaced or it is restored.
    pub fn order_drain(&mut self, now: Instant) {
        if self.state != (State::Draining { ordered: true }) {
            self.enter(State::Draining { ordered: true }, now);
        }
    }

    /// Undo a drain, ordered or answered. Other states stay.
    pub fn restore(&mut self, now: Instant) {
        if matches!(self.state, State::Draining { .. }) {
            self.enter(State::Ready { failures: 0 }, now);
        }
    }

    /// Time from now to the next probe, before jitter.
    pub fn probe_delay(&self) -> Duration {
        match self.state {
            State::Ready { .. } | State::Draining { .. } => self.rules.interval,
            State::Down { .. } => {
                let factor = 1u32.checked_shl(self.strikes).unwrap_or(u32::MAX);
                self.rules.backoff_first.saturating_mul(factor).min(self.rules.backoff_max)
            }
        }
    }

    fn go_down(&mut self, confirmed: bool, now: Instant) {
        let relapse = now.saturating_duration_since(self.since) < FORGIVEN_AFTER;
        self.strikes = if relapse { self.strikes.saturating_add(1) } else { 0 };
        self.enter(State::Down { confirmed }, now);
    }

    fn enter(&mut self, state: State, now: Instant) {
        (self.state, self.since) = (state, now);
    }

    fn mark_is_too_old(&self, now: Instant) -> bool {
        self.state == (State::Draining { ordered: false })
            && now.saturating_duration_since(self.since) >= self.rules.drain_mark
    }

    fn settle(&mut self, now: Instant) {
        if self.mark_is_too_old(now) {
            let since = self.since + self.rules.drain_mark;
            self.enter(State::Ready { failures: 0 }, since);
        }
    }
}
