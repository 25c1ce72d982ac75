//! Single rules, each provoked.

use super::fleet::FleetSim;
use super::{MS, params, with_floors};
use crate::config::{OnFence, WhenUnavailable};
use crate::core::policy::Revision;
use crate::core::quota::SlotPath;
use crate::quota::suite::{path, reloaded};
use std::time::Duration;
use streamgate_quota_model::store as model;

const SECOND: Duration = Duration::from_secs(1);

fn fleet(replicas: usize) -> FleetSim {
    of(params(WhenUnavailable::Escrow, OnFence::Keep), replicas)
}

fn of(params: crate::quota::replica::Params, replicas: usize) -> FleetSim {
    let mut fleet = FleetSim::new(params, replicas, 7);
    // The first join founds a generation, whose learning lasts a lease of each class.
    let floors = params.floors.map_or(Duration::ZERO, |floors| floors.times.lease);
    fleet.run(floors.max(params.times.lease) + SECOND);
    fleet
}

fn run(fleet: &mut FleetSim, replica: usize, tenant: &str, cap: u32) {
    let before = fleet.replicas[replica].running.len();
    fleet.ask(replica, path(tenant, cap, "p", None));
    fleet.run(60 * MS);
    assert_eq!(fleet.replicas[replica].running.len(), before + 1, "{:?}", fleet.seen);
}

/// Case 8: a replica that holds an unused slot it did not report does not make another refuse.
#[test]
fn a_slot_that_came_free_elsewhere_is_found_at_once() {
    let mut fleet = fleet(2);
    run(&mut fleet, 0, "a", 2);
    run(&mut fleet, 1, "a", 2);
    fleet.run(2 * SECOND);
    fleet.end(0, 0);
    fleet.ask(1, path("a", 2, "p", None));
    fleet.run(30 * MS);
    assert_eq!(fleet.replicas[1].running.len(), 2, "{:?}", fleet.seen);
    assert_eq!(fleet.count("refused, tenant"), 0);
}

#[test]
fn full_is_said_after_one_call_where_pressure_is_known() {
    let mut fleet = fleet(2);
    run(&mut fleet, 0, "a", 1);
    fleet.ask(1, path("a", 1, "p", None));
    fleet.run(40 * MS);
    assert_eq!(fleet.count("refused, tenant"), 1);
    fleet.ask(1, path("a", 1, "p", None));
    fleet.run(20 * MS);
    assert_eq!(fleet.count("refused, tenant"), 2, "the second waits for no second answer");
}

#[test]
fn a_frozen_store_costs_the_timeout_once_and_then_nothing() {
    let mut fleet = fleet(1);
    run(&mut fleet, 0, "a", 1);
    fleet.frozen = true;
    fleet.ask(0, path("b", 1, "p", None));
    fleet.run(49 * MS);
    assert_eq!(fleet.waiting(), 1);
    fleet.run(3 * MS);
    assert_eq!(fleet.count("failed, timeout"), 1);
    assert!(!fleet.ask(0, path("b", 1, "p", None)));
    assert_eq!((fleet.waiting(), fleet.count("failed at once")), (0, 1));
    fleet.frozen = false;
    fleet.run(500 * MS);
    run(&mut fleet, 0, "b", 1);
}

/// A SET that gives a slot back is executed, and so are beats behind it, but for a second nothing of it
/// is heard: the beats' tables still say that the slot is held.
fn answers_are_lost(rules: model::StoreRules) -> FleetSim {
    let mut fleet = fleet(1);
    fleet.rules = rules;
    run(&mut fleet, 0, "a", 2);
    fleet.end(0, 0);
    fleet.mute = true;
    fleet.run(SECOND);
    assert_eq!(fleet.stored(), 0, "given back");
    fleet.mute = false;
    fleet.run(SECOND);
    fleet
}

#[test]
fn a_table_from_before_a_lost_answer_is_no_damage() {
    let mut fleet = answers_are_lost(model::StoreRules::default());
    assert_eq!(fleet.count("memory lost"), 0, "{:?}", fleet.seen);
    run(&mut fleet, 0, "a", 2);
}

#[test]
fn it_would_be_if_the_store_dropped_what_its_holder_does_not_know_to_be_empty() {
    let rules = model::StoreRules { naive_drop_unknown: true, ..model::StoreRules::default() };
    let fleet = answers_are_lost(rules);
    assert!(fleet.count("damage") > 0 && fleet.count("memory lost") > 0, "{:?}", fleet.seen);
}

