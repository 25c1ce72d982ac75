//! What a run came across, so that a test that stopped meeting something fails.

use std::collections::BTreeMap;
use streamgate_quota_model::store::{Class, Code, Command, Hint, Op, Outcome, Reply, Store};

/// Counts of named situations.
#[derive(Default)]
pub struct Seen(BTreeMap<&'static str, usize>);

/// Every situation a run must meet, and how often at least.
const WANTED: [(&str, usize); 24] = [
    ("join", 500),
    ("join with claims", 50),
    ("join forced", 20),
    ("join stale", 20),
    ("join refused", 5),
    ("beat", 500),
    ("beat under pressure", 50),
    ("empty entry dropped", 50),
    ("empty entry kept for its holder", 5),
    ("set", 1000),
    ("set stale", 20),
    ("granted", 100),
    ("granted spare", 50),
    ("full", 50),
    ("full by the second scope", 10),
    ("spare", 50),
    ("learning", 50),
    ("held back after learning", 5),
    ("floor granted", 20),
    ("no memory", 100),
    ("no lease", 50),
    ("somebody else's data", 20),
    ("hint pressure", 50),
    ("hint free", 20),
];

impl Seen {
    /// Notes one answer.
    pub fn note(&mut self, command: &Command, outcome: &Outcome) {
        let mut add = |what| *self.0.entry(what).or_default() += 1;
        match (&outcome.reply, &command.op) {
            (Reply::Joined { .. }, Op::Join(join)) => {
                add("join");
                if !join.claims.is_empty() {
                    add("join with claims");
                }
                if join.force {
                    add("join forced");
                }
            }
            (Reply::Beaten { pressed, .. }, _) => {
                add("beat");
                if !pressed.is_empty() {
                    add("beat under pressure");
                }
            }
            (Reply::Stale, Op::Join(_)) => add("join stale"),
            (Reply::Stale, _) => add("set stale"),
            (Reply::NoLease, Op::Join(_)) => add("join refused"),
            (Reply::NoLease, _) => add("no lease"),
            (Reply::NewGen, _) => add("no memory"),
            (Reply::Foreign, _) => add("somebody else's data"),
            (Reply::Held { .. } | Reply::Joined { .. }, _) => self.note_set(command, outcome),
        }
        for hint in &outcome.hints {
            let what = match hint {
                Hint::Pressure(_) => "hint pressure",
                Hint::Free(_) => "hint free",
            };
            *self.0.entry(what).or_default() += 1;
        }
    }

    /// Notes what a beat made of empty entries that are settled.
    pub fn note_beat(&mut self, command: &Command, reply: &Reply, before: &Store, after: &Store) {
        let (Op::Beat(beat), Reply::Beaten { .. }) = (&command.op, reply) else { return };
        let domains = before.domain().zip(after.domain());
        let Some(lease) = domains.and_then(|(before, _)| before.lease(command.inc)) else { return };
        if lease.mv > beat.bv {
            return;
        }
        for item in beat.table.iter().flatten() {
            let entry = |store: &Store| store.domain()?.entry(command.inc, item.leaf).copied();
            let empty = entry(before).filter(|e| e.n == 0 && e.v <= beat.fv.max(lease.fv));
            if empty.is_some() {
                let kept = entry(after).is_some();
                let what =
                    if kept { "empty entry kept for its holder" } else { "empty entry dropped" };
                *self.0.entry(what).or_default() += 1;
            }
        }
    }

    fn note_set(&mut self, command: &Command, outcome: &Outcome) {
        let Reply::Held { grants, learning, .. } = &outcome.reply else { return };
        let Op::Set(set) = &command.op else { return };
        let mut add = |what| *self.0.entry(what).or_default() += 1;
        add("set");
        for (grant, ask) in grants.iter().zip(&set.entries) {
            match grant.code {
                Code::Ok if grant.n > ask.need => add("granted spare"),
                Code::Ok if grant.n > 0 && command.inc.class == Class::Floor => {
                    add("floor granted");
                }
                Code::Ok if grant.n > 0 => add("granted"),
                Code::Ok => {}
                Code::Full if grant.at == 2 => add("full by the second scope"),
                Code::Full => add("full"),
                Code::Spare => add("spare"),
                Code::Learning if *learning == 0 => add("held back after learning"),
                Code::Learning => add("learning"),
            }
        }
    }

    /// Fails if something wanted was not met often enough.
    pub fn check(&self) {
        let missing: Vec<String> = WANTED
            .iter()
            .filter(|(what, least)| self.0.get(what).copied().unwrap_or(0) < *least)
            .map(|(what, least)| format!("{what}: {:?} of {least}", self.0.get(what)))
            .collect();
        assert!(missing.is_empty(), "not met: {missing:?}; met: {:?}", self.0);
    }
}
