//! Between the machine's commands and those of the pure store semantics, where names are numbers.

use crate::quota::replica::{
    Answer, Code, Command, Fleet, FleetScope, Grant, Hint, Learning, Shown,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use streamgate_quota_model::store as model;

/// Tenants before pools, as in the names of leaves.
pub const SCOPES: [&str; 4] = ["t:a", "t:b", "p:p", "p:q"];

/// Names met so far. Numbers are given in the order of meeting.
#[derive(Default)]
pub struct Names {
    incarnations: HashMap<Arc<str>, model::IncId>,
    generations: HashMap<Arc<str>, u16>,
}

fn scope(name: &str) -> u8 {
    let at = SCOPES.iter().position(|scope| *scope == name);
    u8::try_from(at.expect("a scope of this test")).unwrap()
}

fn leaf(name: &str) -> model::Leaf {
    model::Leaf(name.split('|').map(|part| 1 << scope(part)).sum())
}

fn small(n: u64) -> u16 {
    u16::try_from(n).expect("a small number")
}

fn ms(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap()
}

pub struct Settings {
    pub lease: Duration,
    pub floor_lease: Duration,
    pub stall: Duration,
    pub pressure: Duration,
}

impl Names {
    fn inc(&mut self, name: &Arc<str>) -> model::IncId {
        let next = u8::try_from(self.incarnations.len()).expect("few incarnations");
        let class = match name.as_bytes()[0] {
            b'o' => model::Class::Ordinary,
            _ => model::Class::Floor,
        };
        let fresh = model::IncId { owner: next, life: 0, class };
        *self.incarnations.entry(Arc::clone(name)).or_insert(fresh)
    }

    fn generation(&mut self, name: &Arc<str>) -> u16 {
        if name.is_empty() {
            return 0;
        }
        let next = u16::try_from(self.generations.len() + 1).unwrap();
        *self.generations.entry(Arc::clone(name)).or_insert(next)
    }

    fn generation_name(&self, id: u16) -> Arc<str> {
        let found = self.generations.iter().find(|(_, number)| **number == id);
        Arc::clone(found.expect("a generation somebody named").0)
    }

    /// `None`: not a command of an incarnation.
    pub fn command(&mut self, command: &Command, settings: &Settings) -> Option<model::Command> {
        let (inc, known, op) = match command {
            Command::Join(join) => {
                let claims = join.claims.iter().map(|claim| model::Claim {
                    leaf: leaf(&claim.leaf),
                    n: small(claim.n.into()),
                    idle: small(claim.idle.into()),
                });
                let op = model::Op::Join(model::Join {
                    lease: ms(settings.lease),
                    floor_lease: ms(settings.floor_lease),
                    nonce: self.generation(&join.nonce),
                    v: small(join.version),
                    force: join.force,
                    claims: claims.collect(),
                });
                (&join.inc, &join.known, op)
            }
            Command::Beat(beat) => {
                let table = beat.table.as_ref().expect("few leaves");
                let table = table.iter().map(|line| model::Tabled {
                    leaf: leaf(&line.leaf),
                    n: small(line.n.into()),
                    idle: small(line.idle.into()),
                    v: small(line.version),
                });
                let op = model::Op::Beat(model::Beat {
                    lease: ms(settings.lease),
                    floor_lease: ms(settings.floor_lease),
                    fv: small(beat.settled),
                    bv: small(beat.version),
                    table: Some(table.collect()),
                });
                (&beat.inc, &beat.known, op)
            }
            Command::Set(set) => {
                let scopes = set.scopes.iter().map(|line| model::Config {
                    scope: scope(&line.name),
                    cap: line.cap.map_or(model::UNLIMITED, |cap| i32::try_from(cap).unwrap()),
                    rev: u32::try_from(line.revision).expect("soon after the epoch"),
                    floor: i32::try_from(line.floor).unwrap(),
                });
                let entries = set.entries.iter().map(|line| model::Ask {
                    leaf: leaf(&line.leaf),
                    need: small(line.need.into()),
                    want: small(line.want.into()),
                });
                let op = model::Op::Set(model::Set {
                    pressure: ms(settings.pressure),
                    v: small(set.version),
                    scopes: scopes.collect(),
                    entries: entries.collect(),
                });
                (&set.inc, &set.known, op)
            }
            Command::Look => return None,
        };
        let (inc, known) = (self.inc(inc), self.generation(known));
        Some(model::Command { inc, known, stall: ms(settings.stall), op })
    }

    pub fn answer(&self, reply: &model::Reply) -> Answer {
        match reply {
            model::Reply::Joined { gen_, learning, floor_learning, now } => Answer::Joined {
                generation: self.generation_name(*gen_),
                learning: both(*learning, *floor_learning),
                clock: duration(*now),
            },
            model::Reply::Beaten { learning, floor_learning, pressed, .. } => Answer::Beaten {
                learning: both(*learning, *floor_learning),
                pressed: pressed.iter().map(|id| SCOPES[usize::from(*id)].into()).collect(),
            },
            model::Reply::Held { learning, grants, scopes } => Answer::Held {
                learning: duration(*learning),
                grants: grants.iter().map(grant).collect(),
                scopes: scopes.iter().map(shown).collect(),
            },
            model::Reply::Stale => Answer::Stale,
            model::Reply::NewGen => Answer::NewGeneration,
            model::Reply::NoLease => Answer::NoLease,
            model::Reply::Foreign => panic!("nobody else uses the key"),
        }
    }
}

fn duration(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap())
}

