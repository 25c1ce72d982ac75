//! Bytes of request bodies that are held, and who may hold more.
//!
//! The rule is the dynamic threshold of shared-memory switches (A. K. Choudhury, E. L. Hahne,
//! *Dynamic Queue Length Thresholds for Shared-Memory Packet Switches*, IEEE/ACM Transactions on
//! Networking 6(2), 1998) with a factor of one: a tenant may hold as much as is left free. Alone it
//! has half of the limit; `n` tenants that all want everything have a share of `1 / (n + 1)` each,
//! and as much stays free for whoever comes next. Nothing is set aside for tenants that are not
//! there, and none can take all.

use super::ids::TenantId;
use std::collections::HashMap;

/// What is held, in total and by tenant. A tenant that holds nothing has no entry.
#[derive(Debug, Default)]
pub struct BodyBook {
    total: usize,
    tenants: HashMap<TenantId, usize>,
}

/// Whose bodies leave no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The tenant's own: without its others this one would fit.
    #[error("the tenant's other bodies leave no room")]
    Tenant,
    #[error("the bodies of all tenants leave no room")]
    Everybody,
}

impl BodyBook {
    /// Charge `more` bytes to a body of which `tenant` holds `mine` bytes already. A limit is
    /// compared, never stored: one that falls takes nothing away and stops growth.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing was charged.
    pub fn take(
        &mut self,
        tenant: &TenantId,
        mine: usize,
        more: usize,
        limit: usize,
    ) -> Result<(), NoRoom> {
        self.check(tenant, mine, more, limit)?;
        self.total += more;
        match self.tenants.get_mut(tenant) {
            Some(held) => *held += more,
            None => drop(self.tenants.insert(tenant.clone(), more)),
        }
        Ok(())
    }

    /// Whether [`take`](Self::take) would charge them.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn check(
        &self,
        tenant: &TenantId,
        mine: usize,
        more: usize,
        limit: usize,
    ) -> Result<(), NoRoom> {
        if more == 0 {
            // Also for a tenant that holds more than its share by now.
            return Ok(());
        }
        let held = self.tenant(tenant);
        let fits = |held: usize, total: usize| {
            let sum = held.checked_add(total)?.checked_add(more)?.checked_add(more)?;
            (sum <= limit).then_some(())
        };
        let others = held - mine.min(held);
        match (fits(held, self.total), fits(held - others, self.total - others)) {
            (Some(()), _) => Ok(()),
            (None, Some(())) => Err(NoRoom::Tenant),
            (None, None) => Err(NoRoom::Everybody),
        }
    }

    /// Undo charges of `bytes` bytes.
    pub fn give_back(&mut self, tenant: &TenantId, bytes: usize) {
        self.total -= bytes.min(self.total);
        match self.tenants.get_mut(tenant) {
            Some(held) if *held > bytes => *held -= bytes,
            _ => drop(self.tenants.remove(tenant)),
        }
    }

    /// Bytes held by all tenants.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Bytes held by `tenant`.
    pub fn tenant(&self, tenant: &TenantId) -> usize {
        self.tenants.get(tenant).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: usize = 1200;

    /// Takes bodies of `size` until there is no room.
    fn flood(book: &mut BodyBook, tenant: &str, size: usize) -> NoRoom {
        loop {
            if let Err(none) = book.take(&tenant.into(), 0, size, LIMIT) {
                return none;
            }
        }
    }

    #[test]
    fn a_tenant_that_floods_leaves_room_for_the_next() {
        let mut book = BodyBook::default();
        assert_eq!(flood(&mut book, "a", 1), NoRoom::Tenant);
        assert_eq!(book.tenant(&"a".into()), LIMIT / 2);
        assert_eq!(flood(&mut book, "b", 1), NoRoom::Tenant);
        assert_eq!(book.tenant(&"b".into()), LIMIT / 4);
        assert_eq!(book.take(&"c".into(), 0, 150, LIMIT), Ok(()));
        assert_eq!(book.take(&"d".into(), 0, 150, LIMIT), Err(NoRoom::Everybody));
        // Who holds more than its share now gets no more, and gives way as its bodies end.
        assert_eq!(book.check(&"a".into(), 100, 1, LIMIT), Err(NoRoom::Tenant));
        assert_eq!(book.check(&"a".into(), 0, 0, LIMIT), Ok(()), "a request without a body");
        book.give_back(&"a".into(), 600);
        assert_eq!(book.take(&"d".into(), 0, 150, LIMIT), Ok(()));
    }

    #[test]
    fn a_body_of_half_the_limit_fits_where_nothing_else_is() {
        let mut book = BodyBook::default();
        for part in 0..6 {
            assert_eq!(book.take(&"a".into(), part * 100, 100, LIMIT), Ok(()));
        }
        assert_eq!(book.take(&"a".into(), 600, 1, LIMIT), Err(NoRoom::Everybody));
        assert_eq!(book.check(&"b".into(), 0, usize::MAX, LIMIT), Err(NoRoom::Everybody));
    }

    #[test]
    fn a_lowered_limit_takes_nothing_away() {
        let mut book = BodyBook::default();
        book.take(&"a".into(), 0, 500, LIMIT).unwrap();
        assert_eq!(book.check(&"a".into(), 500, 1, 600), Err(NoRoom::Everybody));
        assert_eq!(book.total(), 500);
        book.give_back(&"a".into(), 500);
        assert_eq!((book.total(), book.tenants.len()), (0, 0));
    }

    proptest! {
        #[test]
        fn counts_are_what_is_held_and_the_limit_holds(
            steps in prop::collection::vec((0..3_usize, 0..700_usize, any::<bool>()), 0..200),
        ) {
            let tenants = ["a", "b", "c"].map(TenantId::from);
            let mut book = BodyBook::default();
            let mut held: Vec<(usize, usize)> = Vec::new();
            for (tenant, bytes, give) in steps {
                if give && !held.is_empty() {
                    let (tenant, bytes) = held.swap_remove(bytes % held.len());
                    book.give_back(&tenants[tenant], bytes);
                } else if book.take(&tenants[tenant], 0, bytes, LIMIT).is_ok() {
                    held.push((tenant, bytes));
                    let fits = bytes == 0 || book.tenant(&tenants[tenant]) <= LIMIT - book.total();
                    prop_assert!(fits);
                }
                prop_assert_eq!(book.total(), held.iter().map(|(_, bytes)| bytes).sum::<usize>());
                for (n, tenant) in tenants.iter().enumerate() {
                    let own = held.iter().filter(|(owner, _)| *owner == n).map(|(_, bytes)| bytes);
                    prop_assert_eq!(book.tenant(tenant), own.sum::<usize>());
                }
                prop_assert!(book.total() <= LIMIT);
            }
        }
    }
}
