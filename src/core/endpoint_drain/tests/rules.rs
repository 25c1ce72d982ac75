//! One rule a test, in seconds since the start.

use crate::core::endpoint_drain::*;
use crate::core::ids::{EndpointId, ReplicaId};
use crate::core::observe::EndpointPhase;
use std::time::{Duration, Instant};

const MARGIN: Duration = Duration::from_secs(5);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn engine() -> EndpointId {
    EndpointId::from("10.0.0.7:8000")
}

/// A replica beside a board, and a clock.
struct Rig {
    zero: Instant,
    board: Board,
    live: Vec<ReplicaId>,
    number: u64,
}

impl Rig {
    fn new(live: &[&str]) -> Self {
        let live = live.iter().map(ReplicaId::from).collect();
        Self { zero: Instant::now(), board: Board::default(), live, number: 0 }
    }

    fn at(&self, second: u64) -> Instant {
        self.zero + secs(second)
    }

    /// `desk` looks, then exchanges with the board as `who`, then looks again.
    fn exchange(&mut self, who: &str, desk: &mut Desk, second: u64, seen: Seen) -> Vec<Action> {
        self.number += 1;
        let (who, now) = (ReplicaId::from(who), self.at(second));
        let dispatch = desk.dispatch(now, |_| seen);
        let live = Some(self.live.clone());
        let view = self.board.exchange((Some(&who), self.number), &dispatch, live, now);
        desk.heard(view, now);
        desk.look(now, |_| seen);
        desk.take_actions()
    }

    fn state(&self, desk: &Desk, second: u64, seen: Seen) -> EndpointDrainState {
        desk.states(self.at(second), |_| seen).remove(&engine()).expect("somebody spoke of it")
    }
}

fn running(in_flight: u64) -> Seen {
    Seen { phase: Some(EndpointPhase::Draining), in_flight, ..Seen::default() }
}

fn phase(phase: EndpointPhase) -> Seen {
    Seen { phase: Some(phase), ..Seen::default() }
}

#[test]
fn alone_it_is_drained_with_the_last_request() {
    let mut rig = Rig::new(&["a"]);
    let mut desk = Desk::new("a", MARGIN);
    desk.order(&engine(), secs(80), rig.at(0));
    assert_eq!(desk.take_actions(), [Action::Stop(engine())]);
    assert_eq!(rig.exchange("a", &mut desk, 0, running(2)), []);
    assert_eq!(rig.state(&desk, 1, running(2)).state, Stage::Draining);
    rig.exchange("a", &mut desk, 2, running(0));
    let state = rig.state(&desk, 2, running(0));
    assert_eq!((state.state, state.in_flight, state.confirmed()), (Stage::Drained, 0, 1));
}

#[test]
fn every_live_replica_must_confirm_and_be_empty() {
    let mut rig = Rig::new(&["a", "b"]);
    let (mut a, mut b) = (Desk::new("a", MARGIN), Desk::new("b", MARGIN));
    a.order(&engine(), secs(80), rig.at(0));
    rig.exchange("a", &mut a, 0, running(0));
    let state = rig.state(&a, 0, running(0));
    assert_eq!((state.state, state.confirmed(), state.replicas.len()), (Stage::Draining, 1, 2));

    let stop = rig.exchange("b", &mut b, 1, running(3));
    assert_eq!(stop, [Action::Stop(engine())]);
    rig.exchange("b", &mut b, 1, running(3));
    rig.exchange("a", &mut a, 2, running(0));
    let state = rig.state(&a, 2, running(0));
    assert_eq!((state.state, state.confirmed(), state.in_flight), (Stage::Draining, 2, 3));

    rig.exchange("b", &mut b, 3, running(0));
    rig.exchange("a", &mut a, 4, running(0));
    assert_eq!(rig.state(&a, 4, running(0)).state, Stage::Drained);
}

#[test]
fn the_dead_count_until_their_lease_is_over() {
    let mut rig = Rig::new(&["a", "b"]);
    let (mut a, mut b) = (Desk::new("a", MARGIN), Desk::new("b", MARGIN));
    a.order(&engine(), secs(80), rig.at(0));
    rig.exchange("a", &mut a, 0, running(0));
    rig.exchange("b", &mut b, 0, running(1));
    rig.exchange("b", &mut b, 0, running(1));
    rig.exchange("a", &mut a, 1, running(0));
    assert_eq!(rig.state(&a, 1, running(0)).in_flight, 1);
    rig.live.pop();
    rig.exchange("a", &mut a, 3, running(0));
    assert_eq!(rig.state(&a, 3, running(0)).state, Stage::Drained);
}

