use super::Action::{Close, Cut};
use super::Event::{Begin, Idle, Terminate, Tick};
use super::*;
use proptest::prelude::*;

/// A machine with a clock in seconds since its creation.
struct Clocked {
    machine: DrainMachine,
    zero: Instant,
}

/// Ten seconds of propagation, cut at 145 of 150.
fn machine() -> Clocked {
    let seconds = Duration::from_secs;
    let rules =
        DrainRules { propagation: seconds(10), deadline: seconds(150), cut_margin: seconds(5) };
    Clocked { machine: DrainMachine::new(rules), zero: Instant::now() }
}

impl Clocked {
    fn at(&mut self, second: u64, event: Event) -> &'static [Action] {
        self.machine.on(event, self.zero + Duration::from_secs(second))
    }

    fn wakes_at(&self) -> Option<u64> {
        self.machine.wakes_at().map(|at| (at - self.zero).as_secs())
    }

    fn is(&self, phase: DrainPhase, exit: Option<u8>) {
        assert_eq!((self.machine.phase(), self.machine.exit()), (phase, exit));
    }
}

#[test]
fn serving_stays_so_without_an_event() {
    let mut it = machine();
    assert_eq!((it.at(999, Tick), it.at(999, Idle)), (&[][..], &[][..]));
    assert_eq!(it.wakes_at(), None);
    it.is(DrainPhase::Serving, None);
}

#[test]
fn sigterm_alone_goes_all_the_way_and_exits_0() {
    let mut it = machine();
    it.at(100, Terminate);
    it.is(DrainPhase::LameDuck, None);
    assert_eq!(it.wakes_at(), Some(110));
    assert_eq!(it.at(109, Tick), []);
    it.at(105, Idle);
    it.is(DrainPhase::LameDuck, None);
    assert_eq!(it.at(110, Tick), [Close]);
    it.is(DrainPhase::Draining, None);
    assert_eq!(it.wakes_at(), Some(245));
    it.at(120, Idle);
    it.is(DrainPhase::Drained, Some(0));
    assert_eq!(it.wakes_at(), None);
}

#[test]
fn prestop_ends_drained_and_waits_for_sigterm() {
    let mut it = machine();
    it.at(0, Begin);
    it.at(10, Tick);
    it.at(11, Idle);
    it.is(DrainPhase::Drained, None);
    assert!(it.machine.has_ended());
    it.at(900, Begin);
    it.is(DrainPhase::Drained, None);
    it.at(900, Terminate);
    it.is(DrainPhase::Drained, Some(0));
}

#[test]
fn both_in_any_order_count_from_the_first() {
    for (first, second) in [(Begin, Terminate), (Terminate, Begin)] {
        let mut it = machine();
        it.at(0, first);
        it.at(4, second);
        assert_eq!(it.wakes_at(), Some(10));
        it.at(10, Tick);
        it.at(12, second);
        it.is(if second == Begin { DrainPhase::Draining } else { DrainPhase::Cut }, None);
    }
}

#[test]
fn the_deadline_cuts_and_the_margin_settles() {
    let mut it = machine();
    it.at(0, Begin);
    it.at(10, Tick);
    assert_eq!(it.at(144, Tick), []);
    assert_eq!(it.at(145, Tick), [Cut]);
    it.is(DrainPhase::Cut, None);
    assert_eq!(it.wakes_at(), Some(150));
    it.at(146, Terminate);
    it.is(DrainPhase::Cut, None);
    it.at(150, Tick);
    it.is(DrainPhase::Cut, Some(2));
}

#[test]
fn a_cut_settles_early_when_its_streams_have_ended() {
    let mut it = machine();
    it.at(0, Terminate);
    it.at(10, Tick);
    it.at(145, Tick);
    assert!(it.machine.awaits_idle() && !it.machine.has_ended());
    it.at(146, Idle);
    it.is(DrainPhase::Cut, Some(2));
}

#[test]
fn a_cut_without_sigterm_waits_for_it() {
    let mut it = machine();
    it.at(0, Begin);
    it.at(10, Tick);
    it.at(145, Tick);
    it.at(150, Tick);
    it.is(DrainPhase::Cut, None);
    it.at(200, Terminate);
    it.is(DrainPhase::Cut, Some(2));
}

#[test]
fn a_second_sigterm_cuts_at_once() {
    let mut lame = machine();
    lame.at(0, Terminate);
    assert_eq!(lame.at(1, Terminate), [Close, Cut]);
    assert_eq!(lame.wakes_at(), Some(6));

    let mut draining = machine();
    draining.at(0, Begin);
    draining.at(10, Tick);
    assert_eq!(draining.at(20, Terminate), []);
    assert_eq!(draining.at(21, Terminate), [Cut]);
    assert_eq!(draining.at(22, Terminate), []);
    draining.at(23, Idle);
    draining.is(DrainPhase::Cut, Some(2));
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![Just(Begin), Just(Terminate), Just(Idle), Just(Tick), Just(Tick)];
    prop::collection::vec((0..60_u64, event), 0..40)
}

proptest! {
    #[test]
    fn phases_only_advance_and_each_action_happens_once(events in events()) {
        let mut it = machine();
        let (mut now, mut done, mut sigterms) = (0, Vec::new(), 0);
        let mut last = DrainPhase::Serving as u8;
        for (pause, event) in events {
            now += pause;
            sigterms += u32::from(event == Terminate);
            done.extend(it.at(now, event));
            let phase = it.machine.phase();
            prop_assert!(phase as u8 >= last);
            last = phase as u8;
            let closed = done.contains(&Close);
            prop_assert_eq!(closed, last >= DrainPhase::Draining as u8);
            prop_assert_eq!(done.contains(&Cut), phase == DrainPhase::Cut);
            prop_assert!(done.iter().filter(|action| **action == Close).count() <= 1);
            prop_assert!(done.iter().filter(|action| **action == Cut).count() <= 1);
            prop_assert_eq!(it.machine.exit().is_some(), sigterms > 0 && it.machine.has_ended());
            prop_assert_eq!(it.machine.start().is_some(), phase != DrainPhase::Serving);
        }
    }

    #[test]
    fn a_drain_ends_by_its_deadline_whatever_the_streams_do(
        begun_by_sigterm: bool, extra in 0..3_u64,
    ) {
        let mut it = machine();
        it.at(0, if begun_by_sigterm { Terminate } else { Begin });
        while let Some(at) = it.wakes_at() {
            prop_assert!(at + extra <= 150 + 3 * extra);
            it.at(at + extra, Tick);
        }
        prop_assert!(it.machine.has_ended());
        prop_assert_eq!(it.machine.phase(), DrainPhase::Cut);
    }
}
