//! `join.lua`.

use super::command::{Claim, Command, Known, Reply};
use super::domain::{Class, Domain, Entry, IncId, Lease, Store, Time};
use super::memory::{bad_lease, check};
use super::scope::Scope;
use super::{Server, StoreRules};

/// What JOIN is sent with.
#[derive(Clone, Debug)]
pub struct Join {
    pub lease: Time,
    pub floor_lease: Time,
    /// The generation to found if there is no memory.
    pub nonce: Known,
    pub v: u16,
    pub force: bool,
    pub claims: Vec<Claim>,
}

pub(super) fn exec(
    rules: &StoreRules,
    store: &mut Store,
    server: Server,
    command: &Command,
    join: &Join,
) -> Reply {
    let intact = match check(rules, store, server, command.stall, true) {
        Ok(()) if rules.naive_damage_is_absent => true,
        Ok(()) => !store.domain().is_none_or(|d| damaged_anywhere(d, server)),
        Err(Reply::Foreign) => return Reply::Foreign,
        Err(_) => false,
    };
    if !intact {
        *store = Store::Own(found(rules, server, join));
    }
    let Store::Own(domain) = store else { return Reply::Foreign };
    if intact && let Some(no) = refusal(rules, domain, server, command, join) {
        return no;
    }
    bury_dead(domain, server, command.inc);
    write(rules, domain, server, command.inc, join);
    domain.learning = domain.learning.max(domain.founded + learning(rules, join.lease));
    domain.floor_learning = domain
        .floor_learning
        .max(domain.founded + floor_learning(rules, join.lease, join.floor_lease));
    domain.last_beat = server.now;
    Reply::Joined {
        gen_: domain.gen_,
        learning: (domain.learning - server.now).max(0),
        floor_learning: (domain.floor_learning - server.now).max(0),
        now: server.now,
    }
}

/// How long ordinary slots are learned.
pub(super) fn learning(rules: &StoreRules, lease: Time) -> Time {
    rules.naive_learning.unwrap_or(lease)
}

/// How long floors are learned.
pub(super) fn floor_learning(rules: &StoreRules, lease: Time, floor_lease: Time) -> Time {
    if rules.naive_floor_learning_short { lease } else { floor_lease }
}

fn found(rules: &StoreRules, server: Server, join: &Join) -> Domain {
    Domain {
        gen_: join.nonce,
        founder: server.ident,
        founded: server.now,
        learning: server.now + learning(rules, join.lease),
        floor_learning: server.now + floor_learning(rules, join.lease, join.floor_lease),
        last_beat: server.now,
        ..Domain::default()
    }
}

/// JOIN reads everything: one field that cannot be ours makes the memory doubtful.
fn damaged_anywhere(domain: &Domain, server: Server) -> bool {
    let entry = |e: &Entry| {
        let mv = domain.lease(e.inc).map_or(u16::MAX, |lease| lease.mv);
        e.damaged || e.idle > e.n || e.v > mv
    };
    domain.leases.iter().any(|lease| bad_lease(lease, server))
        || domain.entries.iter().any(entry)
        || domain
            .scopes
            .iter()
            .any(|s| s.damaged || s.nx > server.now + super::FAR || s.rows_wrong())
}

/// Whether the claims may be believed.
fn refusal(
    rules: &StoreRules,
    domain: &Domain,
    server: Server,
    command: &Command,
    join: &Join,
) -> Option<Reply> {
    let until = match command.inc.class {
        Class::Ordinary => domain.learning,
        Class::Floor => domain.floor_learning,
    };
    let learning = until > server.now;
    let believed = join.force || rules.naive_reassert_any_time;
    let lease = domain.lease(command.inc).filter(|lease| lease.end > server.now);
    let Some(lease) = lease else {
        let claims: u32 = join.claims.iter().map(|claim| u32::from(claim.n)).sum();
        let fits = claims == 0 || believed || (learning && command.known != domain.gen_);
        return if fits { None } else { Some(Reply::NoLease) };
    };
    if join.v <= lease.mv && !rules.naive_no_version {
        return Some(Reply::Stale);
    }
    let grown = join
        .claims
        .iter()
        .any(|claim| claim.n > domain.entry(command.inc, claim.leaf).map_or(0, |entry| entry.n));
    if grown && !learning && !believed { Some(Reply::NoLease) } else { None }
}

/// Forgets whoever has no live lease, by whatever field is left of it.
fn bury_dead(domain: &mut Domain, server: Server, inc: IncId) {
    let alive: Vec<IncId> = domain
        .leases
        .iter()
        .filter(|lease| lease.end > server.now || lease.inc == inc)
        .map(|lease| lease.inc)
        .chain([inc])
        .collect();
    domain.leases.retain(|lease| alive.contains(&lease.inc));
    domain.entries.retain(|entry| alive.contains(&entry.inc));
    for scope in &mut domain.scopes {
        let dead: Vec<IncId> =
            scope.rows.iter().map(|row| row.inc).filter(|who| !alive.contains(who)).collect();
        for who in dead {
            scope.drop_row(who);
        }
    }
}

/// Writes the incarnation's lease, entries and rows anew.
fn write(rules: &StoreRules, domain: &mut Domain, server: Server, inc: IncId, join: &Join) {
    let length = match inc.class {
        Class::Ordinary => join.lease,
        Class::Floor => join.floor_lease,
    };
    let old = domain.lease(inc).filter(|lease| lease.end > server.now);
    let end = (server.now + length).max(old.map_or(Time::MIN, |lease| lease.end));
    let fv = if rules.naive_join_keeps_floor_version {
        domain.lease(inc).map_or(0, |lease| lease.fv)
    } else {
        join.v
    };
    domain.put_lease(Lease { inc, end, fv, mv: join.v, damaged: false });
    domain.entries.retain(|entry| entry.inc != inc);
    for claim in &join.claims {
        let Claim { leaf, n, idle } = *claim;
        domain.put_entry(Entry { inc, leaf, n, idle, v: join.v, damaged: false });
        for scope in leaf.path() {
            if n > 0 && domain.scope(scope).is_none() {
                domain.put_scope(Scope::new(scope, server.now));
            }
        }
    }
    for scope in &mut domain.scopes {
        let below = join.claims.iter().filter(|claim| claim.leaf.touches(scope.id));
        let (n, idle) = below.fold((0, 0), |(n, idle), claim| {
            (n + i32::from(claim.n), idle + i32::from(claim.idle))
        });
        let row = scope.row(inc);
        scope.charge(inc, n - row.n, idle - row.idle, end);
    }
}
