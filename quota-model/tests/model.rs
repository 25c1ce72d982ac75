//! The small cases, explored: what must hold holds, and each removed rule is missed.
//! `cargo run --release -p streamgate-quota-model` explores the others.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a failed assumption fails the test; what was explored is printed"
)]

use std::time::Duration;
use streamgate_quota_model::cases::{self, Case, Expect};
use streamgate_quota_model::explore::{Bounds, explore};
use streamgate_quota_model::recover::{Goal, recover};

/// Explores a case as far as `cargo test` does; what is wrong with the result, if anything is.
fn complaint(case: &Case) -> Option<String> {
    let states = case.quick?;
    let bounds = Bounds { time: Duration::from_secs(1200), states, memory: 2 << 30, threads: 1 };
    let found = explore(&case.cfg, &bounds);
    eprintln!("{:24} {:>8} states, depth {}", case.name, found.states, found.depth);
    match (case.expect, &found.violation) {
        (Expect::Holds, None) if found.exhausted || found.states >= states => None,
        (Expect::Violates(want), Some((got, _))) if want == *got => None,
        (_, Some((got, steps))) => Some(format!("{}: violates {got:?} by {steps:?}", case.name)),
        (_, None) => Some(format!("{}: no violation in {} states", case.name, found.states)),
    }
}

fn run(which: impl Fn(&Case) -> bool) {
    let cases: Vec<Case> =
        cases::all().into_iter().filter(|c| c.quick.is_some() && which(c)).collect();
    assert!(cases.len() > 8, "{} cases", cases.len());
    let complaints: Vec<String> = cases.iter().filter_map(complaint).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_protocol_holds() {
    run(|case| case.expect == Expect::Holds);
}

#[test]
fn every_rule_and_every_limit_shows() {
    run(|case| case.expect != Expect::Holds);
}

#[test]
fn cases_have_names_of_their_own() {
    let mut names: Vec<&str> = cases::all().iter().map(|case| case.name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

/// From every reachable state, the whole cap can come into one hand again.
#[test]
fn slots_come_back() {
    for name in ["tick-plain", "tick-crash", "tick-flush", "tick-watchdog"] {
        let case = named(name);
        let found = recover(&case.cfg, Goal::WholeCap, 100_000);
        assert!(found.exhausted, "{name}: {} states", found.states);
        assert_eq!(found.stuck, 0, "{name}: {:#?}", found.example);
    }
}

/// A waiter is served with slots that others do not use, or refused, without time passing; and not
/// without the pressure that tells them, nor if they keep their spare, or keep silent about its use.
#[test]
fn spare_slots_are_not_stranded() {
    let mut spare = named("spare").cfg;
    spare.check_refusal = false; // its ghosts multiply the states
    let found = recover(&spare, Goal::NobodyWaits, 200_000);
    assert!(found.exhausted, "{} states", found.states);
    assert_eq!(found.stuck, 0, "{:#?}", found.example);

    let mut untold = spare.clone();
    untold.store.naive_no_pressure = true;
    assert!(recover(&untold, Goal::NobodyWaits, 200_000).stuck > 0);
    let mut silent = spare.clone();
    silent.replica.naive_keep_silent = true;
    assert!(recover(&silent, Goal::NobodyWaits, 200_000).stuck > 0);
    let mut deaf = spare;
    deaf.replica.naive_keep_spare = true;
    assert!(recover(&deaf, Goal::NobodyWaits, 200_000).stuck > 0);
}

fn named(name: &str) -> Case {
    cases::all().into_iter().find(|case| case.name == name).expect("a case of this name")
}
