//! The order in which one tenant's waiting requests may ask for a slot.
//!
//! First come, first served, with one exception that keeps a full pool from blocking requests
//! for another: whoever waits for room in a *pool* is passed by requests for other pools; whoever
//! waits for the *tenant's* cap, or is asking right now, is passed by nobody. Requests for one
//! pool never pass each other. So a waiter cannot starve: when its pool has room again but the
//! tenant's cap has none, it waits for the cap and is passed no more.

use super::ids::PoolId;
use super::quota::FullScope;
use std::collections::VecDeque;

/// A place in a [`WaitLine`]; unique within it, ascending by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    pool: PoolId,
    /// What the store last said to this waiter; `None`: it has not been answered yet.
    blocked: Option<FullScope>,
}

impl Waiter {
    fn may_be_passed_towards(&self, pool: &PoolId) -> bool {
        self.blocked == Some(FullScope::Pool) && self.pool != *pool
    }
}

/// The waiting requests of one tenant, oldest first.
#[derive(Debug, Default)]
pub struct WaitLine {
    issued: u64,
    waiters: VecDeque<Waiter>,
}

impl WaitLine {
    /// Waiters in line.
    pub fn depth(&self) -> usize {
        self.waiters.len()
    }

    /// Whether a request for `pool` that is not in line may ask the store at once.
    pub fn newcomer_may_ask(&self, pool: &PoolId) -> bool {
        self.waiters.iter().all(|ahead| ahead.may_be_passed_towards(pool))
    }

    /// Take the last place, `blocked` by what the store just said, if it was asked. `None`: the
    /// line is `max_depth` long already.
    pub fn join(
        &mut self,
        pool: PoolId,
        blocked: Option<FullScope>,
        max_depth: u32,
    ) -> Option<Ticket> {
        if self.waiters.len() as u64 >= u64::from(max_depth) {
            return None;
        }
        self.issued += 1;
        let ticket = Ticket(self.issued);
        self.waiters.push_back(Waiter { ticket, pool, blocked });
        Some(ticket)
    }

    /// Give up a place. Unknown tickets are ignored.
    pub fn leave(&mut self, ticket: Ticket) {
        if let Some(index) = self.index(ticket) {
            self.waiters.remove(index);
        }
    }

    /// The store told this waiter that `scope` has no room.
    pub fn mark(&mut self, ticket: Ticket, scope: FullScope) {
        if let Some(index) = self.index(ticket) {
            self.waiters[index].blocked = Some(scope);
        }
    }

    /// Whether it is this waiter's turn to ask the store.
    pub fn may_ask(&self, ticket: Ticket) -> bool {
        self.index(ticket).is_some_and(|index| {
            let pool = &self.waiters[index].pool;
            self.waiters.iter().take(index).all(|ahead| ahead.may_be_passed_towards(pool))
        })
    }

