//! What one incarnation holds of one leaf, who runs on it and who waits for it.
//!
//! Always `running ≤ held`, and while the incarnation's deadline has not passed `held` is at most
//! what the store has for it.

use super::book::{LeafId, ScopeId};
use super::params::Moment;
use super::turn::Turn;
use super::usage::Usage;
use crate::core::quota::FullScope;
use std::collections::VecDeque;

/// One waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(super) number: u64,
    pub(super) leaf: LeafId,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub ticket: Ticket,
    /// Its time is over then.
    pub until: Moment,
    pub manner: Manner,
}

/// What "full" means to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It is refused; `full`: the store said so once.
    Asks { full: Option<Verdict> },
    /// It stays in line; it is told if another level than `told` has no room.
    Queues { told: Option<FullScope> },
}

impl Waiter {
    fn queues(&self) -> bool {
        matches!(self.manner, Manner::Queues { .. })
    }

    fn verdict(&self) -> Option<Verdict> {
        match self.manner {
            Manner::Asks { full } => full,
            Manner::Queues { .. } => None,
        }
    }
}

/// The store said that a scope of the leaf has no room: until then there is no use in asking
/// again, unless something is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub scope: ScopeId,
    pub until: Moment,
}

/// What a waiter was told, and will be refused with unless a slot comes free before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub scope: FullScope,
    /// `None`: when it is told so again.
    pub at: Option<Moment>,
}

/// What the store has, by the last counted answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sure {
    pub n: u32,
    /// The version it was answered under; 0: the store has nothing.
    pub version: u64,
}

#[derive(Debug, Default)]
pub(super) struct Leaf {
    pub held: u32,
    pub running: u32,
    /// In order of arrival; the first `covered` of them are part of what was asked for last.
    line: VecDeque<Waiter>,
    covered: usize,
    pub sure: Sure,
    /// Of `sure.n`, those the store was last told to be unused.
    pub told_idle: u32,
    /// The version of the SET that is not answered; 0: none.
    pub asked: u64,
    /// What it said was needed.
    pub asked_need: u32,
    /// A command was not answered: what the store has is not known.
    pub dirty: bool,
    /// Unused slots must go back before more is asked for: a cap was lowered.
    pub shed: bool,
    /// Those who wait ask again then; `None`: at once.
    pub again: Option<Moment>,
    /// A slot came free since the last question left: its answer is from before that.
    pub freed: bool,
    /// The last answer, if it was "full".
    pub block: Option<Block>,
    /// A slot was offered to others: those who wait here do not ask before then.
    pub yields_until: Option<Moment>,
    pub turn: Turn,
    /// The last answer was that the store does not know yet.
    pub learning: bool,
    /// Nothing runs and nobody waits, since then.
    pub idle_since: Option<Moment>,
    pub usage: Usage,
}

impl Leaf {
    pub fn waiting(&self) -> u32 {
        u32::try_from(self.line.len()).unwrap_or(u32::MAX)
    }

    pub fn nobody_waits(&self) -> bool {
        self.line.is_empty()
    }

    /// Running and waiting.
    pub fn busy(&self) -> u32 {
        self.running.saturating_add(self.waiting())
    }

    /// An unused slot is held.
    pub fn has_unused(&self) -> bool {
        self.running < self.held
    }

    /// The store believes that more is unused than is: whoever waits there, waits for it in vain.
    pub fn owes_confession(&self) -> bool {
        self.told_idle > self.sure.n.saturating_sub(self.busy())
    }

    /// The leaf is part of what the store may hold for this incarnation.
    pub fn is_known(&self) -> bool {
        self.sure.version > 0 || self.asked > 0 || self.dirty
    }

    /// One more request runs on a held slot.
    pub fn start(&mut self) {
        self.running += 1;
        self.idle_since = None;
        self.usage.note(self.busy());
    }

    /// One request ended.
    pub fn stop(&mut self, now: Moment) {
        self.running = self.running.saturating_sub(1);
        if self.busy() == 0 {
            self.idle_since = Some(now);
        }
    }

    pub fn wait(&mut self, waiter: Waiter) {
        self.line.push_back(waiter);
        self.idle_since = None;
        self.usage.note(self.busy());
    }

    /// Whoever is first, if a held slot is unused; it runs now.
    pub fn start_next(&mut self) -> Option<Ticket> {
        if !self.has_unused() {
            return None;
        }
        let next = self.line.pop_front()?;
        self.covered = self.covered.saturating_sub(1);
        self.start();
        Some(next.ticket)
    }

