//! What is asked of admission, and its two answers.

use super::holders::OpenGuard;
use super::permit::Permit;
use crate::core::ids::{ModelName, PoolId, RequestId, TenantId};
use crate::core::policy::{PoolCap, TenantPolicy};
use crate::core::reason::Reason;
use std::sync::Arc;
use std::time::Duration;

/// One request that asks to run.
#[derive(Clone, Debug)]
pub struct AdmitRequest {
    /// Need not be unique: clients choose it.
    pub request_id: RequestId,
    pub policy: Arc<TenantPolicy>,
    pub model: Option<ModelName>,
    pub pool: PoolId,
    /// The pool's cap over all tenants. A cap that a reload brought
    /// ([`apply_pools`](super::AdmissionController::apply_pools)) counts instead.
    pub pool_cap: PoolCap,
}

/// The request may run.
#[derive(Debug)]
pub struct Admitted {
    /// Drop it when the engine's work has ended, not earlier.
    pub permit: Permit,
    /// Time between the question and this answer.
    pub waited: Duration,
    /// `Mode::Shadow` only: what an enforcing tenant would have been refused with.
    pub shadow_refusal: Option<Reason>,
}

/// The request may not run. Keep the value until the answer is written: until then the drain
/// knows that somebody still has to be answered.
#[derive(Debug)]
pub struct Refused {
    pub reason: Reason,
    pub tenant: TenantId,
    /// The tenant's cap at the moment of the refusal.
    pub limit: u32,
    /// Time between the question and this answer.
    pub waited: Duration,
    pub(super) _open: Option<OpenGuard>,
}