    /// Everyone whose turn it is, oldest first.
    pub fn turns(&self) -> impl Iterator<Item = Ticket> + '_ {
        self.waiters.iter().map(|waiter| waiter.ticket).filter(|ticket| self.may_ask(*ticket))
    }

    /// What requests for `pool` wait for: the pool if the store said so to one of them, else the
    /// tenant's cap.
    pub fn cause(&self, pool: &PoolId) -> FullScope {
        let pool_is_full =
            |waiter: &Waiter| waiter.pool == *pool && waiter.blocked == Some(FullScope::Pool);
        if self.waiters.iter().any(pool_is_full) { FullScope::Pool } else { FullScope::Tenant }
    }

    fn index(&self, ticket: Ticket) -> Option<usize> {
        self.waiters.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn turns(line: &WaitLine) -> Vec<Ticket> {
        line.turns().collect()
    }

    #[test]
    fn the_line_is_never_longer_than_its_depth() {
        let mut line = WaitLine::default();
        assert_eq!(line.join("p".into(), None, 0), None);
        let first = line.join("p".into(), None, 1).unwrap();
        assert_eq!(line.join("p".into(), None, 1), None);
        line.leave(first);
        assert!(line.join("p".into(), None, 1).is_some());
    }

    #[test]
    fn only_the_head_may_ask_and_newcomers_do_not_pass_it() {
        let mut line = WaitLine::default();
        assert!(line.newcomer_may_ask(&"p".into()));
        let first = line.join("p".into(), Some(FullScope::Tenant), 9).unwrap();
        let second = line.join("p".into(), None, 9).unwrap();
        assert_eq!(turns(&line), [first]);
        assert!(!line.newcomer_may_ask(&"p".into()) && !line.newcomer_may_ask(&"q".into()));
        line.leave(first);
        assert_eq!(turns(&line), [second]);
    }

    #[test]
    fn a_full_pool_is_passed_by_requests_for_another() {
        let mut line = WaitLine::default();
        let for_p = line.join("p".into(), Some(FullScope::Pool), 9).unwrap();
        let also_p = line.join("p".into(), None, 9).unwrap();
        let for_q = line.join("q".into(), None, 9).unwrap();
        assert_eq!(turns(&line), [for_p]);
        line.leave(also_p);
        assert_eq!(turns(&line), [for_p, for_q]);
        assert!(!line.newcomer_may_ask(&"q".into()), "for_q has not been answered");
        line.mark(for_q, FullScope::Pool);
        assert!(line.newcomer_may_ask(&"r".into()));
        line.mark(for_p, FullScope::Tenant);
        assert!(!line.newcomer_may_ask(&"r".into()), "nobody passes a waiter for the cap");
    }

    #[test]
    fn the_cause_is_the_pool_only_if_the_store_said_so() {
        let mut line = WaitLine::default();
        let ticket = line.join("p".into(), None, 9).unwrap();
        assert_eq!(line.cause(&"p".into()), FullScope::Tenant);
        line.mark(ticket, FullScope::Pool);
        assert_eq!(line.cause(&"p".into()), FullScope::Pool);
        assert_eq!(line.cause(&"q".into()), FullScope::Tenant);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Join(usize),
        Leave(prop::sample::Index),
        Mark(prop::sample::Index, bool),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let index = any::<prop::sample::Index>;
        prop::collection::vec(
            prop_oneof![
                3 => (0..3usize).prop_map(Step::Join),
                2 => index().prop_map(Step::Leave),
                2 => (index(), any::<bool>()).prop_map(|(nth, pool)| Step::Mark(nth, pool)),
            ],
            0..150,
        )
    }

    proptest! {
        #[test]
        fn somebody_may_always_ask_and_one_pool_stays_in_order(steps in steps()) {
            let pools = ["p", "q", "r"];
            let mut line = WaitLine::default();
            let mut waiting: Vec<(Ticket, usize)> = Vec::new();
            for step in steps {
                match step {
                    Step::Join(pool) => {
                        let joined = line.join(pools[pool].into(), None, 8);
                        prop_assert_eq!(joined.is_some(), waiting.len() < 8);
                        waiting.extend(joined.map(|ticket| (ticket, pool)));
                    }
                    Step::Leave(nth) if !waiting.is_empty() => {
                        line.leave(waiting.remove(nth.index(waiting.len())).0);
                    }
                    Step::Mark(nth, full_pool) if !waiting.is_empty() => {
                        let scope = if full_pool { FullScope::Pool } else { FullScope::Tenant };
                        line.mark(waiting[nth.index(waiting.len())].0, scope);
                    }
                    _ => {}
                }
                prop_assert_eq!(line.depth(), waiting.len());
                let turns = turns(&line);
                prop_assert_eq!(turns.first(), waiting.first().map(|(ticket, _)| ticket));
                for pool in 0..pools.len() {
                    let asking = turns.iter().filter(|t| waiting.contains(&(**t, pool))).count();
                    prop_assert!(asking <= 1, "two of one pool may ask");
                }
            }
        }
    }
}
