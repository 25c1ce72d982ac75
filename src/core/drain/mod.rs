//! The drain of this replica: a pure state machine.
//!
//! ```text
//!            begin, SIGTERM        propagation            nothing open
//!  Serving ─────────────────▶ LameDuck ─────▶ Draining ─────────────────▶ Drained ──SIGTERM──▶ exit 0
//!                                │               │
//!                 second SIGTERM │               │ deadline − cut_margin, second SIGTERM
//!                                └──────▶ Cut ◀──┘
//!                                          └── nothing open, or cut_margin later; SIGTERM ──▶ exit 2
//! ```
//!
//! * Serving → LameDuck: a preStop call (*begin*) or the first SIGTERM, whichever comes first;
//!   from now on every time counts. The replica says that it is not ready, but still accepts and
//!   admits, because load balancers go on sending for a while.
//! * LameDuck → Draining: `propagation` after the start. New and queued requests are answered
//!   `draining`; what runs, runs on. An idle replica stays a lame duck as long as a busy one: the
//!   requests that are still on their way to it are what the time is for.
//! * Draining → Drained: no request runs and nobody is left to be answered. Idle connections are
//!   not waited for.
//! * Draining → Cut: `deadline − cut_margin` after the start, or a second SIGTERM. Every stream
//!   that still runs is told to end with an explicit error.
//! * LameDuck → Cut: a second SIGTERM; who sends it does not want to wait.
//! * Drained → exit 0: SIGTERM was or is received. A drain that a preStop call began stays Drained
//!   until then, so that Kubernetes' own order (preStop returns, then SIGTERM) ends at once.
//! * Cut → exit 2: SIGTERM was or is received, and the cut *settled*: the streams have ended and
//!   gave their slots back, or `cut_margin` has passed since the cut.
//!
//! A SIGTERM during a drain that a preStop call began is the first one and changes nothing but
//! that the process exits at the end. *Begin* during a drain changes nothing.

use super::observe::DrainPhase;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// The times of a drain; all count from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainRules {
    /// How long the replica goes on admitting.
    pub propagation: Duration,
    /// The end. Greater than `propagation + cut_margin`.
    pub deadline: Duration,
    /// How long before the deadline streams are cut, and how long their ends may take.
    pub cut_margin: Duration,
}

/// What a replica means for the connections of its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Farewell {
    /// They are kept.
    #[default]
    Stays,
    /// Each is told to go with its next answer, or at once over HTTP/2. One that idles is kept:
    /// its next request is still served.
    Leaves,
    /// The next request would be refused, so one that idles is closed.
    Refuses,
}

/// What happens to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A preStop call, or an operator.
    Begin,
    /// SIGTERM.
    Terminate,
    /// Nothing is open. Counts only while the machine [waits for it](DrainMachine::awaits_idle).
    Idle,
    /// Time passed.
    Tick,
}

/// What the owner of the machine must do after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Admit nobody any more.
    Close,
    /// End every running request.
    Cut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    LameDuck,
    Draining,
    Drained,
    Cut { settled_at: Instant, settled: bool },
}

/// The state of the drain.
#[derive(Clone, Debug)]
pub struct DrainMachine {
    rules: DrainRules,
    stage: Stage,
    /// Set when the stage leaves Serving.
    start: Option<Instant>,
    terminated: bool,
}

impl DrainMachine {
    /// A serving replica.
    pub const fn new(rules: DrainRules) -> Self {
        Self { rules, stage: Stage::Serving, start: None, terminated: false }
    }

    /// Apply one event; what to do, in order.
    pub fn on(&mut self, event: Event, now: Instant) -> &'static [Action] {
        match event {
            Event::Begin => self.begin(now),
            Event::Terminate => {
                let again = std::mem::replace(&mut self.terminated, true);
                match (self.stage, again) {
                    (Stage::Serving, _) => self.begin(now),
                    (Stage::LameDuck, true) => {
                        self.cut(now);
                        &[Action::Close, Action::Cut]
                    }
                    (Stage::Draining, true) => self.cut(now),
                    _ => &[],
                }
            }
            Event::Idle => self.idle(),
            Event::Tick => self.tick(now),
        }
    }

    /// When the machine wants its next [`Event::Tick`].
    pub fn wakes_at(&self) -> Option<Instant> {
        let start = self.start?;
        match self.stage {
            Stage::LameDuck => Some(start + self.rules.propagation),
            Stage::Draining => Some(start + self.cut_after()),
            Stage::Cut { settled_at, settled: false } => Some(settled_at),
            Stage::Serving | Stage::Drained | Stage::Cut { settled: true, .. } => None,
        }
    }

    /// Whether [`Event::Idle`] would change anything.
    pub const fn awaits_idle(&self) -> bool {
        matches!(self.stage, Stage::Draining | Stage::Cut { settled: false, .. })
    }

    /// Where the drain is.
    pub const fn phase(&self) -> DrainPhase {
        match self.stage {
            Stage::Serving => DrainPhase::Serving,
            Stage::LameDuck => DrainPhase::LameDuck,
            Stage::Draining => DrainPhase::Draining,
            Stage::Drained => DrainPhase::Drained,
            Stage::Cut { .. } => DrainPhase::Cut,
        }
    }

    /// When the drain began.
    pub const fn start(&self) -> Option<Instant> {
        self.start
    }

    /// Nothing more will happen but the exit.
    pub const fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Drained | Stage::Cut { settled: true, .. })
    }

    /// The process's exit code, once it should end.
    pub const fn exit(&self) -> Option<u8> {
        match (self.terminated, self.stage) {
            (true, Stage::Drained) => Some(0),
            (true, Stage::Cut { settled: true, .. }) => Some(2),
            _ => None,
        }
    }

    fn begin(&mut self, now: Instant) -> &'static [Action] {
        if self.stage == Stage::Serving {
            (self.stage, self.start) = (Stage::LameDuck, Some(now));
        }
        &[]
    }

    fn cut(&mut self, now: Instant) -> &'static [Action] {
        let settled_at = now + self.rules.cut_margin;
        self.stage = Stage::Cut { settled_at, settled: false };
        &[Action::Cut]
    }

    fn idle(&mut self) -> &'static [Action] {
        match &mut self.stage {
            Stage::Draining => self.stage = Stage::Drained,
            Stage::Cut { settled, .. } => *settled = true,
            Stage::Serving | Stage::LameDuck | Stage::Drained => {}
        }
        &[]
    }

    fn tick(&mut self, now: Instant) -> &'static [Action] {
        if self.wakes_at().is_none_or(|at| now < at) {
            return &[];
        }
        match &mut self.stage {
            Stage::LameDuck => {
                self.stage = Stage::Draining;
                &[Action::Close]
            }
            Stage::Draining => self.cut(now),
            Stage::Cut { settled, .. } => {
                *settled = true;
                &[]
            }
            Stage::Serving | Stage::Drained => &[],
        }
    }

    fn cut_after(&self) -> Duration {
        self.rules.deadline.saturating_sub(self.rules.cut_margin)
    }
}