/// Holds two slots of cap 10, of which one is unused, and freezes the store.
fn with_an_unused_slot(when: WhenUnavailable) -> FleetSim {
    let mut fleet = of(params(when, OnFence::Keep), 1);
    run(&mut fleet, 0, "a", 10);
    run(&mut fleet, 0, "a", 10);
    fleet.run(100 * MS);
    fleet.end(0, 0);
    fleet.frozen = true;
    // A question that gets no answer opens the breaker.
    fleet.ask(0, path("b", 1, "p", None));
    fleet.run(60 * MS);
    fleet
}

#[test]
fn escrow_serves_what_is_held_until_the_own_deadline() {
    let mut fleet = with_an_unused_slot(WhenUnavailable::Escrow);
    assert!(fleet.ask(0, path("a", 10, "p", None)));
    fleet.run(3 * SECOND);
    let status = fleet.replicas[0].machine.status(fleet.time(0));
    assert!(status.fenced && !status.up);
    assert_eq!(status.unfenced, 2, "they go on");
    fleet.end(0, 0);
    assert!(!fleet.ask(0, path("a", 10, "p", None)), "past the deadline nothing starts");
    fleet.frozen = false;
    fleet.run(SECOND);
    let status = fleet.replicas[0].machine.status(fleet.time(0));
    assert!(status.up && !status.fenced);
    assert_eq!((status.unfenced, status.held), (0, 1), "what runs is claimed again");
    assert_eq!(fleet.stored(), 2);
}

#[test]
fn closed_serves_nothing_while_the_store_is_away() {
    let mut fleet = with_an_unused_slot(WhenUnavailable::Closed);
    assert!(!fleet.ask(0, path("a", 10, "p", None)));
    assert_eq!(fleet.waiting(), 0);
}

#[test]
fn open_admits_up_to_the_cap_here_and_claims_it_later() {
    let mut fleet = with_an_unused_slot(WhenUnavailable::Open);
    for _ in 0..9 {
        assert!(fleet.ask(0, path("a", 10, "p", None)));
    }
    assert!(!fleet.ask(0, path("a", 10, "p", None)), "the local count is at the cap");
    fleet.run(4 * SECOND);
    assert_eq!(fleet.replicas[0].running.len(), 11, "ten of a, and the b that waited");
    assert_eq!(fleet.stored(), 4, "the store knows of two, in tenant and pool");
    fleet.frozen = false;
    // Commands of the first incarnation were executed late; what they claimed lapses.
    fleet.run(5 * SECOND);
    assert_eq!(fleet.claimed(), 2 * 11);
    assert_eq!(fleet.replicas[0].machine.status(fleet.time(0)).unfenced, 0);
}

#[test]
fn a_fence_that_cuts_ends_everything_and_voids_its_slots() {
    let mut fleet = of(params(WhenUnavailable::Escrow, OnFence::Cut), 1);
    run(&mut fleet, 0, "a", 2);
    let (_, lot) = fleet.replicas[0].running[0];
    fleet.frozen = true;
    fleet.run(3 * SECOND);
    assert_eq!(fleet.replicas[0].running.len(), 0);
    fleet.frozen = false;
    fleet.run(4 * SECOND);
    let now = fleet.time(0);
    let machine = &mut fleet.replicas[0].machine;
    assert!(!machine.is_valid(lot, now));
    machine.release(lot, now);
    assert_eq!(machine.usage(&"a".into()).here, 0);
}

/// Case 9, without traffic in between: held slots are claimed again and nothing is granted beside.
#[test]
fn lost_memory_is_asserted_again_and_granted_after_a_lease() {
    let mut fleet = fleet(2);
    run(&mut fleet, 0, "a", 2);
    run(&mut fleet, 1, "a", 2);
    fleet.run(SECOND);
    fleet.store = model::Store::Absent;
    fleet.end(0, 0);
    fleet.ask(0, path("a", 2, "q", None));
    fleet.run(2900 * MS);
    assert_eq!(fleet.waiting(), 1, "still learning: {:?}", fleet.seen);
    fleet.run(200 * MS);
    assert_eq!(fleet.waiting(), 0);
    assert_eq!(fleet.in_flight(|path| path.tenant.as_str() == "a"), 2);
    assert_eq!(fleet.count("memory lost"), 2);
}

