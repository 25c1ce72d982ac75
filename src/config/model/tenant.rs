//! A tenant: what admission sees of it, and how it is recognised.

use crate::config::KeyHash;
use crate::core::policy::TenantPolicy;
use std::sync::Arc;

/// One tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Rights and limits.
    pub policy: Arc<TenantPolicy>,
    /// Hashes of its API keys, unique over all tenants. May be empty if the tenant is the
    /// anonymous one or identity comes from elsewhere.
    pub key_hashes: Arc<[KeyHash]>,
    /// Share of a saturated pool, at least 1.
    pub weight: u32,
    /// Higher goes first.
    pub priority: i32,
    /// `None`: no limit.
    pub requests_per_minute: Option<u32>,
    /// `None`: no limit.
    pub tokens_per_minute: Option<u64>,
}
