//! Slot arithmetic for one process: who holds how many, and whether one more fits.
//!
//! Invariants: a count changes only by [`SlotBook::take`] and [`SlotBook::give_back`]; `take`
//! charges every level of the path or none; a cap is compared, never stored, so a cap that falls
//! below what is held takes nothing away and merely stops growth until enough came back.

use super::ids::{PoolId, TenantId};
use super::quota::{FullScope, SlotPath};
use std::collections::HashMap;
use std::hash::Hash;

/// Slots held, per tenant and per pool. A name without slots has no entry.
#[derive(Debug, Default)]
pub struct SlotBook {
    tenants: HashMap<TenantId, u64>,
    pools: HashMap<PoolId, u64>,
}

impl SlotBook {
    /// Charge one slot on both levels of `path`.
    ///
    /// # Errors
    /// The first level without room, the tenant's before the pool's; nothing was charged.
    pub fn take(&mut self, path: &SlotPath) -> Result<(), FullScope> {
        if self.tenant(&path.tenant) >= u64::from(path.tenant_cap) {
            return Err(FullScope::Tenant);
        }
        if path.pool_cap.is_some_and(|cap| self.pool(&path.pool) >= u64::from(cap)) {
            return Err(FullScope::Pool);
        }
        *self.tenants.entry(path.tenant.clone()).or_default() += 1;
        *self.pools.entry(path.pool.clone()).or_default() += 1;
        Ok(())
    }

    /// Undo one [`take`](Self::take) of this tenant in this pool.
    pub fn give_back(&mut self, tenant: &TenantId, pool: &PoolId) {
        decrease(&mut self.tenants, tenant);
        decrease(&mut self.pools, pool);
    }

    /// Slots held by `tenant` over all pools.
    pub fn tenant(&self, tenant: &TenantId) -> u64 {
        self.tenants.get(tenant).copied().unwrap_or(0)
    }

    /// Slots held in `pool` over all tenants.
    pub fn pool(&self, pool: &PoolId) -> u64 {
        self.pools.get(pool).copied().unwrap_or(0)
    }

    /// Whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty() && self.pools.is_empty()
    }
}

fn decrease<K: Hash + Eq>(counts: &mut HashMap<K, u64>, key: &K) {
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(tenant: &str, tenant_cap: u32, pool: &str, pool_cap: Option<u32>) -> SlotPath {
        SlotPath {
            tenant: tenant.into(),
            tenant_cap,
            pool: pool.into(),
            pool_cap,
            tenant_revision: 1,
            pool_revision: 1,
        }
    }

    #[test]
    fn a_refusal_at_the_pool_charges_the_tenant_nothing() {
        let mut book = SlotBook::default();
        book.take(&path("a", 5, "p", Some(1))).unwrap();
        assert_eq!(book.take(&path("b", 5, "p", Some(1))), Err(FullScope::Pool));
        assert_eq!((book.tenant(&"b".into()), book.pool(&"p".into())), (0, 1));
    }

    #[test]
    fn a_lowered_cap_takes_nothing_away_and_stops_growth() {
        let mut book = SlotBook::default();
        for _ in 0..3 {
            book.take(&path("a", 3, "p", None)).unwrap();
        }
        for held in [3, 2] {
            assert_eq!(book.tenant(&"a".into()), held);
            assert_eq!(book.take(&path("a", 2, "p", None)), Err(FullScope::Tenant));
            book.give_back(&"a".into(), &"p".into());
        }
        assert_eq!(book.take(&path("a", 2, "p", None)), Ok(()));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take { tenant: usize, pool: usize, tenant_cap: u32, pool_cap: Option<u32> },
        Give { nth: prop::sample::Index },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let take = (0..3usize, 0..2usize, 1..5u32, prop::option::of(1..6u32)).prop_map(
            |(tenant, pool, tenant_cap, pool_cap)| Step::Take {
                tenant,
                pool,
                tenant_cap,
                pool_cap,
            },
        );
        let give = any::<prop::sample::Index>().prop_map(|nth| Step::Give { nth });
        prop::collection::vec(prop_oneof![3 => take, 2 => give], 0..200)
    }

    proptest! {
        #[test]
        fn counts_are_what_is_held_and_growth_stops_at_the_cap(steps in steps()) {
            let (tenants, pools) = (["a", "b", "c"], ["p", "q"]);
            let mut book = SlotBook::default();
            let mut held: Vec<(usize, usize)> = Vec::new();
            let of = |held: &[(usize, usize)], t: usize| held.iter().filter(|h| h.0 == t).count();
            let at = |held: &[(usize, usize)], p: usize| held.iter().filter(|h| h.1 == p).count();
            for step in steps {
                match step {
                    Step::Take { tenant, pool, tenant_cap, pool_cap } => {
                        let fits = if of(&held, tenant) >= tenant_cap as usize {
                            Err(FullScope::Tenant)
                        } else if pool_cap.is_some_and(|cap| at(&held, pool) >= cap as usize) {
                            Err(FullScope::Pool)
                        } else {
                            Ok(())
                        };
                        let path = path(tenants[tenant], tenant_cap, pools[pool], pool_cap);
                        prop_assert_eq!(book.take(&path), fits);
                        if fits.is_ok() {
                            held.push((tenant, pool));
                        }
                    }
                    Step::Give { nth } if !held.is_empty() => {
                        let (tenant, pool) = held.swap_remove(nth.index(held.len()));
                        book.give_back(&tenants[tenant].into(), &pools[pool].into());
                    }
                    Step::Give { .. } => {}
                }
                for (index, name) in tenants.iter().enumerate() {
                    prop_assert_eq!(book.tenant(&(*name).into()), of(&held, index) as u64);
                }
                for (index, name) in pools.iter().enumerate() {
                    prop_assert_eq!(book.pool(&(*name).into()), at(&held, index) as u64);
                }
            }
            for (tenant, pool) in held {
                book.give_back(&tenants[tenant].into(), &pools[pool].into());
            }
            prop_assert!(book.is_empty());
        }
    }
}