    /// The store said that `scope` is full to those who are covered. The first of them that leaves
    /// without a slot: one that was told so before, or any if `at_once`; of those who queue, one
    /// that was told otherwise.
    pub fn refuse(&mut self, scope: FullScope, at_once: bool, now: Moment) -> Option<Ticket> {
        let refused = self.line.iter().take(self.covered).position(|waiter| match waiter.manner {
            Manner::Asks { full } => at_once || full.is_some(),
            Manner::Queues { told } => told != Some(scope),
        });
        self.leave(refused, now).map(|waiter| waiter.ticket)
    }

    /// The others that are covered stay: with this verdict, or until that time if they queue.
    pub fn sentence(&mut self, verdict: Verdict, until: Moment) {
        for waiter in self.line.iter_mut().take(self.covered) {
            match &mut waiter.manner {
                Manner::Asks { full } => _ = full.get_or_insert(verdict),
                Manner::Queues { .. } => waiter.until = until,
            }
        }
    }

    /// The first that does not queue leaves, if its verdict is due.
    pub fn refuse_due(&mut self, now: Moment) -> Option<(Ticket, FullScope)> {
        let first = self.line.iter().position(|waiter| !waiter.queues())?;
        let verdict = self.line[first].verdict()?;
        let due = verdict.at.is_some_and(|at| at <= now);
        let refused = self.leave(due.then_some(first), now);
        refused.map(|waiter| (waiter.ticket, verdict.scope))
    }

    /// The first whose time is over leaves.
    pub fn expire(&mut self, now: Moment) -> Option<Ticket> {
        let over = self.soonest().find(|(_, waiter)| waiter.until <= now).map(|(at, _)| at);
        self.leave(over, now).map(|waiter| waiter.ticket)
    }

    /// Those of whom one is the first whose time is over: all who queue before the first who does
    /// not, and that one; behind it nobody's time ends earlier.
    fn soonest(&self) -> impl Iterator<Item = (usize, &Waiter)> {
        let queue = self.line.iter().take_while(|waiter| waiter.queues()).count();
        self.line.iter().enumerate().take(queue + 1)
    }

    /// Everybody leaves without a slot.
    pub fn dismiss(&mut self, now: Moment) -> VecDeque<Waiter> {
        self.covered = 0;
        let line = std::mem::take(&mut self.line);
        self.rest(now);
        line
    }

    /// A waiter gave up. `false`: it is not here.
    pub fn forget(&mut self, ticket: Ticket, now: Moment) -> bool {
        // Tickets are numbered in order of arrival.
        let at = self.line.binary_search_by_key(&ticket.number, |waiter| waiter.ticket.number);
        self.leave(at.ok(), now).is_some()
    }

    /// Somebody waits who does not queue.
    pub fn somebody_asks(&self) -> bool {
        self.line.iter().any(|waiter| !waiter.queues())
    }

    fn leave(&mut self, at: Option<usize>, now: Moment) -> Option<Waiter> {
        let waiter = self.line.remove(at?)?;
        self.covered -= usize::from(at? < self.covered);
        self.rest(now);
        Some(waiter)
    }

    fn rest(&mut self, now: Moment) {
        if self.busy() == 0 && self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
    }

    /// Everybody who waits is part of what is asked for now.
    pub fn cover(&mut self) {
        self.covered = self.line.len();
    }

    /// Nobody is part of a question any more.
    pub fn uncover(&mut self) {
        self.covered = 0;
    }

    /// When the time of the first waiter is over.
    pub fn first_until(&self) -> Option<Moment> {
        self.soonest().map(|(_, waiter)| waiter.until).min()
    }

    /// When those who wait should ask.
    pub fn ask_at(&self) -> Moment {
        let [again, yields] = [self.again, self.yields_until].map(Option::unwrap_or_default);
        again.max(yields)
    }

    /// A slot came free elsewhere: what the last answer said does not count any more. Those who
    /// wait ask now, or `later` if it is the others' turn.
    pub fn hear(&mut self, now: Moment, later: Moment) {
        if self.yields_until.is_none_or(|until| until <= now) {
            (self.again, self.freed, self.block) = (None, true, None);
            self.yields_until = self.turn.lets_go().then_some(later);
        }
    }

    /// R6: the question is not answered.
    pub fn give_up(&mut self) {
        self.asked = 0;
        self.dirty = true;
        self.uncover();
    }

