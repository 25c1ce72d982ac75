//! What the key holds.

use super::scope::Scope;

/// Milliseconds or ticks, relative to a moment the caller chose.
pub type Time = i32;

/// A scope: bit `0` on of a [`Leaf`].
pub type ScopeId = u8;

/// A leaf, named by the scopes it is charged to, as the real one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Leaf(pub u8);

impl Leaf {
    /// The scopes of the path, in the order of their names.
    pub fn path(self) -> impl Iterator<Item = ScopeId> {
        (0..8).filter(move |bit| self.0 & (1 << bit) != 0)
    }

    /// Whether `scope` is in the path.
    pub fn touches(self, scope: ScopeId) -> bool {
        self.0 & (1 << scope) != 0
    }
}

/// Ordinary slots, or floors with their long lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    #[default]
    Ordinary,
    Floor,
}

/// One life of one holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct IncId {
    pub owner: u8,
    pub life: u8,
    pub class: Class,
}

/// `L|<inc>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    pub inc: IncId,
    pub end: Time,
    /// Versions up to it are settled and refused.
    pub fv: u16,
    /// The highest version executed.
    pub mv: u16,
    /// The field does not parse.
    pub damaged: bool,
}

/// `E|<inc>|<leaf>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub inc: IncId,
    pub leaf: Leaf,
    pub n: u16,
    pub idle: u16,
    pub v: u16,
    /// The field does not parse.
    pub damaged: bool,
}

/// Our hash. Vectors are sorted by their ids and hold no duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Domain {
    pub gen_: u16,
    /// Replication id of the founder; 0: the header is damaged.
    pub founder: u16,
    pub founded: Time,
    pub learning: Time,
    pub floor_learning: Time,
    pub last_beat: Time,
    /// Scopes under pressure, until when.
    pub pressure: Vec<(ScopeId, Time)>,
    pub pressure_damaged: bool,
    pub leases: Vec<Lease>,
    pub entries: Vec<Entry>,
    pub scopes: Vec<Scope>,
}

/// The key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Store {
    #[default]
    Absent,
    /// Somebody else's hash.
    ForeignHash,
    /// Not a hash at all.
    WrongType,
    Own(Domain),
}

impl Store {
    /// The domain, if the key is ours.
    pub fn domain(&self) -> Option<&Domain> {
        match self {
            Self::Own(domain) => Some(domain),
            _ => None,
        }
    }

    /// The domain, if the key is ours.
    pub fn domain_mut(&mut self) -> Option<&mut Domain> {
        match self {
            Self::Own(domain) => Some(domain),
            _ => None,
        }
    }
}

impl Domain {
    /// The lease of an incarnation, live or not.
    pub fn lease(&self, inc: IncId) -> Option<&Lease> {
        self.leases.iter().find(|lease| lease.inc == inc)
    }

    /// The entry of an incarnation, if there is one.
    pub fn entry(&self, inc: IncId, leaf: Leaf) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.inc == inc && entry.leaf == leaf)
    }

    /// The scope, if anybody named it yet.
    pub fn scope(&self, id: ScopeId) -> Option<&Scope> {
        self.scopes.iter().find(|scope| scope.id == id)
    }

    /// Writes an incarnation's lease.
    pub fn put_lease(&mut self, lease: Lease) {
        match self.leases.binary_search_by_key(&lease.inc, |l| l.inc) {
            Ok(at) => self.leases[at] = lease,
            Err(at) => self.leases.insert(at, lease),
        }
    }

    /// Writes an entry.
    pub fn put_entry(&mut self, entry: Entry) {
        match self.entries.binary_search_by_key(&(entry.inc, entry.leaf), |e| (e.inc, e.leaf)) {
            Ok(at) => self.entries[at] = entry,
            Err(at) => self.entries.insert(at, entry),
        }
    }

    /// Writes a scope.
    pub fn put_scope(&mut self, scope: Scope) {
        match self.scopes.binary_search_by_key(&scope.id, |s| s.id) {
            Ok(at) => self.scopes[at] = scope,
            Err(at) => self.scopes.insert(at, scope),
        }
    }

    /// Forgets what no script can tell from absent: the dead with their entries and rows. (Only a
    /// SET's `total` and `idle` would show it.)
    pub fn forget_dead(&mut self, now: Time) {
        let dead: Vec<IncId> = self.leases.iter().filter(|l| l.end <= now).map(|l| l.inc).collect();
        self.leases.retain(|lease| lease.end > now);
        self.entries.retain(|entry| !dead.contains(&entry.inc));
        for scope in &mut self.scopes {
            scope.forget_rows(&dead);
            scope.nx = now;
        }
        self.pressure.retain(|(_, until)| *until > now);
    }

    /// Forgets empty entries whose version is settled: where beats carry no table, nobody can tell
    /// them from absent.
    pub fn forget_settled(&mut self) {
        let Self { leases, entries, .. } = self;
        entries.retain(|entry| {
            let fv = leases.iter().find(|l| l.inc == entry.inc).map_or(0, |l| l.fv);
            entry.n > 0 || entry.v > fv
        });
    }

    /// Slots granted in `scope`, all holders, live or not.
    pub fn total(&self, scope: ScopeId) -> i32 {
        self.scope(scope).map_or(0, |s| s.total)
    }
}

/// Hashing is what an exploration does most; small fields are hashed a word at a time.
mod hash {
    use super::{Entry, IncId, Lease};
    use std::hash::{Hash, Hasher};

    fn inc(inc: IncId) -> u64 {
        u64::from(inc.owner) | u64::from(inc.life) << 8 | (inc.class as u64) << 16
    }

    impl Hash for IncId {
        fn hash<H: Hasher>(&self, to: &mut H) {
            to.write_u64(inc(*self));
        }
    }

    impl Hash for Lease {
        fn hash<H: Hasher>(&self, to: &mut H) {
            to.write_u64(inc(self.inc) | u64::from(self.damaged) << 24 | u64::from(self.fv) << 32);
            to.write_u64(u64::from(self.end.cast_unsigned()) | u64::from(self.mv) << 32);
        }
    }

    impl Hash for Entry {
        fn hash<H: Hasher>(&self, to: &mut H) {
            let Self { n, idle, v, leaf, damaged, .. } = *self;
            to.write_u64(inc(self.inc) | u64::from(leaf.0) << 24 | u64::from(v) << 32);
            to.write_u64(u64::from(n) | u64::from(idle) << 16 | u64::from(damaged) << 32);
        }
    }
}
