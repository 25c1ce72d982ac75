//! `set.lua`.

use super::beat::entry_or_none;
use super::command::{Ask, Code, Command, Config, Grant, Hint, Reply, Shown};
use super::domain::{Class, Domain, Entry, Lease, Store, Time};
use super::memory::{bad_lease, damaged};
use super::scope::Scope;
use super::{Outcome, Server, StoreRules, UNLIMITED};

/// What SET is sent with.
#[derive(Clone, Debug)]
pub struct Set {
    /// How long a shortage shows as pressure.
    pub pressure: Time,
    pub v: u16,
    pub scopes: Vec<Config>,
    pub entries: Vec<Ask>,
}

/// An entry under work. `path`: indexes into [`Call::scopes`].
struct Line {
    ask: Ask,
    path: Vec<usize>,
    old: i32,
    n: i32,
    idle: i32,
    code: Code,
    at: u8,
}

/// A scope under work.
struct Work {
    scope: Scope,
    pressed: bool,
    dirty: bool,
}

/// One SET being computed; nothing is written before it is done.
struct Call<'a> {
    rules: &'a StoreRules,
    domain: &'a Domain,
    server: Server,
    lease: Lease,
    learning: bool,
    reserve_floors: bool,
    scopes: Vec<Work>,
    lines: Vec<Line>,
}

/// The state cannot have been written by a script.
struct Damage;

pub(super) fn exec(
    rules: &StoreRules,
    store: &mut Store,
    server: Server,
    command: &Command,
    set: &Set,
) -> Outcome {
    let Store::Own(domain) = store else { return Reply::NewGen.into() };
    let Some(lease) = domain.lease(command.inc).copied() else { return Reply::NoLease.into() };
    let mut call = Call {
        rules,
        domain,
        server,
        lease,
        learning: learning(rules, domain, server, lease.inc.class),
        reserve_floors: domain.floor_learning > server.now && !rules.naive_no_floor_reserve,
        scopes: Vec::new(),
        lines: Vec::new(),
    };
    let stale = match call.load(set) {
        Ok(stale) => stale,
        Err(Damage) => return damaged(domain).into(),
    };
    if stale {
        return Reply::Stale.into();
    }
    if call.decide().is_err() {
        return damaged(domain).into();
    }
    let Call { scopes, lines, .. } = call;
    finish(rules, domain, server, lease, set, scopes, &lines)
}

fn learning(rules: &StoreRules, domain: &Domain, server: Server, class: Class) -> bool {
    match class {
        Class::Ordinary => domain.learning > server.now && !rules.naive_learning_grants,
        Class::Floor => domain.floor_learning > server.now && !rules.naive_floor_learning_grants,
    }
}

