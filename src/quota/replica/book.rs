//! The scopes and leaves this replica has met, and what it knows of each scope.
//!
//! Nothing is removed: the names are bounded by the configurations of the process's life.

use super::command::Shown;
use super::names;
use super::params::Moment;
use crate::core::ids::{PoolId, TenantId};
use crate::core::quota::{FullScope, SlotPath};
use std::collections::HashMap;
use std::sync::Arc;

/// A scope of this replica's `Book`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeId(usize);

/// A leaf of this replica's [`Book`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeafId(pub(super) usize);

/// Something with a cap.
#[derive(Debug)]
pub(super) struct Scope {
    pub name: Arc<str>,
    pub kind: FullScope,
    /// The newest configuration this replica was told.
    pub cap: Option<u32>,
    pub revision: u64,
    /// Requests of this replica in the scope, of every class.
    pub running: u32,
    /// What the store last said.
    pub seen: Seen,
    /// Somebody waits in the scope, until then.
    pub pressed_until: Moment,
}

/// What the store last said of a scope.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub cap: Option<u32>,
    pub total: u32,
    pub idle: u32,
}

impl Scope {
    /// Somebody waits here.
    pub fn pressed(&self, now: Moment) -> bool {
        now < self.pressed_until
    }

    /// The last answer left no room.
    pub fn full(&self) -> bool {
        self.seen.cap.is_some_and(|cap| self.seen.total >= cap)
    }

    /// More is held, or as much runs here, than this replica's configuration allows: an unused
    /// slot must not be used although it is held.
    pub fn tight(&self) -> bool {
        self.cap.is_some_and(|cap| self.running >= cap || self.seen.total > cap)
    }

    /// Requests in flight over all replicas, as last heard, at least those of this one.
    pub fn fleet(&self) -> u64 {
        u64::from(self.seen.total.saturating_sub(self.seen.idle).max(self.running))
    }

    pub fn show(&mut self, shown: Shown) {
        self.seen = Seen { cap: shown.cap, total: shown.total, idle: shown.idle };
    }
}

/// What a path said about caps that was not known before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub lowered: Option<ScopeId>,
    pub raised: Option<ScopeId>,
}

#[derive(Debug)]
struct LeafNames {
    name: Arc<str>,
    scopes: Box<[ScopeId]>,
}

/// All scopes and leaves met so far.
#[derive(Debug, Default)]
pub(super) struct Book {
    scopes: Vec<Scope>,
    leaves: Vec<LeafNames>,
    tenants: HashMap<TenantId, ScopeId>,
    pools: HashMap<PoolId, ScopeId>,
    by_path: HashMap<(ScopeId, ScopeId), LeafId>,
    by_name: HashMap<Arc<str>, ScopeId>,
}

impl Book {
    /// The leaf of a path, and what its caps changed.
    pub fn leaf(&mut self, path: &SlotPath) -> (LeafId, [Change; 2]) {
        let (tenant, pool) = (self.tenant(&path.tenant), self.pool(&path.pool));
        let changes = [
            self.configure(tenant, Some(path.tenant_cap), path.tenant_revision),
            self.configure(pool, path.pool_cap, path.pool_revision),
        ];
        let next = LeafId(self.leaves.len());
        let id = *self.by_path.entry((tenant, pool)).or_insert(next);
        if id == next {
            let name = names::leaf(&[&self.scope(tenant).name, &self.scope(pool).name]);
            self.leaves.push(LeafNames { name, scopes: Box::new([tenant, pool]) });
        }
        (id, changes)
    }

    /// The scope of a tenant.
    pub fn tenant(&mut self, tenant: &TenantId) -> ScopeId {
        match self.tenants.get(tenant) {
            Some(id) => *id,
            None => {
                let id = self.add(names::tenant(tenant), FullScope::Tenant);
                self.tenants.insert(tenant.clone(), id);
                id
            }
        }
    }

    /// The scope of a pool.
    pub fn pool(&mut self, pool: &PoolId) -> ScopeId {
        match self.pools.get(pool) {
            Some(id) => *id,
            None => {
                let id = self.add(names::pool(pool), FullScope::Pool);
                self.pools.insert(pool.clone(), id);
                id
            }
        }
    }

    fn add(&mut self, name: Arc<str>, kind: FullScope) -> ScopeId {
        let id = ScopeId(self.scopes.len());
        self.by_name.insert(Arc::clone(&name), id);
        self.scopes.push(Scope {
            name,
            kind,
            cap: None,
            revision: 0,
            running: 0,
            seen: Seen::default(),
            pressed_until: Moment::ZERO,
        });
        id
    }