#[test]
fn a_board_out_of_reach_or_in_doubt_proves_nothing() {
    let mut rig = Rig::new(&["a"]);
    let mut desk = Desk::new("a", MARGIN);
    desk.order(&engine(), secs(80), rig.at(0));
    assert_eq!(desk.take_actions(), [Action::Stop(engine())], "done at once all the same");
    desk.lost();
    desk.look(rig.at(1), |_| running(0));
    let state = rig.state(&desk, 1, running(0));
    assert_eq!((state.state, state.fleet_known, state.posted), (Stage::Draining, false, false));
    // The board is there, but lost what it knew of leases.
    let dispatch = desk.dispatch(rig.at(2), |_| running(0));
    let view = rig.board.exchange((None, 1), &dispatch, None, rig.at(2));
    desk.heard(view, rig.at(2));
    desk.look(rig.at(2), |_| running(0));
    let state = rig.state(&desk, 2, running(0));
    assert_eq!((state.state, state.fleet_known, state.posted), (Stage::Draining, false, true));
    rig.exchange("a", &mut desk, 3, running(0));
    assert_eq!(rig.state(&desk, 3, running(0)).state, Stage::Drained);
}

#[test]
fn a_late_old_order_does_not_drain_again() {
    let mut rig = Rig::new(&["a"]);
    let mut desk = Desk::new("a", MARGIN);
    desk.order(&engine(), secs(80), rig.at(0));
    let late = desk.dispatch(rig.at(0), |_| running(0));
    rig.exchange("a", &mut desk, 0, running(0));
    assert!(desk.restore(&engine(), rig.at(1)));
    rig.exchange("a", &mut desk, 1, phase(EndpointPhase::Ready));
    let view = rig.board.exchange((None, 0), &late, None, rig.at(2));
    assert!(!view.entries[0].stance.drains());
    rig.exchange("a", &mut desk, 3, phase(EndpointPhase::Ready));
    assert!(!desk.drains(&engine()));
    assert!(!desk.restore(&engine(), rig.at(4)), "it serves already");
}

#[test]
fn what_is_heard_and_restored_at_once_drives_nobody_away() {
    let mut rig = Rig::new(&["a", "b"]);
    let (mut a, mut b) = (Desk::new("a", MARGIN), Desk::new("b", MARGIN));
    a.order(&engine(), secs(80), rig.at(0));
    rig.exchange("a", &mut a, 0, running(0));
    let view = rig.board.exchange((None, 0), &Dispatch::default(), None, rig.at(1));
    b.heard(view, rig.at(1));
    assert!(b.restore(&engine(), rig.at(1)));
    assert_eq!(b.take_actions(), [Action::Serve(engine())]);
    rig.exchange("b", &mut b, 1, running(1));
    assert_eq!(rig.exchange("a", &mut a, 2, running(0)), [Action::Serve(engine())]);
}

#[test]
fn a_restoration_of_what_was_not_heard_ends_orders_before_it_and_none_after_it() {
    for (ordered, drains) in [(0, false), (2, true)] {
        let mut rig = Rig::new(&["a", "b"]);
        let (mut a, mut b) = (Desk::new("a", MARGIN), Desk::new("b", MARGIN));
        a.order(&engine(), secs(80), rig.at(ordered));
        b.restore_unheard(&engine(), rig.at(1));
        assert!(b.is_busy(), "the board is to be told");
        rig.exchange("a", &mut a, 3, running(0));
        for second in 4..6 {
            rig.exchange("b", &mut b, second, running(0));
        }
        rig.exchange("a", &mut a, 6, running(0));
        assert_eq!([a.drains(&engine()), b.drains(&engine())], [drains; 2], "at {ordered}");
    }
}

#[test]
fn what_the_board_forgot_is_said_again() {
    let mut rig = Rig::new(&["a", "b"]);
    let (mut a, mut b) = (Desk::new("a", MARGIN), Desk::new("b", MARGIN));
    a.order(&engine(), secs(80), rig.at(0));
    rig.exchange("a", &mut a, 0, running(0));
    rig.board = Board::default();
    rig.exchange("a", &mut a, 1, running(0));
    rig.exchange("a", &mut a, 2, running(0));
    rig.exchange("b", &mut b, 3, running(0));
    assert!(b.drains(&engine()));
    assert_eq!(b.word(&engine()).map(|word| word.version), Some(1));
}

#[test]
fn a_second_order_puts_the_deadline_off_and_never_forward() {
    let rig = Rig::new(&["a"]);
    let mut desk = Desk::new("a", MARGIN);
    let with_timeout = Seen { shutdown_timeout: Some(secs(30)), ..running(1) };
    let cut_in = |desk: &Desk, second| rig.state(desk, second, with_timeout).cut_in_ms;
    desk.order(&engine(), secs(80), rig.at(0));
    assert_eq!(cut_in(&desk, 0), Some(105_000));
    desk.order(&engine(), secs(10), rig.at(10));
    assert_eq!(cut_in(&desk, 10), Some(95_000));
    desk.order(&engine(), secs(90), rig.at(20));
    assert_eq!(cut_in(&desk, 20), Some(115_000));
}

