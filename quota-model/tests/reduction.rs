//! The model forgets the dead at once, the scripts when somebody needs room: nobody can tell.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a failed assumption fails the test; what was explored is printed"
)]

mod support;

use rand::Rng;
use streamgate_quota_model::store::{
    Code, Command, Op, Outcome, Reply, Server, Store, StoreRules, Time, exec,
};
use support::fleet::{Fleet, LEASE};

/// What a sender acts on.
fn essence(outcome: &Outcome) -> (String, Vec<(u16, Code, u8)>) {
    match &outcome.reply {
        Reply::Held { grants, .. } => {
            ("Held".to_owned(), grants.iter().map(|g| (g.n, g.code, g.at)).collect())
        }
        other => (format!("{other:?}"), Vec::new()),
    }
}

/// Without spare: what is granted of it depends on pressure, which rows of the dead may raise.
fn plain(mut command: Command) -> Command {
    match &mut command.op {
        Op::Set(set) => set.entries.iter_mut().for_each(|ask| ask.want = ask.need),
        Op::Join(join) => {
            join.claims.retain(|claim| claim.n > 0);
            join.claims.iter_mut().for_each(|claim| claim.idle = 0);
        }
        Op::Beat(beat) => {
            beat.fv = 0; // what is settled is random in this fleet, but not in a real one
            beat.table.iter_mut().flatten().for_each(|item| item.idle = 0);
        }
    }
    command
}

fn tidy(store: &mut Store, now: Time) {
    if let Some(domain) = store.domain_mut() {
        domain.forget_dead(now);
        domain.pressure.clear();
    }
}

fn history(seed: u64) -> usize {
    let mut fleet = Fleet::new(seed);
    let (mut lazy, mut eager) = (Store::Absent, Store::Absent);
    let (mut now, mut buried) = (0, 0);
    for step in 0..400 {
        now += fleet.rng.random_range(0..LEASE / 8);
        tidy(&mut eager, now);
        let (who, command) = fleet.next();
        let command = plain(command);
        let server = Server { now, ident: 1 };
        let rules = StoreRules::default();
        let one = exec(&rules, &mut lazy, server, &command);
        let other = exec(&rules, &mut eager, server, &command);
        if let Some(domain) = lazy.domain_mut() {
            domain.pressure.clear();
        }
        assert_eq!(essence(&one), essence(&other), "seed {seed} step {step}: {command:#?}");
        let (mut a, mut b) = (lazy.clone(), eager.clone());
        buried += usize::from(a != b);
        tidy(&mut a, now);
        tidy(&mut b, now);
        assert_eq!(a, b, "seed {seed} step {step}: {command:#?}");
        fleet.learn(who, &command, &one.reply);
    }
    buried
}

#[test]
fn forgetting_the_dead_early_changes_no_answer() {
    let differed: usize = (0..300).map(history).sum();
    assert!(differed > 10_000, "the stores differed in {differed} steps only");
}