#[test]
fn a_lowered_cap_takes_unused_slots_first() {
    let mut fleet = fleet(1);
    for _ in 0..3 {
        run(&mut fleet, 0, "a", 10);
    }
    fleet.end(0, 0);
    let low = reloaded(path("a", 2, "p", None));
    fleet.ask(0, low.clone());
    fleet.run(10 * MS);
    assert_eq!((fleet.in_flight(|_| true), fleet.count("refused, tenant")), (2, 1));
    fleet.end(0, 0);
    fleet.ask(0, low);
    fleet.run(10 * MS);
    assert_eq!(fleet.in_flight(|_| true), 2);
}

#[test]
fn floors_serve_while_the_store_is_away_and_are_given_back_under_pressure() {
    let mut fleet = of(with_floors(50, 1), 2);
    run(&mut fleet, 0, "a", 4);
    fleet.run(SECOND);
    assert_eq!(fleet.replicas[0].machine.status(fleet.time(0)).escrow, 0);
    fleet.frozen = true;
    fleet.run(4 * SECOND);
    assert!(fleet.ask(0, path("a", 4, "p", None)), "on the floor: {:?}", fleet.seen);
    assert_eq!(fleet.replicas[0].machine.status(fleet.time(0)).escrow, 1);
    assert!(!fleet.ask(0, path("a", 4, "p", None)), "the floor is one slot");
    fleet.frozen = false;
    fleet.end(0, 0);
    // Floors are learned for as long as their lease, and kept free until then.
    fleet.run(14 * SECOND);
    for _ in 0..4 {
        run(&mut fleet, 1, "a", 4);
    }
    assert_eq!(fleet.in_flight(|_| true), 4);
}

/// R13: an owner of unused slots that took them into use tells so, or others wait for them in vain.
#[test]
fn an_owner_that_used_its_spare_confesses_under_pressure() {
    let mut fleet = fleet(2);
    for _ in 0..3 {
        run(&mut fleet, 0, "a", 8);
    }
    fleet.end(0, 0);
    // A beat tells that one is unused; then it is used again, without a word.
    fleet.run(1600 * MS);
    fleet.end(0, 0);
    fleet.run(900 * MS);
    while fleet.ask(0, path("a", 8, "p", None)) {}
    fleet.run(60 * MS);
    let taken = fleet.replicas[0].running.len();
    for _ in taken..8 {
        run(&mut fleet, 1, "a", 8);
    }
    let begun = fleet.now;
    fleet.ask(1, path("a", 8, "p", None));
    while fleet.waiting() > 0 {
        fleet.step(MS);
        assert!(fleet.now - begun < SECOND, "it waits for slots that are not there");
    }
    assert_eq!(fleet.count("refused, tenant"), 1);
}

/// The path under a configuration with this cap, which the replica was given `age` ago.
fn dated(fleet: &FleetSim, replica: usize, cap: u32, age: Duration) -> SlotPath {
    let revision = Revision::dated(fleet.time(replica), age).number();
    SlotPath { tenant_revision: revision, ..path("a", cap, "p", None) }
}

/// R19. The replicas' clocks are days apart, and the store's shows something else again.
#[test]
fn the_last_reload_counts_whatever_clocks_show() {
    for last in [0, 1] {
        let mut fleet = fleet(2);
        let other = 1 - last;
        let old = dated(&fleet, other, 4, 5 * SECOND);
        let asks = |fleet: &mut FleetSim, replica: usize, path: &SlotPath| {
            fleet.ask(replica, path.clone());
            fleet.run(60 * MS);
            fleet.in_flight(|_| true)
        };
        assert_eq!(asks(&mut fleet, other, &old), 1);
        let lower = dated(&fleet, last, 2, SECOND);
        assert_eq!(asks(&mut fleet, last, &lower), 2);
        assert_eq!(asks(&mut fleet, other, &old), 2, "the older cap of 4 does not count");
        // A new process in its place, with yet another clock, finds the same file.
        fleet.kill(other);
        fleet.run(4 * SECOND);
        let still = dated(&fleet, other, 4, 10 * SECOND);
        assert_eq!(asks(&mut fleet, other, &still), 2);
        assert_eq!(asks(&mut fleet, other, &still), 2, "the older cap still does not count");
        let higher = dated(&fleet, other, 3, Duration::ZERO);
        assert_eq!(asks(&mut fleet, other, &higher), 3);
        assert_eq!(asks(&mut fleet, last, &lower), 3, "nor does the cap of 2 now");
    }
}