    /// R11: what is held is what runs; the store has nothing of the new incarnation.
    pub fn fence(&mut self) {
        self.held = self.running;
        (self.sure, self.told_idle) = (Sure::default(), 0);
        (self.asked, self.dirty, self.shed) = (0, false, false);
        (self.again, self.learning) = (None, false);
        (self.block, self.yields_until, self.turn) = (None, None, Turn::default());
        self.uncover();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW: Moment = Duration::from_secs(1);
    const POOL: FullScope = FullScope::Pool;

    fn line(count: u64) -> Leaf {
        let mut leaf = Leaf::default();
        for ticket in 1..=count {
            leaf.wait(waiter(ticket));
        }
        leaf
    }

    fn number(number: u64) -> Ticket {
        Ticket { number, leaf: LeafId(0) }
    }

    fn waiter(ticket: u64) -> Waiter {
        Waiter { ticket: number(ticket), until: NOW * 2, manner: Manner::Asks { full: None } }
    }

    #[test]
    fn only_the_covered_are_refused() {
        let mut leaf = line(2);
        leaf.cover();
        leaf.wait(waiter(3));
        assert_eq!(leaf.refuse(POOL, true, NOW), Some(number(1)));
        assert_eq!(leaf.refuse(POOL, true, NOW), Some(number(2)));
        assert_eq!(leaf.refuse(POOL, true, NOW), None);
        assert_eq!(leaf.waiting(), 1);
    }

    #[test]
    fn a_verdict_waits_for_its_time_or_for_another_answer() {
        let mut leaf = line(2);
        leaf.cover();
        assert_eq!(leaf.refuse(POOL, false, NOW), None, "told for the first time");
        leaf.sentence(Verdict { scope: POOL, at: Some(NOW * 2) }, NOW * 2);
        leaf.wait(waiter(3));
        assert_eq!(leaf.refuse_due(NOW), None);
        leaf.cover();
        assert_eq!(leaf.refuse(POOL, false, NOW), Some(number(1)), "told again");
        assert_eq!(leaf.refuse_due(NOW * 2), Some((number(2), POOL)));
        assert_eq!((leaf.refuse_due(NOW * 9), leaf.refuse(POOL, false, NOW)), (None, None));
    }

    #[test]
    fn who_queues_stays_and_is_told_once_what_it_waits_for() {
        let mut leaf = Leaf::default();
        leaf.wait(Waiter { manner: Manner::Queues { told: None }, ..waiter(1) });
        leaf.wait(Waiter { manner: Manner::Queues { told: Some(POOL) }, ..waiter(2) });
        leaf.wait(waiter(3));
        leaf.cover();
        assert_eq!(leaf.refuse(POOL, false, NOW), Some(number(1)), "told what it did not know");
        assert_eq!(leaf.refuse(POOL, false, NOW), None);
        leaf.sentence(Verdict { scope: POOL, at: Some(NOW) }, NOW * 9);
        assert_eq!(leaf.refuse_due(NOW), Some((number(3), POOL)), "behind one that queues");
        assert_eq!((leaf.refuse_due(NOW * 8), leaf.expire(NOW * 8)), (None, None));
        assert_eq!((leaf.first_until(), leaf.expire(NOW * 9)), (Some(NOW * 9), Some(number(2))));
    }

    #[test]
    fn the_time_of_one_that_asks_is_seen_behind_those_that_queue() {
        let mut leaf = Leaf::default();
        let told = Manner::Queues { told: Some(POOL) };
        leaf.wait(Waiter { manner: told, until: NOW * 5, ..waiter(1) });
        leaf.wait(waiter(2));
        assert_eq!((leaf.first_until(), leaf.expire(NOW * 2)), (Some(NOW * 2), Some(number(2))));
        assert_eq!((leaf.expire(NOW * 2), leaf.waiting()), (None, 1));
    }

    #[test]
    fn a_covered_waiter_that_leaves_is_not_replaced_by_one_that_came_later() {
        let mut leaf = line(2);
        leaf.cover();
        leaf.wait(waiter(3));
        assert!(leaf.forget(number(1), NOW) && !leaf.forget(number(1), NOW));
        assert_eq!(leaf.refuse(POOL, true, NOW), Some(number(2)));
        assert_eq!(leaf.refuse(POOL, true, NOW), None);
        assert!(leaf.forget(number(3), NOW));
        assert_eq!(leaf.idle_since, Some(NOW));
    }

    #[test]
    fn who_starts_was_first_and_runs_on_a_held_slot() {
        let mut leaf = line(2);
        assert_eq!(leaf.start_next(), None);
        leaf.held = 1;
        assert_eq!(leaf.start_next(), Some(number(1)));
        assert_eq!(leaf.start_next(), None);
        assert_eq!((leaf.running, leaf.waiting(), leaf.idle_since), (1, 1, None));
    }

    #[test]
    fn a_fence_keeps_what_runs_and_nothing_else() {
        let mut leaf = line(0);
        (leaf.held, leaf.asked, leaf.dirty) = (3, 7, true);
        leaf.sure = Sure { n: 3, version: 6 };
        leaf.start();
        leaf.fence();
        assert_eq!((leaf.held, leaf.running, leaf.sure.n, leaf.asked), (1, 1, 0, 0));
        assert!(!leaf.is_known());
    }
}
