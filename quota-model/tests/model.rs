//! The small cases, explored: what must hold holds, and each removed rule is missed.
//! `cargo run --release -p streamgate-quota-model` explores the others.

use std::time::Duration;
use streamgate_quota_model::cases::{self, Case, Expect};
use streamgate_quota_model::explore::{Bounds, explore};

/// Explores a case as far as `cargo test` does; what is wrong with the result, if anything is.
fn complaint(case: &Case) -> Option<String> {
    let states = case.quick?;
    let bounds = Bounds { time: Duration::from_secs(120), states, memory: 2 << 30, threads: 1 };
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
