//! Answers that come late: after the fence, or for another generation. None of them counts.

use super::{MS, params};
use crate::config::{OnFence, WhenUnavailable};
use crate::core::quota::StoreFault;
use crate::quota::replica::{
    Answer, Asked, Call, Code, Command, Event, Grant, Learning, Lot, Machine, Moment, Notice, Shown,
};
use crate::quota::suite::path;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const BEGIN: Moment = Duration::from_secs(1000);

/// A machine whose calls the test answers itself. Nothing times out.
struct Alone {
    machine: Machine,
    now: Moment,
    sent: Vec<Call>,
    granted: Vec<Lot>,
    fences: usize,
}

impl Alone {
    /// With its first lease, for which it asked at [`BEGIN`].
    fn joined(on_fence: OnFence) -> Self {
        let params = params(WhenUnavailable::Escrow, on_fence);
        let mut machine = Machine::new(params, [7; 32], BEGIN);
        machine.connected(BEGIN);
        let mut alone =
            Self { machine, now: BEGIN, sent: Vec::new(), granted: Vec::new(), fences: 0 };
        let join = alone.takes(|command| matches!(command, Command::Join(_)));
        alone.answer(&join, joined("one"));
        alone
    }

    fn step(&mut self, by: Duration) {
        self.now += by;
        let calls = self.machine.poll(self.now);
        self.sent.extend(calls);
        self.events();
    }

    /// The oldest call of a kind that was sent and is not answered.
    fn takes(&mut self, is: impl Fn(&Command) -> bool) -> Call {
        self.step(Duration::ZERO);
        let at = self.sent.iter().position(|call| is(&call.command));
        self.sent.remove(at.expect("such a call was sent"))
    }

    fn answer(&mut self, call: &Call, answer: Answer) {
        self.machine.answered(&call.token, Ok(answer), self.now);
        self.events();
    }

    fn events(&mut self) {
        for event in self.machine.take_events() {
            match event {
                Event::Granted(_, lot) => self.granted.push(lot),
                Event::Notice(Notice::Fenced { .. }) => self.fences += 1,
                _ => {}
            }
        }
    }

    /// A request that waits, and the SET that asks for it.
    fn asks(&mut self) -> Call {
        let asked = self.machine.ask(&path("a", 4, "p", None), self.now);
        assert!(matches!(asked, Asked::Waits(_)), "{asked:?}");
        self.takes(|command| matches!(command, Command::Set(_)))
    }
}

fn joined(generation: &str) -> Answer {
    let (learning, clock) = (Learning::default(), Duration::ZERO);
    Answer::Joined { generation: generation.into(), learning, clock }
}

fn held(n: u32) -> Answer {
    let shown = Shown { cap: Some(4), total: n, idle: 0, pressed: false };
    let free = Shown { cap: None, ..shown };
    let grants = vec![Grant { n, code: Code::Ok, at: None }];
    Answer::Held { learning: Duration::ZERO, grants, scopes: vec![shown, free] }
}

fn beaten() -> Answer {
    Answer::Beaten { learning: Learning::default(), pressed: Vec::new() }
}

#[test]
fn a_grant_in_time_is_used() {
    let mut alone = Alone::joined(OnFence::Cut);
    let set = alone.asks();
    alone.now += 2 * SECOND;
    alone.answer(&set, held(1));
    assert_eq!((alone.granted.len(), alone.fences), (1, 0));
}

#[test]
fn a_grant_after_the_fence_is_not() {
    for on_fence in [OnFence::Cut, OnFence::Keep] {
        let mut alone = Alone::joined(on_fence);
        let set = alone.asks();
        alone.now += 2500 * MS;
        alone.answer(&set, held(1));
        assert_eq!((alone.granted.len(), alone.fences), (0, 1));
        // Nor after the next incarnation has its lease, which asks by itself.
        let join = alone.takes(|command| matches!(command, Command::Join(_)));
        alone.answer(&join, joined("one"));
        alone.answer(&set, held(1));
        assert_eq!(alone.granted.len(), 0);
        let again = alone.takes(|command| matches!(command, Command::Set(_)));
        alone.answer(&again, held(1));
        assert_eq!(alone.granted.len(), 1);
    }
}

#[test]
fn a_beat_renews_from_when_it_was_sent_and_not_after_the_fence() {
    let mut alone = Alone::joined(OnFence::Cut);
    alone.step(SECOND);
    let beat = alone.takes(|command| matches!(command, Command::Beat(_)));
    alone.now += SECOND;
    alone.answer(&beat, beaten());
    // Renewed until 2.5 s after it left, not after it came back.
    alone.step(1499 * MS);
    assert_eq!(alone.fences, 0);
    alone.step(MS);
    assert_eq!(alone.fences, 1);
    let beats = alone.sent.iter().position(|call| matches!(call.command, Command::Beat(_)));
    let late = alone.sent.remove(beats.expect("it went on beating"));
    alone.answer(&late, beaten());
    assert_eq!(alone.machine.deadline(), None, "no answer revives an incarnation");
}

#[test]
fn a_join_whose_lease_is_over_when_it_is_heard_of_is_asked_for_again() {
    let params = params(WhenUnavailable::Escrow, OnFence::Cut);
    let mut machine = Machine::new(params, [7; 32], BEGIN);
    machine.connected(BEGIN);
    let mut alone = Alone { machine, now: BEGIN, sent: Vec::new(), granted: Vec::new(), fences: 0 };
    let join = alone.takes(|command| matches!(command, Command::Join(_)));
    alone.now += 2500 * MS;
    alone.answer(&join, joined("one"));
    assert_eq!(alone.machine.deadline(), None);
    let again = alone.takes(|command| matches!(command, Command::Join(_)));
    alone.answer(&again, joined("one"));
    assert_eq!(alone.machine.deadline(), Some(alone.now + 2500 * MS));
}

#[test]
fn a_grant_of_a_lost_generation_is_not_used() {
    let mut alone = Alone::joined(OnFence::Cut);
    let set = alone.asks();
    alone.step(SECOND);
    let beat = alone.takes(|command| matches!(command, Command::Beat(_)));
    alone.answer(&beat, Answer::NewGeneration);
    alone.answer(&set, held(1));
    assert_eq!(alone.granted.len(), 0);
    let join = alone.takes(|command| matches!(command, Command::Join(_)));
    alone.answer(&join, joined("two"));
    alone.answer(&set, held(1));
    assert_eq!((alone.granted.len(), alone.fences), (0, 0));
}

#[test]
fn a_call_given_up_grants_nothing_when_its_answer_comes_after_all() {
    let mut alone = Alone::joined(OnFence::Cut);
    let set = alone.asks();
    alone.now += 10 * MS;
    alone.machine.answered(&set.token, Err(StoreFault::Unreachable), alone.now);
    alone.answer(&set, held(1));
    assert_eq!(alone.granted.len(), 0);
}
