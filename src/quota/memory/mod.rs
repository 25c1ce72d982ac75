//! Exact slots for a single process.
//!
//! Guarantees: the answer is given at once, without I/O; all levels of a path are charged or
//! none; a slot is owned by its guard, and dropping the guard (also while a panic unwinds) gives
//! it back and wakes everybody who waits for its tenant or its pool. No operation fails.

mod board;

pub use board::LocalBoard;

use crate::core::ids::{PoolId, TenantId};
use crate::core::quota::{
    Acquired, QuotaStore, SlotGuard, SlotPath, SlotUsage, StoreError, StoreStatus,
};
use crate::core::slots::SlotBook;
use crate::core::sync::lock;
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

#[cfg(test)]
mod tests;

/// The store `quota.store: memory`.
#[derive(Debug, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<Shared>>,
}

/// Bells are kept for every name ever waited for; names are bounded by the configuration.
#[derive(Debug, Default)]
struct Shared {
    book: SlotBook,
    tenant_bells: HashMap<TenantId, Arc<Notify>>,
    pool_bells: HashMap<PoolId, Arc<Notify>>,
}

impl MemoryStore {
    /// A store in which nothing is held.
    pub fn new() -> Self {
        Self::default()
    }
}

impl QuotaStore for MemoryStore {
    fn acquire<'a>(&'a self, path: &'a SlotPath) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        // Nothing is charged before the first poll, and nothing is awaited after the charge.
        Box::pin(async move {
            Ok(match lock(&self.shared).book.take(path) {
                Ok(()) => Acquired::Granted(Box::new(HeldSlot {
                    tenant: path.tenant.clone(),
                    pool: path.pool.clone(),
                    shared: Arc::clone(&self.shared),
                })),
                Err(scope) => Acquired::Full(scope),
            })
        })
    }

    fn room(&self, tenant: &TenantId, pool: &PoolId) -> BoxFuture<'static, ()> {
        // A `notified_owned` future hears every `notify_waiters` from its creation on, polled or
        // not; it is created here, before the caller can ask the store again.
        let (by_tenant, by_pool) = {
            let mut shared = lock(&self.shared);
            let tenant_bell = shared.tenant_bells.entry(tenant.clone()).or_default();
            let by_tenant = Arc::clone(tenant_bell).notified_owned();
            let pool_bell = shared.pool_bells.entry(pool.clone()).or_default();
            (by_tenant, Arc::clone(pool_bell).notified_owned())
        };
        Box::pin(async move {
            tokio::select! {
                () = by_tenant => {}
                () = by_pool => {}
            }
        })
    }

    fn usage(&self, tenant: &TenantId) -> SlotUsage {
        let held = lock(&self.shared).book.tenant(tenant);
        SlotUsage { here: held, fleet: held }
    }

    fn status(&self) -> StoreStatus {
        StoreStatus { kind: "memory", up: true, ..StoreStatus::default() }
    }
}

/// One slot, charged in [`MemoryStore::acquire`].
#[derive(Debug)]
struct HeldSlot {
    tenant: TenantId,
    pool: PoolId,
    shared: Arc<Mutex<Shared>>,
}

impl SlotGuard for HeldSlot {}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        let bells = {
            let mut shared = lock(&self.shared);
            shared.book.give_back(&self.tenant, &self.pool);
            [shared.tenant_bells.get(&self.tenant), shared.pool_bells.get(&self.pool)]
                .map(|bell| bell.map(Arc::clone))
        };
        // The pool's bell rings even if this slot had no pool cap: a waiter may know another cap
        // since a reload.
        bells.iter().flatten().for_each(|bell| bell.notify_waiters());
    }
}
