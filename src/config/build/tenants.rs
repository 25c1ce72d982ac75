//! One tenant.

use super::model_set;
use crate::config::model::Tenant;
use crate::config::raw::RawTenant;
use crate::core::ids::{PoolId, TenantId};
use crate::core::policy::{OnLimit, Revision, TenantPolicy};
use std::sync::Arc;

pub(super) fn build(raw: RawTenant, revision: Revision) -> Tenant {
    let on_limit = if raw.queues {
        let queue = raw.queue.unwrap_or_default();
        OnLimit::Queue { max_depth: queue.max_depth, max_wait: queue.max_wait }
    } else {
        OnLimit::Reject
    };
    let policy = TenantPolicy {
        id: TenantId::from(raw.id),
        max_in_flight: raw.max_in_flight,
        revision,
        on_limit,
        models: model_set(raw.models),
        pool: raw.pool.map(PoolId::from),
        mode: raw.mode,
        may_route: raw.may_route,
    };
    Tenant {
        policy: Arc::new(policy),
        key_hashes: raw.api_keys.into_iter().map(|at| at.value).collect(),
        weight: raw.weight,
        priority: raw.priority,
        requests_per_minute: (raw.requests_per_minute > 0).then_some(raw.requests_per_minute),
        tokens_per_minute: (raw.tokens_per_minute > 0).then_some(raw.tokens_per_minute),
    }
}
