//! The port to whatever learns how long slots are held (the source of `Retry-After`).

use super::ids::TenantId;
use std::time::{Duration, Instant};

/// Learns from finished requests. Called from a `Drop`: must neither block nor do I/O.
pub trait HoldTimes: Send + Sync {
    /// A slot of `tenant` was held for `held` and came back at `now`.
    fn record(&self, tenant: &TenantId, held: Duration, now: Instant);
}
