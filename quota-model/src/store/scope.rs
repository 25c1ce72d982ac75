//! `S|<scope>`: configuration, sums, and one row per holder.

use super::UNLIMITED;
use super::domain::{Class, IncId, ScopeId, Time};
use super::memory::FAR;

/// What one incarnation holds below the scope, over all its leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    pub inc: IncId,
    pub n: i32,
    pub idle: i32,
}

/// One scope. `total`, `idle` and `floors` repeat the sums over the rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    pub id: ScopeId,
    pub cap: i32,
    pub rev: u32,
    pub floor: i32,
    /// No row can be dead before this time.
    pub nx: Time,
    pub total: i32,
    pub idle: i32,
    pub floors: i32,
    /// Sorted by incarnation.
    pub rows: Vec<Row>,
    /// The part before the rows does not parse.
    pub damaged: bool,
    /// The rows do not parse.
    pub rows_damaged: bool,
}

impl Scope {
    /// A scope nobody named before.
    pub fn new(id: ScopeId, now: Time) -> Self {
        Self {
            id,
            cap: UNLIMITED,
            rev: 0,
            floor: 0,
            nx: now + FAR,
            total: 0,
            idle: 0,
            floors: 0,
            rows: Vec::new(),
            damaged: false,
            rows_damaged: false,
        }
    }

    /// The row of one incarnation; zeros if it has none.
    pub fn row(&self, inc: IncId) -> Row {
        let none = Row { inc, n: 0, idle: 0 };
        self.rows.iter().find(|row| row.inc == inc).copied().unwrap_or(none)
    }

    /// What a script notices without reading the rows of others.
    pub(super) fn head_damaged(&self, inc: IncId, now: Time) -> bool {
        let own = self.row(inc);
        let row = own.idle > own.n || own.n > self.total || own.idle > self.idle;
        self.damaged || self.nx > now + FAR || row
    }

    /// What a script notices that reads all rows.
    pub fn rows_wrong(&self) -> bool {
        let sum = |f: &dyn Fn(&Row) -> i32| self.rows.iter().map(f).sum::<i32>();
        let floors = sum(&|row| if row.inc.class == Class::Floor { row.n } else { 0 });
        self.rows_damaged
            || self.rows.iter().any(|row| row.idle > row.n)
            || (sum(&|r| r.n), sum(&|r| r.idle), floors) != (self.total, self.idle, self.floors)
    }

    /// Adds to a row and to the sums. `end`: the holder's lease end, before which the row cannot be
    /// dead. Returns whether anything changed.
    pub(super) fn charge(&mut self, inc: IncId, dn: i32, didle: i32, end: Time) -> bool {
        if dn == 0 && didle == 0 {
            return false;
        }
        let row = self.row(inc);
        let row = Row { inc, n: row.n + dn, idle: row.idle + didle };
        match self.rows.binary_search_by_key(&inc, |r| r.inc) {
            Ok(at) if row.n <= 0 => {
                self.rows.remove(at);
            }
            Ok(at) => self.rows[at] = row,
            Err(at) if row.n > 0 => self.rows.insert(at, row),
            Err(_) => {}
        }
        self.total += dn;
        self.idle += didle;
        if inc.class == Class::Floor {
            self.floors += dn;
        }
        self.nx = self.nx.min(end);
        true
    }

    /// Forgets the rows of these incarnations.
    pub fn forget_rows(&mut self, incs: &[IncId]) {
        for inc in incs {
            self.drop_row(*inc);
        }
    }

    /// Forgets another incarnation's row.
    pub(super) fn drop_row(&mut self, inc: IncId) {
        let row = self.row(inc);
        self.rows.retain(|r| r.inc != inc);
        self.total -= row.n;
        self.idle -= row.idle;
        if inc.class == Class::Floor {
            self.floors -= row.n;
        }
    }
}
