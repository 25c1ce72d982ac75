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
    sums: Vec<Sum>,
}

/// What this incarnation's entries below a scope add up to: as stored, and with the idle of the table.
struct Sum {
    scope: ScopeId,
    n: i32,
    idle: i32,
    fresh: i32,
}

/// The field cannot have been written by a script.
struct Damage;

pub(super) fn exec(
    rules: &StoreRules,
    store: &mut Store,
    server: Server,
    command: &Command,
    beat: &Beat,
) -> Reply {
    let Store::Own(domain) = store else { return Reply::NewGen };
    let Some(lease) = domain.lease(command.inc).copied() else { return Reply::NoLease };
    let check = Check { rules, domain, server, lease, complete: lease.mv <= beat.bv };
    let Ok(work) = check.run(beat) else { return damaged(domain) };
    apply(rules, domain, server, beat, &lease, work);
    let live = |p: &&(ScopeId, Time)| p.1 > server.now && p.1 <= server.now + super::FAR;
    let pressed = domain.pressure.iter().filter(live).map(|p| p.0).collect();
    Reply::Beaten {
        learning: (domain.learning - server.now).max(0),
        floor_learning: (domain.floor_learning - server.now).max(0),
        pressed,
    }
}

/// The stored entry, or zeros. `None`: damaged.
pub(super) fn entry_or_none(domain: &Domain, lease: &Lease, leaf: Leaf) -> Option<Entry> {
    let none = Entry { inc: lease.inc, leaf, ..Entry::default() };
    let Some(entry) = domain.entry(lease.inc, leaf) else { return Some(none) };
    if entry.damaged || entry.idle > entry.n || entry.v > lease.mv { None } else { Some(*entry) }
}

struct Check<'a> {
    rules: &'a StoreRules,
    domain: &'a Domain,
    server: Server,
    lease: Lease,
    /// No command newer than this beat was executed.
    complete: bool,
}

impl Check<'_> {
    fn run(&self, beat: &Beat) -> Result<Work, Damage> {
        let mut work = Work::default();
        let fv = beat.fv.max(self.lease.fv);
        for item in beat.table.as_deref().unwrap_or_default() {
            self.entry(item, fv, &mut work)?;
        }
        self.rows(&mut work)?;
        Ok(work)
    }

    /// Compares an entry with its line of the table.
    fn entry(&self, item: &Tabled, fv: u16, work: &mut Work) -> Result<(), Damage> {
        let stored = self.domain.entry(self.lease.inc, item.leaf).is_some();
        let mut entry = entry_or_none(self.domain, &self.lease, item.leaf).ok_or(Damage)?;
        let agrees = if stored {
            entry.v > item.v || (entry.v == item.v && entry.n == item.n)
        } else {
            item.n == 0 && item.v <= self.lease.fv
        };
        if self.complete && !agrees && self.rules.naive_repair_in_place {
            entry = Entry { n: item.n, idle: item.idle, v: item.v, ..entry };
            work.put.push(entry);
        } else if self.complete && !agrees {
            return Err(Damage);
        }
        let old_idle = entry.idle;
        if self.complete && entry.v == item.v {
            entry.idle = item.idle.min(entry.n);
        }
        if entry.idle != old_idle {
            work.put.push(entry);
        }
        let settled = entry.v <= fv || self.rules.naive_forget_unsettled;
        let known = entry.v == item.v || self.rules.naive_drop_unknown;
        if self.complete && stored && entry.n == 0 && settled && known {
            work.gone.push(item.leaf);
        }
        for scope in item.leaf.path() {
            let at = work.sums.iter().position(|sum| sum.scope == scope).unwrap_or_else(|| {
                work.sums.push(Sum { scope, n: 0, idle: 0, fresh: 0 });
                work.sums.len() - 1
            });
            work.sums[at].n += i32::from(entry.n);
            work.sums[at].idle += i32::from(old_idle);
            work.sums[at].fresh += i32::from(entry.idle);
        }
        Ok(())
    }

    /// Compares this incarnation's row of every scope with its entries, and the rows with the sums.
    fn rows(&self, work: &mut Work) -> Result<(), Damage> {
        for sum in &work.sums {
            let stored = self.domain.scope(sum.scope).cloned();
            let mut scope = stored.unwrap_or_else(|| Scope::new(sum.scope, self.server.now));
            let row = scope.row(self.lease.inc);
            let wrong = scope.head_damaged(self.lease.inc, self.server.now) || scope.rows_wrong();
            let differs = self.complete && (row.n, row.idle) != (sum.n, sum.idle);
            let (dn, didle) = if self.rules.naive_repair_in_place {
                (sum.n - row.n, sum.fresh - row.idle)
            } else if (wrong || differs) && !self.rules.lossy_sums() {
                return Err(Damage);
            } else {
                (0, sum.fresh - sum.idle)
            };
            if self.complete && scope.charge(self.lease.inc, dn, didle, self.lease.end) {
                work.scopes.push(scope);
            }
        }
        Ok(())
    }
}

fn apply(
    rules: &StoreRules,
    domain: &mut Domain,
    server: Server,
    beat: &Beat,
    lease: &Lease,
    work: Work,
) {
    let inc: IncId = lease.inc;
    for entry in work.put {
        domain.put_entry(entry);
    }
    domain.entries.retain(|entry| entry.inc != inc || !work.gone.contains(&entry.leaf));
    for scope in work.scopes {
        domain.put_scope(scope);
    }
    let length = match inc.class {
        Class::Ordinary => beat.lease,
        Class::Floor => beat.floor_lease,
    };
    domain.put_lease(Lease {
        end: lease.end.max(server.now + length),
        fv: if rules.naive_forget_unsettled { lease.fv } else { beat.fv.max(lease.fv) },
        mv: beat.bv.max(lease.mv),
        ..*lease
    });
    let floors = floor_learning(rules, beat.lease, beat.floor_lease);
    domain.learning = domain.learning.max(domain.founded + learning(rules, beat.lease));
    domain.floor_learning = domain.floor_learning.max(domain.founded + floors);
    domain.last_beat = server.now;
}