    /// The newest revision counts; of two caps with the same one, the smaller.
    fn configure(&mut self, id: ScopeId, cap: Option<u32>, revision: u64) -> Change {
        let scope = self.scope_mut(id);
        let smaller =
            |a: Option<u32>, b: Option<u32>| a.unwrap_or(u32::MAX) < b.unwrap_or(u32::MAX);
        let (before, first) = (scope.cap, scope.revision == 0);
        if revision > scope.revision || (revision == scope.revision && smaller(cap, scope.cap)) {
            (scope.cap, scope.revision) = (cap, revision);
        }
        Change {
            lowered: (!first && smaller(scope.cap, before)).then_some(id),
            raised: (!first && smaller(before, scope.cap)).then_some(id),
        }
    }

    pub fn scope(&self, id: ScopeId) -> &Scope {
        &self.scopes[id.0]
    }

    pub fn scope_mut(&mut self, id: ScopeId) -> &mut Scope {
        &mut self.scopes[id.0]
    }

    /// The scope that the store calls `name`, if this replica has met it.
    pub fn named(&self, name: &str) -> Option<ScopeId> {
        self.by_name.get(name).copied()
    }

    pub fn all_scopes(&mut self) -> impl Iterator<Item = &mut Scope> {
        self.scopes.iter_mut()
    }

    pub fn scopes_of_kind(&self, kind: FullScope) -> impl Iterator<Item = &Scope> {
        self.scopes.iter().filter(move |scope| scope.kind == kind)
    }

    pub fn name(&self, leaf: LeafId) -> Arc<str> {
        Arc::clone(&self.leaves[leaf.0].name)
    }

    /// The scopes a leaf is charged to, in order.
    pub fn path(&self, leaf: LeafId) -> &[ScopeId] {
        &self.leaves[leaf.0].scopes
    }

    /// Whether any scope of the leaf is so.
    pub fn any(&self, leaf: LeafId, is: impl Fn(&Scope) -> bool) -> bool {
        self.path(leaf).iter().any(|scope| is(self.scope(*scope)))
    }

    /// `more` (or fewer) requests of this replica run in the leaf.
    pub fn run(&mut self, leaf: LeafId, more: bool, count: u32) {
        for at in 0..self.leaves[leaf.0].scopes.len() {
            let id = self.leaves[leaf.0].scopes[at];
            let running = &mut self.scopes[id.0].running;
            *running =
                if more { running.saturating_add(count) } else { running.saturating_sub(count) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::suite::path;

    #[test]
    fn the_newest_revision_counts_and_of_one_the_smaller() {
        let mut book = Book::default();
        let mut told = |cap, revision| {
            let path = SlotPath { tenant_revision: revision, ..path("a", cap, "p", None) };
            let (_, [change, _]) = book.leaf(&path);
            let id = book.tenant(&"a".into());
            (book.scope(id).cap, change.lowered.is_some(), change.raised.is_some())
        };
        assert_eq!(told(4, 5), (Some(4), false, false), "nothing was known");
        assert_eq!(told(9, 4), (Some(4), false, false), "an older configuration");
        assert_eq!(told(3, 5), (Some(3), true, false));
        assert_eq!(told(4, 5), (Some(3), false, false));
        assert_eq!(told(4, 6), (Some(4), false, true));
        assert_eq!(told(2, 7), (Some(2), true, false));
    }

    #[test]
    fn one_path_is_one_leaf_and_counts_in_all_its_scopes() {
        let mut book = Book::default();
        let (a, _) = book.leaf(&path("a", 4, "p", None));
        let (b, _) = book.leaf(&path("b", 4, "p", None));
        assert_eq!(book.leaf(&path("a", 4, "p", None)).0, a);
        assert_ne!(a, b);
        book.run(a, true, 2);
        book.run(b, true, 1);
        let pool = book.named("p:p").unwrap();
        assert_eq!(book.scope(pool).running, 3);
        book.run(a, false, 2);
        assert_eq!(book.scope(pool).running, 1);
    }

    #[test]
    fn a_tenant_and_a_pool_of_one_name_are_two_scopes() {
        let mut book = Book::default();
        assert_ne!(book.tenant(&"x".into()), book.pool(&"x".into()));
    }
}
