//! Whose turn it is at the cap: how long a replica may keep what comes free for its own queue.
//!
//! A slot that goes from one request of a replica to the next costs nothing; one that goes round
//! through the store costs a question of everybody who waits. So a replica keeps slots for its own
//! line, and every now and then offers one to all. Who else waits it cannot know: whether the slot
//! was taken says so, and offers that nobody takes become rarer.

use super::params::Moment;
use std::time::Duration;

/// Longest time that slots are kept while offers are taken.
const LONGEST: Duration = Duration::from_secs(2);
/// Slots kept for each question that an offer causes, so that they cost half a question each.
const KEPT: u32 = 2;
/// Offers that nobody takes: each of the first few doubles the time to the next.
const CALMEST: u32 = 2;

/// The slots of one leaf that came free while somebody waited for them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    kept: u32,
    /// When the turn began: a slot was granted, or the first was kept.
    since: Option<Moment>,
    /// Offers in a row that nobody took, up to a few.
    calm: u32,
    /// An offer was made, and whether it was taken is not known.
    offered: bool,
    /// Offers of others that are for others: everybody has a turn before this replica has another.
    lets: u64,
}

impl Turn {
    /// The store granted one more: a turn begins.
    pub fn begin(&mut self, now: Moment) {
        (self.kept, self.since) = (0, Some(now));
    }

    /// A slot that came free goes to the next request here.
    pub fn keep(&mut self, now: Moment) {
        self.kept = self.kept.saturating_add(1);
        self.since.get_or_insert(now);
    }

    /// It is time to offer one.
    pub fn is_over(&self, replicas: u64, now: Moment) -> bool {
        // One gives, all ask, the giver too.
        let questions = u32::try_from(replicas.saturating_add(1)).unwrap_or(u32::MAX);
        let most = questions.saturating_mul(KEPT << self.calm);
        self.since.is_some_and(|since| {
            self.kept >= most || now.saturating_sub(since) >= LONGEST * (1 << self.calm)
        })
    }

    /// Slots go back to the store.
    pub fn pass(&mut self) {
        (self.kept, self.since) = (0, None);
    }

    /// Slots go back although somebody waits here.
    pub fn offer(&mut self, replicas: u64) {
        self.pass();
        self.offered = true;
        self.lets = replicas.saturating_sub(2);
    }

    /// A slot came free elsewhere: whether those who wait here let others go first.
    pub fn lets_go(&mut self) -> bool {
        let lets = self.lets > 0;
        self.lets = self.lets.saturating_sub(1);
        lets
    }

    /// Whoever waits here asked again.
    pub fn answered(&mut self, taken: bool) {
        if std::mem::take(&mut self.offered) {
            self.calm = if taken { 0 } else { (self.calm + 1).min(CALMEST) };
            self.lets = if taken { self.lets } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Duration::from_secs(9);

    /// Slots kept before one is offered, at most, and the time after which the second is.
    fn bounds(turn: Turn, replicas: u64) -> (u32, Duration) {
        let (mut slots, mut time) = (turn, turn);
        let mut count = 0;
        while !slots.is_over(replicas, NOW) {
            slots.keep(NOW);
            count += 1;
        }
        time.keep(NOW);
        let mut after = Duration::ZERO;
        while !time.is_over(replicas, NOW + after) {
            after += Duration::from_millis(100);
        }
        (count, after)
    }

    #[test]
    fn an_offer_is_due_after_some_slots_or_some_time() {
        assert_eq!(bounds(Turn::default(), 3), (8, LONGEST));
        assert_eq!(bounds(Turn::default(), 2), (6, LONGEST));
        assert!(!Turn::default().is_over(3, NOW * 9), "nothing was kept");
    }

    #[test]
    fn offers_that_nobody_takes_become_rarer_up_to_a_bound() {
        let mut turn = Turn::default();
        for expected in [(8, 2), (16, 4), (32, 8), (32, 8)] {
            assert_eq!(bounds(turn, 3), (expected.0, Duration::from_secs(expected.1)));
            turn.offer(3);
            turn.answered(false);
        }
        turn.offer(3);
        turn.answered(true);
        assert_eq!(bounds(turn, 3), (8, LONGEST));
    }

    #[test]
    fn whoever_had_a_turn_lets_the_others_have_theirs() {
        let lets = |turn: &mut Turn| (0..4).map(|_| turn.lets_go()).collect::<Vec<_>>();
        let mut turn = Turn::default();
        assert_eq!(lets(&mut turn), [false; 4]);
        turn.offer(4);
        turn.answered(true);
        assert_eq!(lets(&mut turn), [true, true, false, false]);
        turn.offer(4);
        turn.answered(false);
        assert_eq!(lets(&mut turn), [false; 4], "nobody else waits");
    }

    #[test]
    fn only_the_answer_after_an_offer_tells_whether_it_was_taken() {
        let mut turn = Turn::default();
        turn.answered(false);
        assert_eq!(bounds(turn, 3), (8, LONGEST));
        turn.keep(NOW);
        turn.pass();
        assert_eq!(bounds(turn, 3), (8, LONGEST), "what went back begins a new count");
    }
}
