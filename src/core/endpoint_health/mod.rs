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
//! * Down → Ready: one healthy probe that began after the mark; or the orchestrator, which did not
//!   call the endpoint ready before, does so now.
//! * Ready → Draining, *answered*: the engine gave vLLM's drain-time answer. Its health path goes
//!   on saying 200 until the process is gone, so a healthy probe proves nothing here.
//! * Ready, Down → Draining, *answered*, also when another replica had the answer, unless a newer
//!   process was seen here since.
//! * Ready, Down → Draining, *ordered*: an operator or the orchestrator said so.
//! * Draining → Down, confirmed: a probe could not connect, or the endpoint's name leads to another
//!   address, so the process is gone. The next
//!   healthy probe is a new process, and the endpoint is Ready with a clean slate.
//! * Draining → Ready: restored by an operator; or, for *answered* alone, the mark got older than
//!   [`HealthRules::drain_mark`] (an engine that really still drains is marked again by its next
//!   answer, at the price of one retry).
//!
//! An endpoint that is never probed has no Down, *confirmed*: it goes Down → Ready when its
//! backoff has passed, and the next request finds out.
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
    /// Time between probes of an endpoint that is not Down, before jitter; `None`: never probed.
    pub interval: Option<Duration>,
    /// Failed probes in a row that take a Ready endpoint down; at least 1.
    pub failures: u32,
    /// Time to the first probe of an endpoint that just went down; doubles with each failure.
    pub backoff_first: Duration,
    /// The longest time between probes of a Down endpoint.
    pub backoff_max: Duration,
    /// How long a drain answer is believed if the process is never seen to go.
    pub drain_mark: Duration,
}

impl HealthRules {
    /// The rules of an endpoint that is probed every `interval`.
    ///
    /// Three failures tell a dead engine from a busy one within a few intervals. Ten minutes are
    /// longer than any shutdown that an orchestrator would wait for.
    pub const fn probed(interval: Duration) -> Self {
        Self {
            interval: Some(interval),
            failures: 3,
            backoff_first: Duration::from_millis(250),
            backoff_max: Duration::from_secs(5),
            drain_mark: Duration::from_secs(600),
        }
    }

    /// The rules of an endpoint that is never probed. Nobody sees its process go, so a drain
    /// answer is asked again each minute.
    pub const fn unprobed() -> Self {
        Self { interval: None, drain_mark: Duration::from_secs(60), ..Self::probed(Duration::ZERO) }
    }
}

/// A Ready endpoint that goes down again within this time has its backoff continued.
const FORGIVEN_AFTER: Duration = Duration::from_secs(30);

/// What a request saw that speaks against its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// No connection: unreachable or too slow.
    Unreachable,
    /// The connection was refused: nobody listens there any more.
    Refused,
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
#[derive(Clone, Copy, Debug)]
pub struct EndpointHealth {
    rules: HealthRules,
    state: State,
    since: Instant,
    /// Exponent of the backoff.
    strikes: u32,
    /// When a probe last found a process where there had been none.
    renewed: Option<Instant>,
}

impl EndpointHealth {
    /// A new endpoint is Ready until something speaks against it.
    pub fn new(rules: HealthRules, now: Instant) -> Self {
        Self { rules, state: State::Ready { failures: 0 }, since: now, strikes: 0, renewed: None }
    }

    /// What operators see.
    pub fn phase(&self, now: Instant) -> EndpointPhase {
        match self.at(now).state {
            State::Ready { .. } => EndpointPhase::Ready,
            State::Down { .. } => EndpointPhase::Down,
            State::Draining { .. } => EndpointPhase::Draining,
        }
    }

    /// What the choice sees.
    pub fn standing(&self, now: Instant) -> Standing {
        match self.at(now).state {
            State::Ready { .. } => Standing::Ready,
            State::Down { confirmed: false } => Standing::LastResort,
            State::Down { confirmed: true } | State::Draining { .. } => Standing::Out,
        }
    }

    /// A reload. The present state stays.
    pub fn set_rules(&mut self, rules: HealthRules) {
        self.rules = rules;
    }

    /// A request that chose this endpoint at `chosen_at` reports at `now`.
    pub fn mark(&mut self, mark: Mark, chosen_at: Instant, now: Instant) {
        *self = self.at(now);
        if chosen_at < self.since {
            return;
        }
        match (self.state, mark) {
            (State::Ready { .. } | State::Down { .. }, Mark::DrainAnswer) => {
                self.enter(State::Draining { ordered: false }, now);
            }
            (State::Ready { .. }, Mark::Unreachable | Mark::Refused | Mark::Lost) => {
                self.go_down(false, now);
            }
            (State::Down { .. } | State::Draining { .. }, _) => {}
        }
    }

    /// A probe that began at `began` ended at `now`.
    pub fn probed(&mut self, probe: Probe, began: Instant, now: Instant) {
        *self = self.at(now);
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
                self.renewed = Some(now);
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

    /// Its name leads to another address now. What drained was the process at the old one.
    pub fn moved(&mut self, now: Instant) {
        *self = self.at(now);
        if matches!(self.state, State::Draining { .. }) {
            self.go_down(true, now);
        }
    }

    /// Another replica had the engine's drain answer at `since`. Void if a newer process was seen
    /// here, or if such an answer is not believed any more.
    pub fn mark_from_fleet(&mut self, since: Instant, now: Instant) {
        *self = self.at(now);
        let newer = self.renewed.is_some_and(|renewed| renewed > since);
        let old = now.saturating_duration_since(since) >= self.rules.drain_mark;
        if !newer && !old && !matches!(self.state, State::Draining { .. }) {
            self.enter(State::Draining { ordered: false }, now);
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

    /// An orchestrator's own probe found the process ready. Other states stay.
    pub fn vouched(&mut self, now: Instant) {
        *self = self.at(now);
        if matches!(self.state, State::Down { .. }) {
            self.enter(State::Ready { failures: 0 }, now);
        }
    }

    /// Time from now to the next probe, before jitter; `None`: never.
    pub fn probe_delay(&self) -> Option<Duration> {
        self.rules.interval.map(|interval| match self.state {
            State::Ready { .. } | State::Draining { .. } => interval,
            State::Down { .. } => self.backoff(),
        })
    }

    fn backoff(&self) -> Duration {
        let factor = 1_u32.checked_shl(self.strikes).unwrap_or(u32::MAX);
        self.rules.backoff_first.saturating_mul(factor).min(self.rules.backoff_max)
    }

    fn go_down(&mut self, confirmed: bool, now: Instant) {
        let relapse = now.saturating_duration_since(self.since) < FORGIVEN_AFTER;
        self.strikes = if relapse { self.strikes.saturating_add(1) } else { 0 };
        self.enter(State::Down { confirmed }, now);
    }

    fn enter(&mut self, state: State, now: Instant) {
        (self.state, self.since) = (state, now);
    }

    /// The state at `now`: some states end by time alone.
    fn at(&self, now: Instant) -> Self {
        let ends_after = match self.state {
            State::Draining { ordered: false } => self.rules.drain_mark,
            State::Down { .. } if self.rules.interval.is_none() => self.backoff(),
            _ => return *self,
        };
        let end = self.since + ends_after;
        if now < end {
            return *self;
        }
        Self { state: State::Ready { failures: 0 }, since: end, ..*self }
    }
}
