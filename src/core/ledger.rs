//! The books of one tenant: every arrival is in exactly one place.
//!
//! ```text
//!            admit
//!   Queued ────────▶ InFlight
//!     │ end             │ end
//!     └──▶ Outcome ◀────┘
//! ```
//!
//! Each operation moves one arrival from one place to another, so
//! `arrivals = Σ outcomes + in_flight + queued` holds before and after every call; there is no
//! operation that adds to one place alone. The caller serialises access (one lock a tenant) and
//! remembers the [`Stage`] of each arrival.

use super::outcome::Outcome;
use std::collections::BTreeMap;

/// Where an arrival that has not ended is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waits for a decision, or in the tenant's queue.
    Queued,
    /// Admitted and not ended.
    InFlight,
}

/// Counts of one tenant since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    arrivals: u64,
    queued: u64,
    in_flight: u64,
    outcomes: [u64; Outcome::ALL.len()],
}

impl Ledger {
    /// One more request; it waits for a decision.
    pub fn arrive(&mut self) -> Stage {
        self.arrivals += 1;
        self.queued += 1;
        Stage::Queued
    }

    /// The arrival at `stage` was admitted. Admitting twice is the same as admitting once.
    pub fn admit(&mut self, stage: Stage) -> Stage {
        if stage == Stage::Queued {
            self.queued -= 1;
            self.in_flight += 1;
        }
        Stage::InFlight
    }

    /// The arrival at `stage` ended. Must be called once for each arrival; the stage is gone.
    pub fn end(&mut self, stage: Stage, outcome: Outcome) {
        match stage {
            Stage::Queued => self.queued -= 1,
            Stage::InFlight => self.in_flight -= 1,
        }
        self.outcomes[outcome.index()] += 1;
    }

    /// Requests that arrived.
    pub const fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Requests that wait for a decision or in the queue.
    pub const fn queued(&self) -> u64 {
        self.queued
    }

    /// Admitted requests that have not ended.
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Requests that ended with `outcome`.
    pub const fn ended(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome.index()]
    }

    /// Ended requests by outcome name; every outcome is present.
    pub fn outcomes(&self) -> BTreeMap<&'static str, u64> {
        Outcome::ALL.iter().map(|outcome| (outcome.as_str(), self.ended(*outcome))).collect()
    }

    /// Whether the books balance. Always true; checked by tests and by the scrape's own test.
    pub fn balanced(&self) -> bool {
        self.arrivals == self.outcomes.iter().sum::<u64>() + self.in_flight + self.queued
    }

    /// The books of several tenants as one.
    pub fn merge(mut self, other: &Self) -> Self {
        self.arrivals += other.arrivals;
        self.queued += other.queued;
        self.in_flight += other.in_flight;
        for (mine, theirs) in self.outcomes.iter_mut().zip(other.outcomes) {
            *mine += theirs;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Arrive,
        Admit(usize),
        End(usize, usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            Just(Step::Arrive),
            any::<usize>().prop_map(Step::Admit),
            (any::<usize>(), 0..Outcome::ALL.len()).prop_map(|(who, how)| Step::End(who, how)),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn books_balance_after_every_step(steps in steps()) {
            let mut ledger = Ledger::default();
            let mut open: Vec<Stage> = Vec::new();
            let mut ended = [0_u64; Outcome::ALL.len()];
            for step in steps {
                match step {
                    Step::Arrive => open.push(ledger.arrive()),
                    Step::Admit(who) if !open.is_empty() => {
                        let who = who % open.len();
                        open[who] = ledger.admit(open[who]);
                    }
                    Step::End(who, how) if !open.is_empty() => {
                        let stage = open.swap_remove(who % open.len());
                        ledger.end(stage, Outcome::ALL[how]);
                        ended[how] += 1;
                    }
                    Step::Admit(_) | Step::End(..) => {}
                }
                prop_assert!(ledger.balanced());
                let queued = open.iter().filter(|stage| **stage == Stage::Queued).count();
                prop_assert_eq!(ledger.queued(), queued as u64);
                prop_assert_eq!(ledger.in_flight(), (open.len() - queued) as u64);
                for outcome in Outcome::ALL {
                    prop_assert_eq!(ledger.ended(outcome), ended[outcome.index()]);
                }
            }
        }
    }

    #[test]
    fn merged_books_balance_and_add_up() {
        let mut one = Ledger::default();
        let stage = one.arrive();
        one.end(stage, Outcome::Complete);
        one.arrive();
        let mut two = Ledger::default();
        let stage = two.arrive();
        two.admit(stage);
        let both = one.merge(&two);
        assert!(both.balanced());
        assert_eq!((both.arrivals(), both.queued(), both.in_flight()), (3, 1, 1));
        assert_eq!(both.outcomes()["complete"], 1);
        assert_eq!(both.outcomes().len(), Outcome::ALL.len());
    }
}
