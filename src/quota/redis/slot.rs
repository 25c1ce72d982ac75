//! A slot that a request holds.

use super::shared::Shared;
use crate::core::quota::SlotGuard;
use crate::quota::replica::Lot;
use std::sync::Arc;

/// One slot; its drop gives it back to the machine, which tells the store when it must.
pub(super) struct RedisSlot {
    shared: Arc<Shared>,
    lot: Lot,
}

impl RedisSlot {
    pub fn new(shared: Arc<Shared>, lot: Lot) -> Self {
        Self { shared, lot }
    }
}

impl SlotGuard for RedisSlot {
    fn is_valid(&self) -> bool {
        self.shared.with(|machine, now| machine.is_valid(self.lot, now))
    }
}

impl Drop for RedisSlot {
    fn drop(&mut self) {
        self.shared.with(|machine, now| machine.release(self.lot, now));
    }
}

impl std::fmt::Debug for RedisSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RedisSlot").field(&self.lot).finish()
    }
}