#[test]
fn what_outlives_the_engine_is_cut_before_its_own_end() {
    let rig = Rig::new(&["a"]);
    let with_timeout = Seen { shutdown_timeout: Some(secs(30)), ..running(1) };
    let cuts = |desk: &mut Desk, second, seen| {
        desk.look(rig.at(second), |_| seen);
        desk.take_actions().contains(&Action::Cut(engine()))
    };
    let mut ordered = Desk::new("a", MARGIN);
    ordered.order(&engine(), secs(80), rig.at(0));
    assert!(!cuts(&mut ordered, 104, with_timeout));
    assert!(cuts(&mut ordered, 105, with_timeout));
    assert_eq!(rig.state(&ordered, 105, with_timeout).state, Stage::Cut);

    let mut answered = Desk::new("a", MARGIN);
    answered.noticed(&engine(), rig.at(0));
    answered.order(&engine(), secs(80), rig.at(1));
    assert!(!cuts(&mut answered, 24, with_timeout));
    assert!(cuts(&mut answered, 25, with_timeout), "it shuts down already");

    let mut never = Desk::new("a", MARGIN);
    never.order(&engine(), secs(1), rig.at(0));
    assert!(!cuts(&mut never, 9_999, running(1)), "no shutdown timeout is configured");
}

#[test]
fn a_new_process_ends_the_order_once_nothing_runs() {
    let mut rig = Rig::new(&["a", "b"]);
    let (mut a, mut b) = (Desk::new("a", MARGIN), Desk::new("b", MARGIN));
    a.order(&engine(), secs(80), rig.at(0));
    rig.exchange("a", &mut a, 0, running(0));
    rig.exchange("b", &mut b, 0, running(1));
    rig.exchange("b", &mut b, 0, running(1));
    // `a` alone lost sight of it for a moment: streams of `b` still run there.
    let back = rig.exchange("a", &mut a, 1, phase(EndpointPhase::Ready));
    assert_eq!(back, [Action::Stop(engine())]);
    rig.exchange("b", &mut b, 2, running(0));
    assert_eq!(rig.exchange("a", &mut a, 3, running(0)), [Action::Serve(engine())]);
    assert_eq!(rig.state(&a, 3, running(0)).state, Stage::Replaced);
    rig.exchange("a", &mut a, 3, phase(EndpointPhase::Ready));
    assert_eq!(rig.exchange("b", &mut b, 4, running(0)), [Action::Serve(engine())]);
}

#[test]
fn without_the_board_a_new_process_serves_when_nothing_of_ours_runs() {
    let rig = Rig::new(&["a"]);
    let mut desk = Desk::new("a", MARGIN);
    desk.order(&engine(), secs(80), rig.at(0));
    desk.lost();
    desk.look(rig.at(1), |_| Seen { in_flight: 1, ..phase(EndpointPhase::Ready) });
    assert!(desk.drains(&engine()));
    desk.look(rig.at(2), |_| running(0));
    assert!(!desk.drains(&engine()));
}

#[test]
fn an_engine_that_said_so_itself_is_marked_everywhere_until_health_sees_another() {
    let mut rig = Rig::new(&["a", "b"]);
    let (mut a, mut b) = (Desk::new("a", MARGIN), Desk::new("b", MARGIN));
    a.noticed(&engine(), rig.at(10));
    a.noticed(&engine(), rig.at(11));
    rig.exchange("a", &mut a, 12, running(1));
    let mark = rig.exchange("b", &mut b, 13, running(0));
    assert_eq!(mark, [Action::Mark(engine(), rig.at(10))]);
    rig.exchange("b", &mut b, 14, phase(EndpointPhase::Down));
    assert!(b.drains(&engine()));
    rig.exchange("b", &mut b, 15, phase(EndpointPhase::Ready));
    assert!(!b.drains(&engine()));
}

#[test]
fn a_pod_behind_a_gateway_is_forgotten_in_time() {
    let mut rig = Rig::new(&["a"]);
    let pod = Seen { pod: true, ..Seen::default() };
    let mut desk = Desk::new("a", MARGIN);
    desk.order(&engine(), secs(80), rig.at(0));
    rig.exchange("a", &mut desk, 1, pod);
    assert_eq!(rig.state(&desk, 1, pod).state, Stage::Drained);
    rig.exchange("a", &mut desk, 600, pod);
    assert!(desk.drains(&engine()));
    rig.exchange("a", &mut desk, 680, pod);
    assert!(!desk.drains(&engine()));
    // Elsewhere it may be an endpoint; a replica that does not know it does not end its drain.
    desk.order(&engine(), secs(80), rig.at(700));
    rig.exchange("a", &mut desk, 9_999, Seen::default());
    assert!(desk.drains(&engine()));
}

#[test]
fn stances_keep_their_names() {
    for stance in Stance::ALL {
        assert_eq!(Stance::named(stance.as_str()), Some(stance));
    }
    assert_eq!(Stance::named("other"), None);
}