fn both(ordinary: i32, floor: i32) -> Learning {
    Learning { ordinary: duration(ordinary), floor: duration(floor) }
}

fn grant(grant: &model::Grant) -> Grant {
    let code = match grant.code {
        model::Code::Ok => Code::Ok,
        model::Code::Full => Code::Full,
        model::Code::Spare => Code::Spare,
        model::Code::Learning => Code::Learning,
    };
    Grant { n: grant.n.into(), code, at: usize::from(grant.at).checked_sub(1) }
}

fn shown(shown: &model::Shown) -> Shown {
    Shown {
        cap: u32::try_from(shown.cap).ok(),
        total: u32::try_from(shown.total).unwrap(),
        idle: u32::try_from(shown.idle).unwrap(),
        pressed: shown.pressed,
    }
}

pub fn hint(hint: model::Hint) -> Hint {
    let name = |id: u8| SCOPES[usize::from(id)].to_owned();
    match hint {
        model::Hint::Pressure(id) => Hint::Pressure(name(id)),
        model::Hint::Free(id) => Hint::Free(name(id)),
    }
}

/// LOOK, of which the semantics have no model: it changes nothing.
pub fn look(store: &model::Store, server: model::Server, stall: i32) -> Answer {
    let believed = |domain: &&model::Domain| {
        domain.founder == server.ident && (server.now - domain.last_beat).abs() <= stall
    };
    let Some(domain) = store.domain().filter(believed) else { return Answer::NewGeneration };
    let live = |inc: model::IncId| domain.lease(inc).is_some_and(|lease| lease.end > server.now);
    let ordinary = |inc: model::IncId| inc.class == model::Class::Ordinary;
    let leases = domain.leases.iter();
    let scopes = domain.scopes.iter().map(|scope| {
        let rows = scope.rows.iter().filter(|row| live(row.inc));
        let (total, idle) = rows.fold((0, 0), |(n, idle), row| (n + row.n, idle + row.idle));
        FleetScope {
            name: SCOPES[usize::from(scope.id)].into(),
            cap: u32::try_from(scope.cap).ok(),
            total: u32::try_from(total).unwrap(),
            idle: u32::try_from(idle).unwrap(),
        }
    });
    Answer::Seen(Fleet {
        learning: both(
            (domain.learning - server.now).max(0),
            (domain.floor_learning - server.now).max(0),
        ),
        replicas: leases.filter(|lease| live(lease.inc) && ordinary(lease.inc)).count() as u64,
        scopes: scopes.collect(),
    })
}
