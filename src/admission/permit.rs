//! What an admitted request owns.

use super::holders::Holder;
use super::lane::OverflowGuard;
use crate::core::hold::HoldTimes;
use crate::core::ids::TenantId;
use crate::core::quota::SlotGuard;
use std::sync::Arc;
use tokio::time::Instant;

/// Owns the slot and the registry entry of one running request.
///
/// `Drop` gives the slot back, then records how long it was held, then unregisters; it neither
/// blocks nor does I/O.
pub struct Permit {
    /// `None` for a shadow request that runs above its cap.
    slot: Option<Box<dyn SlotGuard>>,
    tenant: TenantId,
    granted_at: Instant,
    hold_times: Arc<dyn HoldTimes>,
    _overflow: Option<OverflowGuard>,
    holder: Holder,
}

impl Permit {
    pub(super) fn new(
        slot: Option<Box<dyn SlotGuard>>,
        overflow: Option<OverflowGuard>,
        holder: Holder,
        hold_times: Arc<dyn HoldTimes>,
    ) -> Self {
        let (tenant, granted_at) = (holder.tenant().clone(), Instant::now());
        Self { slot, tenant, granted_at, hold_times, _overflow: overflow, holder }
    }

    /// The registry entry: tell it the endpoint and the tokens, and listen to it for a cut.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Whether work may begin now; to be asked immediately before the first byte goes to an engine
    /// ([`SlotGuard::is_valid`]). A shadow request above its cap may always.
    pub fn may_begin(&self) -> bool {
        self.slot.as_ref().is_none_or(|slot| slot.is_valid())
    }

    /// Whether a slot is held; `false` only for a shadow request above its cap.
    pub fn has_slot(&self) -> bool {
        self.slot.is_some()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            drop(slot);
            let now = Instant::now();
            let held = now.saturating_duration_since(self.granted_at);
            self.hold_times.record(&self.tenant, held, now.into_std());
        }
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit")
            .field("tenant", &self.tenant)
            .field("has_slot", &self.has_slot())
            .finish_non_exhaustive()
    }
}
