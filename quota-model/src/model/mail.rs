//! Messages of the model as commands of the store, and its replies as answers.

use super::config::{Cfg, LEAVES};
use super::state::{Agent, Answer, Item, Kind, Mail, Status};
use crate::store::{
    Ask, Beat, Claim, Code, Command, Config, Grant, IncId, Join, Op, Reply, Set, Tabled,
};

/// The command a message carries.
pub fn command(cfg: &Cfg, agent: &Agent, inc: IncId, mail: &Mail) -> Command {
    let op = match mail.kind {
        Kind::Set => Op::Set(set(cfg, mail, too_late(cfg, inc))),
        Kind::Beat => Op::Beat(beat(cfg, mail)),
        Kind::Join => Op::Join(Join {
            lease: cfg.lease_store,
            floor_lease: cfg.floor_store,
            nonce: mail.nonce,
            v: mail.v,
            force: mail.force,
            claims: items(cfg, mail, |leaf, item| Claim {
                leaf: cfg.leaves[leaf],
                n: u16::from(item.n),
                idle: u16::from(item.more),
            }),
        }),
    };
    debug_assert_eq!(inc.class, agent.class);
    Command { inc, known: mail.known, stall: cfg.stall, op }
}

fn items<T>(cfg: &Cfg, mail: &Mail, make: impl Fn(usize, &Item) -> T) -> Vec<T> {
    let listed = mail.items[..cfg.leaves.len()].iter().enumerate().filter(|(_, item)| item.on);
    listed.map(|(leaf, item)| make(leaf, item)).collect()
}

/// How much too late the dates are that this holder states.
fn too_late(cfg: &Cfg, inc: IncId) -> u32 {
    let own = cfg.replica.naive_own_dates && inc.owner == 0;
    if own { u32::from(cfg.ahead) } else { 0 }
}

fn set(cfg: &Cfg, mail: &Mail, late: u32) -> Set {
    let entries = items(cfg, mail, |leaf, item| Ask {
        leaf: cfg.leaves[leaf],
        need: u16::from(item.n),
        want: u16::from(item.more),
    });
    let revision = &cfg.revisions[usize::from(mail.revision)];
    let scopes = (0..4u8).filter(|scope| entries.iter().any(|ask| ask.leaf.touches(*scope)));
    let scopes = scopes
        .map(|scope| {
            let (cap, floor) = revision[usize::from(scope)];
            Config { scope, cap, rev: u32::from(mail.rev) + late, floor }
        })
        .collect();
    Set { pressure: cfg.lease_store, v: mail.v, scopes, entries }
}

fn beat(cfg: &Cfg, mail: &Mail) -> Beat {
    let table = items(cfg, mail, |leaf, item| Tabled {
        leaf: cfg.leaves[leaf],
        n: u16::from(item.n),
        idle: u16::from(item.more),
        v: item.v,
    });
    Beat {
        lease: cfg.lease_store,
        floor_lease: cfg.floor_store,
        fv: mail.fv,
        bv: mail.v,
        table: cfg.heal.then_some(table),
    }
}

/// What the sender gets to see. `gen_`: the generation after the command.
pub fn answer(cfg: &Cfg, mail: &Mail, reply: &Reply, gen_: u16) -> Answer {
    let mut answer = Answer {
        status: Status::Ok,
        gen_,
        n: [0; LEAVES],
        code: [Code::Ok; LEAVES],
        pressed: [false; LEAVES],
    };
    match reply {
        Reply::Joined { .. } => {}
        Reply::Beaten { pressed, .. } => {
            for (leaf, path) in cfg.leaves.iter().enumerate() {
                answer.pressed[leaf] = pressed.iter().any(|scope| path.touches(*scope));
            }
        }
        Reply::Held { grants, scopes, .. } => {
            let listed = (0..cfg.leaves.len()).filter(|leaf| mail.items[*leaf].on);
            for (leaf, Grant { n, code, .. }) in listed.zip(grants) {
                answer.n[leaf] = u8::try_from(*n).unwrap_or(u8::MAX);
                answer.code[leaf] = *code;
            }
            let named: Vec<u8> = set(cfg, mail, 0).scopes.iter().map(|c| c.scope).collect();
            for (leaf, path) in cfg.leaves.iter().enumerate() {
                let shown = named.iter().zip(scopes);
                answer.pressed[leaf] =
                    shown.into_iter().any(|(id, s)| s.pressed && path.touches(*id));
            }
        }
        Reply::Stale => answer.status = Status::Stale,
        Reply::NewGen | Reply::Foreign => answer.status = Status::NewGen,
        Reply::NoLease => answer.status = Status::NoLease,
    }
    answer
}