impl Call<'_> {
    /// Reads entries and scopes. `Ok(true)`: a leaf is stale.
    fn load(&mut self, set: &Set) -> Result<bool, Damage> {
        for ask in &set.entries {
            let entry = entry_or_none(self.domain, &self.lease, ask.leaf).ok_or(Damage)?;
            if set.v <= entry.v.max(self.lease.fv) && !self.rules.naive_no_version {
                return Ok(true);
            }
            let path = ask.leaf.path();
            let path =
                path.filter_map(|id| set.scopes.iter().position(|s| s.scope == id)).collect();
            let (old, idle) = (i32::from(entry.n), i32::from(entry.idle));
            self.lines.push(Line { ask: *ask, path, old, n: old, idle, code: Code::Ok, at: 0 });
        }
        for config in &set.scopes {
            let work = self.load_scope(config)?;
            self.scopes.push(work);
        }
        for (k, work) in self.scopes.iter().enumerate() {
            let below = self.lines.iter().filter(|line| line.path.contains(&k));
            let (n, idle) = below.fold((0, 0), |(n, i), line| (n + line.n, i + line.idle));
            let row = work.scope.row(self.lease.inc);
            if (n > row.n || idle > row.idle) && !self.rules.lossy_sums() {
                return Err(Damage);
            }
        }
        Ok(false)
    }

    fn load_scope(&self, given: &Config) -> Result<Work, Damage> {
        let now = self.server.now;
        let stored = self.domain.scope(given.scope).cloned();
        let stored = stored.filter(|s| !(self.rules.naive_damage_is_absent && s.damaged));
        let mut scope = stored.unwrap_or_else(|| Scope::new(given.scope, now));
        if scope.head_damaged(self.lease.inc, now) && !self.rules.lossy_sums() {
            return Err(Damage);
        }
        let mut dirty = false;
        if given.rev > scope.rev || self.rules.naive_last_config_wins {
            (scope.cap, scope.rev, scope.floor) = (given.cap, given.rev, given.floor);
            dirty = true;
        } else if given.rev == scope.rev {
            let tighter = scope.cap == UNLIMITED || given.cap < scope.cap;
            if given.cap != UNLIMITED && tighter {
                scope.cap = given.cap;
                dirty = true;
            }
            if given.floor > scope.floor {
                scope.floor = given.floor;
                dirty = true;
            }
        }
        let pressed = self.domain.pressure.iter().any(|p| p.0 == given.scope && p.1 > now);
        Ok(Work { scope, pressed, dirty })
    }

    /// What is given back first, then what grows.
    fn decide(&mut self) -> Result<(), Damage> {
        for line in 0..self.lines.len() {
            let Line { n, ask, .. } = self.lines[line];
            self.hold(line, n.min(i32::from(ask.want)));
            if self.rules.naive_shrink {
                let over = self.lines[line].path.iter().map(|&k| self.over(k)).max().unwrap_or(0);
                self.hold(line, (self.lines[line].n - over).max(0));
            }
        }
        for line in 0..self.lines.len() {
            if i32::from(self.lines[line].ask.want) > self.lines[line].n {
                self.grow(line)?;
            }
        }
        Ok(())
    }

    /// By how much the scope exceeds its cap.
    fn over(&self, k: usize) -> i32 {
        let scope = &self.scopes[k].scope;
        if scope.cap == UNLIMITED { 0 } else { (scope.total - scope.cap).max(0) }
    }

    fn grow(&mut self, line: usize) -> Result<(), Damage> {
        let Line { n, ask, .. } = self.lines[line];
        let lack = (i32::from(ask.need) - n).max(0);
        let (mut most, mut tight) = self.tightest(line);
        if lack > most && !self.learning {
            self.reclaim(line)?;
            (most, tight) = self.tightest(line);
        }
        if self.learning {
            most = 0;
        }
        if lack > most {
            self.hold(line, n + most);
            self.explain(line, tight);
            return Ok(());
        }
        let base = n + lack;
        let share = if self.lease.inc.class == Class::Floor { 1 } else { 2 };
        let mut spare = (i32::from(ask.want) - base).min((most - lack) / share);
        if self.lines[line].path.iter().any(|&k| self.scopes[k].pressed) {
            spare = 0;
        }
        self.hold(line, base + spare.max(0));
        Ok(())
    }

    /// Why a line went short.
    fn explain(&mut self, line: usize, tight: Option<usize>) {
        let blocked = tight.map(|k| &self.scopes[k].scope);
        let held_back = blocked.is_some_and(|s| s.cap != UNLIMITED && s.cap > s.total);
        let idle = blocked.is_some_and(|s| s.idle > 0) && !self.rules.naive_full_despite_spare;
        let at = tight.map_or(0, |k| u8::try_from(k + 1).unwrap_or(u8::MAX));
        let (code, at) = match (self.learning, held_back, idle) {
            (true, _, _) => (Code::Learning, 0),
            (false, true, _) => (Code::Learning, at),
            (false, false, true) => (Code::Spare, at),
            (false, false, false) => (Code::Full, at),
        };
        self.lines[line].code = code;
        self.lines[line].at = at;
    }

    /// Slots of a scope that may still be granted to this incarnation.
    fn room(&self, k: usize) -> i32 {
        let scope = &self.scopes[k].scope;
        let floor_class = self.lease.inc.class == Class::Floor;
        let mut room = i32::MAX;
        if scope.cap != UNLIMITED {
            room = scope.cap - scope.total;
            if !floor_class && self.reserve_floors {
                room -= (scope.floor - scope.floors).max(0);
            }
        }
        if floor_class && !self.rules.naive_floor_unlimited {
            room = room.min(scope.floor - scope.floors);
        }
        room
    }

    /// The room of a line's path, and the scope that has the least.
    fn tightest(&self, line: usize) -> (i32, Option<usize>) {
        let mut best = (i32::MAX, None);
        for &k in self.checked(line) {
            let room = self.room(k);
            if room < best.0 {
                best = (room, Some(k));
            }
        }
        (best.0.max(0), best.1)
    }

    fn checked(&self, line: usize) -> &[usize] {
        let path = &self.lines[line].path;
        if self.rules.naive_first_scope_only { &path[..1] } else { path }
    }

    /// The line holds `n` from now on, in every scope of its path.
    fn hold(&mut self, line: usize, n: i32) {
        let inc = self.lease.inc;
        let rules = self.rules;
        let line = &mut self.lines[line];
        let idle = (n - i32::from(line.ask.need)).max(0);
        let dn = if rules.naive_charge_absolute { n } else { n - line.n };
        let one = rules.naive_first_scope_only || rules.naive_charge_first_only;
        for &k in if one { &line.path[..1] } else { &line.path[..] } {
            let work = &mut self.scopes[k];
            work.dirty |= work.scope.charge(inc, dn, idle - line.idle, self.lease.end);
        }
        line.n = n;
        line.idle = idle;
    }

    /// Drops the rows of a line's path whose lease is over.
    fn reclaim(&mut self, line: usize) -> Result<(), Damage> {
        for at in 0..self.lines[line].path.len() {
            let k = self.lines[line].path[at];
            if self.server.now < self.scopes[k].scope.nx {
                continue;
            }
            let stored = self.domain.scope(self.scopes[k].scope.id);
            if stored.is_some_and(Scope::rows_wrong) {
                return Err(Damage);
            }
            let work = &mut self.scopes[k];
            work.dirty = true;
            work.scope.nx = self.lease.end;
            for row in work.scope.rows.clone() {
                if row.inc == self.lease.inc {
                    continue;
                }
                match self.domain.lease(row.inc) {
                    Some(lease) if bad_lease(lease, self.server) => return Err(Damage),
                    Some(lease) if lease.end > self.server.now => {
                        work.scope.nx = work.scope.nx.min(lease.end);
                    }
                    _ => work.scope.drop_row(row.inc),
                }
            }
        }
        Ok(())
    }
}

