//! Each tenant by itself.

use super::pools::models;
use crate::config::errors::Report;
use crate::config::raw::{REJECT, RawConfig, RawQueue, RawTenant};
use crate::config::read::At;
use crate::core::ids::TenantId;
use std::collections::HashMap;

pub(super) fn check(raw: &RawConfig, report: &Report<'_>) {
    let mut ids = HashMap::new();
    for tenant in &raw.tenants {
        id(tenant, &mut ids, report);
        models(&tenant.path, &tenant.models, report);
        queue(tenant, report);
        pool(tenant, raw, report);
    }
    anonymous(raw, report);
}

fn id<'r>(tenant: &'r At<RawTenant>, ids: &mut HashMap<&'r str, String>, report: &Report<'_>) {
    let path = format!("{}.id", tenant.path);
    if tenant.id == TenantId::UNKNOWN {
        let problem = "reserved: it labels requests of nobody known";
        report.contradiction(&path, &[], problem, "choose another id");
    } else if tenant.id == REJECT {
        let problem = "reserved: `anonymous: reject` would be ambiguous";
        report.contradiction(&path, &[], problem, "choose another id");
    } else if let Some(first) = ids.get(tenant.id.as_str()) {
        let problem = format!("{first} has the same id");
        report.contradiction(&path, &[], problem, "give each tenant an id of its own");
    } else if !report.in_error(&path) {
        ids.insert(&tenant.id, path);
    }
}

/// A queue that never fills is a limiter that silently does nothing. Its defaults ask for
/// nothing and may stand.
fn queue(tenant: &At<RawTenant>, report: &Report<'_>) {
    let default = RawQueue::default();
    let asks = tenant.queue.is_some_and(|queue| queue != default);
    if asks && !tenant.queues {
        report.contradiction(
            &format!("{}.queue", tenant.path),
            &[&format!("{}.on_limit", tenant.path)],
            "without effect: on_limit is `reject`",
            "write `on_limit: queue`, or remove the queue",
        );
    }
}

fn pool(tenant: &At<RawTenant>, raw: &RawConfig, report: &Report<'_>) {
    let Some(pool) = &tenant.pool else { return };
    let names: Vec<_> = raw.pools.iter().map(|pool| format!("{}.name", pool.path)).collect();
    let unsure = names.iter().any(|name| report.in_error(name)) || raw.pools.is_empty();
    if !unsure && !raw.pools.iter().any(|other| other.name == *pool) {
        let known: Vec<_> = raw.pools.iter().map(|pool| pool.name.as_str()).collect();
        report.contradiction(
            &format!("{}.pool", tenant.path),
            &[],
            "there is no such pool",
            format!("name one of: {}", known.join(", ")),
        );
    }
}

fn anonymous(raw: &RawConfig, report: &Report<'_>) {
    let unsure = raw.tenants.is_empty()
        || raw.tenants.iter().any(|tenant| report.in_error(&format!("{}.id", tenant.path)));
    let known = raw.tenants.iter().any(|tenant| tenant.id == raw.anonymous);
    if raw.anonymous != REJECT && !known && !unsure {
        let remedy = "write `reject`, or the id of a tenant";
        report.contradiction("anonymous", &[], "there is no such tenant", remedy);
    }
}
