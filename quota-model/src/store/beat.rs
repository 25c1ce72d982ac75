//! `beat.lua`.

use super::command::{Command, Reply, Tabled};
use super::domain::{Class, Domain, Entry, IncId, Leaf, Lease, ScopeId, Store, Time};
use super::join::{floor_learning, learning};
use super::memory::damaged;
use super::scope::Scope;
use super::{Server, StoreRules};

/// What BEAT is sent with.
#[derive(Clone, Debug)]
pub struct Beat {
    pub lease: Time,
    pub floor_lease: Time,
    pub fv: u16,
    pub bv: u16,
    /// The complete table, or none: renew only.
    pub table: Option<Vec<Tabled>>,
}

/// What a beat changes besides the lease.
#[derive(Default)]
struct Work {
    put: Vec<Entry>,
    gone: Vec<Leaf>,
    scopes: Vec<Scope>,
    healed: u16,
    /// (scope, n, idle) this incarnation holds, in order of first mention.
    sums: Vec<(ScopeId, i32, i32)>,
}

pub(super) fn exec(
    rules: &StoreRules,
    store: &mut Store,
    server: Server,
    command: &Command,
    beat: &Beat,
) -> Reply {
    let Store::Own(domain) = store else { return Reply::NewGen };
    let inc = command.inc;
    let Some(lease) = domain.lease(inc).copied() else { return Reply::NoLease };
    let heal = lease.mv <= beat.bv || rules.naive_beat_heals_late;
    let mut work = Work::default();
    let table = beat.table.as_deref().unwrap_or_default();
    let sound = entries(rules, domain, &lease, beat, table, heal, &mut work)
        && rows(rules, domain, &lease, server, heal, &mut work);
    if !sound {
        return damaged(domain);
    }
    apply(rules, domain, server, beat, &lease, &mut work);
    let mut pressed: Vec<ScopeId> = domain
        .pressure
        .iter()
        .filter(|(_, until)| *until > server.now)
        .map(|(scope, _)| *scope)
        .collect();
    pressed.sort_unstable();
    Reply::Beaten {
        learning: (domain.learning - server.now).max(0),
        floor_learning: (domain.floor_learning - server.now).max(0),
        healed: work.healed,
        pressed,
    }
}

/// The stored entry, or (0, 0, fv). `None`: damaged.
pub(super) fn entry_or_none(domain: &Domain, lease: &Lease, leaf: Leaf) -> Option<Entry> {
    let none = Entry { inc: lease.inc, leaf, n: 0, idle: 0, v: lease.fv, damaged: false };
    let Some(entry) = domain.entry(lease.inc, leaf) else { return Some(none) };
    if entry.damaged || entry.idle > entry.n || entry.v > lease.mv {
        return None;
    }
    Some(Entry { v: entry.v.max(lease.fv), ..*entry })
}

/// Compares the entries with the table. `false`: damaged.
fn entries(
    rules: &StoreRules,
    domain: &Domain,
    lease: &Lease,
    beat: &Beat,
    table: &[Tabled],
    heal: bool,
    work: &mut Work,
) -> bool {
    let fv = beat.fv.max(lease.fv);
    for item in table {
        let Some(mut entry) = entry_or_none(domain, lease, item.leaf) else { return false };
        let differs = (entry.n, entry.idle) != (item.n, item.idle);
        let older = entry.v < item.v || rules.naive_beat_ignores_version;
        if heal && (older || (entry.v == item.v && differs)) {
            work.healed += u16::from(entry.n != item.n);
            entry = Entry { n: item.n, idle: item.idle, v: item.v, ..entry };
            work.put.push(entry);
        }
        let settled = entry.v <= fv || rules.naive_forget_unsettled;
        if heal && entry.n == 0 && settled {
            work.gone.push(item.leaf);
        }
        for scope in item.leaf.path() {
            let (n, idle) = (i32::from(entry.n), i32::from(entry.idle));
            match work.sums.iter_mut().find(|sum| sum.0 == scope) {
                Some(sum) => {
                    sum.1 += n;
                    sum.2 += idle;
                }
                None => work.sums.push((scope, n, idle)),
            }
        }
    }
    true
}

/// Compares this incarnation's row of every scope with the sum of its entries. `false`: damaged.
fn rows(
    rules: &StoreRules,
    domain: &Domain,
    lease: &Lease,
    server: Server,
    heal: bool,
    work: &mut Work,
) -> bool {
    for &(id, n, idle) in &work.sums {
        let mut scope = domain.scope(id).cloned().unwrap_or_else(|| Scope::new(id, server.now));
        let wrong = scope.head_damaged(lease.inc, server.now) || scope.rows_wrong();
        if wrong && !rules.lossy_sums() {
            return false;
        }
        let row = scope.row(lease.inc);
        if heal && (row.n, row.idle) != (n, idle) {
            work.healed += u16::from(row.n != n);
            scope.charge(lease.inc, n - row.n, idle - row.idle, lease.end);
            work.scopes.push(scope);
        }
    }
    true
}

fn apply(
    rules: &StoreRules,
    domain: &mut Domain,
    server: Server,
    beat: &Beat,
    lease: &Lease,
    work: &mut Work,
) {
    let inc: IncId = lease.inc;
    for entry in work.put.drain(..) {
        domain.put_entry(entry);
    }
    domain.entries.retain(|entry| entry.inc != inc || !work.gone.contains(&entry.leaf));
    for scope in work.scopes.drain(..) {
        domain.put_scope(scope);
    }
    let length = match inc.class {
        Class::Ordinary => beat.lease,
        Class::Floor => beat.floor_lease,
    };
    domain.put_lease(Lease {
        end: server.now + length,
        fv: beat.fv.max(lease.fv),
        mv: beat.bv.max(lease.mv),
        ..*lease
    });
    let floors = floor_learning(rules, beat.lease, beat.floor_lease);
    domain.learning = domain.learning.max(domain.founded + learning(rules, beat.lease));
    domain.floor_learning = domain.floor_learning.max(domain.founded + floors);
    domain.last_beat = server.now;
}
