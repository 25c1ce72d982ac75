//! The memory check and what BEAT and SET begin with.

use super::command::{Command, Reply};
use super::domain::{Domain, Lease, Store, Time};
use super::{Server, StoreRules};

/// A time further ahead than this (one hour in milliseconds) was not written by a script.
pub const FAR: Time = 3_600_000;

/// Whether the domain may be believed. `Err` is the reply of a script that does not found.
pub(super) fn check(
    rules: &StoreRules,
    store: &Store,
    server: Server,
    stall: Time,
    ident: bool,
) -> Result<(), Reply> {
    let domain = match store {
        Store::Absent => return Err(Reply::NewGen),
        Store::ForeignHash | Store::WrongType => return Err(Reply::Foreign),
        Store::Own(domain) => domain,
    };
    let foreign = domain.founder != server.ident && !rules.naive_no_ident && ident;
    let silent = (server.now - domain.last_beat).abs() > stall;
    let far = domain.learning > server.now + FAR || domain.floor_learning > server.now + FAR;
    if domain.founder == 0 || foreign || silent || far { Err(Reply::NewGen) } else { Ok(()) }
}

/// Marks the domain as damaged; everything that follows treats it as lost.
pub(super) fn damaged(domain: &mut Domain) -> Reply {
    domain.founder = 0;
    domain.gen_ = 0;
    domain.founded = 0;
    domain.learning = 0;
    domain.floor_learning = 0;
    domain.last_beat = 0;
    Reply::NewGen
}

/// A lease that no script can have written.
pub(super) fn bad_lease(lease: &Lease, server: Server) -> bool {
    lease.damaged || lease.fv > lease.mv || lease.end > server.now + FAR
}

/// Memory, generation and lease, in this order.
pub(super) fn open(
    rules: &StoreRules,
    store: &mut Store,
    server: Server,
    command: &Command,
) -> Result<(), Reply> {
    let set = matches!(command.op, super::Op::Set(_));
    let beat = matches!(command.op, super::Op::Beat(_));
    check(rules, store, server, command.stall, !(set && rules.naive_set_no_ident))?;
    let domain = store.domain_mut().ok_or(Reply::NewGen)?;
    if command.known != domain.gen_ && !(beat && rules.naive_beat_gen_blind) {
        return Err(Reply::NewGen);
    }
    let lease = domain.lease(command.inc).copied();
    if domain.pressure_damaged || lease.is_some_and(|l| bad_lease(&l, server)) {
        return Err(damaged(domain));
    }
    if lease.is_some_and(|l| l.end > server.now) {
        return Ok(());
    }
    if (set && rules.naive_no_lease_check) || (beat && rules.naive_beat_gen_blind) {
        domain.put_lease(Lease { inc: command.inc, end: server.now + 1, ..Lease::default() });
        return Ok(());
    }
    Err(Reply::NoLease)
}