/// Writes, and says what happened.
fn finish(
    rules: &StoreRules,
    domain: &mut Domain,
    server: Server,
    lease: Lease,
    set: &Set,
    mut scopes: Vec<Work>,
    lines: &[Line],
) -> Outcome {
    let hints = press(rules, domain, server, set.pressure, &mut scopes, lines);
    domain.put_lease(Lease { mv: lease.mv.max(set.v), ..lease });
    for line in lines {
        let Line { ask: Ask { leaf, .. }, n, idle, .. } = *line;
        let slots = |x: i32| u16::try_from(x).unwrap_or(u16::MAX);
        let (n, idle) = (slots(n), slots(idle));
        domain.put_entry(Entry { inc: lease.inc, leaf, n, idle, v: set.v, damaged: false });
    }
    let shown = |work: &Work| Shown {
        cap: work.scope.cap,
        total: work.scope.total,
        idle: work.scope.idle,
        pressed: work.pressed,
    };
    let shown = scopes.iter().map(shown).collect();
    for work in scopes {
        if work.dirty {
            domain.put_scope(work.scope);
        }
    }
    let grants = lines
        .iter()
        .map(|l| Grant { n: u16::try_from(l.n).unwrap_or(u16::MAX), code: l.code, at: l.at })
        .collect();
    let learning = (domain.learning - server.now).max(0);
    Outcome { reply: Reply::Held { learning, grants, scopes: shown }, hints }
}

/// Raises pressure where somebody went short or the cap fell below what is held.
fn press(
    rules: &StoreRules,
    domain: &mut Domain,
    server: Server,
    length: Time,
    scopes: &mut [Work],
    lines: &[Line],
) -> Vec<Hint> {
    let mut hints = Vec::new();
    for line in lines.iter().filter(|line| line.n < line.old) {
        for &k in &line.path {
            let free = Hint::Free(scopes[k].scope.id);
            if scopes[k].pressed && !hints.contains(&free) {
                hints.push(free);
            }
        }
    }
    let short = |line: &&Line| matches!(line.code, Code::Full | Code::Spare);
    let mut raised: Vec<usize> =
        lines.iter().filter(short).map(|line| usize::from(line.at) - 1).collect();
    for (k, work) in scopes.iter().enumerate() {
        if work.scope.cap != UNLIMITED && work.scope.total > work.scope.cap {
            raised.push(k);
        }
    }
    if raised.is_empty() || rules.naive_no_pressure {
        return hints;
    }
    domain.pressure.retain(|(_, until)| *until > server.now && *until <= server.now + super::FAR);
    for k in raised {
        let id = scopes[k].scope.id;
        if !scopes[k].pressed {
            hints.push(Hint::Pressure(id));
        }
        scopes[k].pressed = true;
        domain.pressure.retain(|p| p.0 != id);
        domain.pressure.push((id, server.now + length));
    }
    domain.pressure.sort_unstable();
    hints
}
