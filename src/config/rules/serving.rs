//! Who is served by what. A tenant's model must lead to exactly one pool, and every pool must be
//! led to; a rule that can never match is an error, not a surprise at run time.
//!
//! A tenant pinned to a pool uses that pool alone. Any other tenant uses the pool that names the
//! model, or else the pool that serves `"*"`.
//!
//! A value in error makes its owner a joker: it may serve or use anything, and is never blamed.

use crate::config::errors::Report;
use crate::config::raw::{RawConfig, RawPool, RawTenant};
use crate::config::read::At;

pub(super) fn check(raw: &RawConfig, report: &Report<'_>) {
    let map = Map::of(raw, report);
    if map.pools.is_empty() || map.tenants.is_empty() {
        return;
    }
    map.unserved(report);
    map.ambiguous(report);
    map.unreachable(report);
}

struct Map<'r> {
    pools: Vec<(&'r At<RawPool>, bool)>,
    tenants: Vec<(&'r At<RawTenant>, bool)>,
}

impl<'r> Map<'r> {
    fn of(raw: &'r RawConfig, report: &Report<'_>) -> Self {
        let sure = |path: &str, keys: [&str; 2]| {
            keys.iter().all(|key| !report.in_error(&format!("{path}.{key}")))
        };
        Self {
            pools: raw.pools.iter().map(|p| (p, sure(&p.path, ["name", "models"]))).collect(),
            tenants: raw.tenants.iter().map(|t| (t, sure(&t.path, ["pool", "models"]))).collect(),
        }
    }

    /// The pools that may serve `model` to `tenant`. `None`: any model at all.
    fn serving(&self, tenant: &RawTenant, model: Option<&str>) -> Vec<&At<RawPool>> {
        let pools = || self.pools.iter().map(|(pool, _)| *pool);
        if let Some(pin) = &tenant.pool {
            let fits = |pool: &&At<RawPool>| {
                pool.name == *pin && model.is_none_or(|m| names(pool, m) || names(pool, "*"))
            };
            return pools().filter(fits).collect();
        }
        let Some(model) = model else { return pools().collect() };
        let exact: Vec<_> = pools().filter(|pool| names(pool, model)).collect();
        if exact.is_empty() { pools().filter(|pool| names(pool, "*")).collect() } else { exact }
    }

    fn unserved(&self, report: &Report<'_>) {
        if self.pools.iter().any(|(_, sure)| !sure) {
            return;
        }
        for (tenant, _) in self.tenants.iter().filter(|(_, sure)| *sure) {
            for model in tenant.models.iter().filter(|model| model.value != "*") {
                if self.serving(tenant, Some(&model.value)).is_empty() {
                    let by = match &tenant.pool {
                        Some(pool) => format!("pool `{pool}`, the tenant's only one"),
                        None => "any pool".to_owned(),
                    };
                    report.contradiction(
                        &model.path,
                        &[],
                        format!("not served by {by}: this rule can never match"),
                        "correct the model's name, or add it to a pool's models",
                    );
                }
            }
        }
    }

    fn ambiguous(&self, report: &Report<'_>) {
        for (n, (pool, sure)) in self.pools.iter().enumerate() {
            for model in pool.models.iter().filter(|_| *sure) {
                let other = self.pools[..n]
                    .iter()
                    .find(|(other, sure)| *sure && names(other, &model.value))
                    .map(|(other, _)| other);
                let Some(other) = other else { continue };
                let Some(tenant) = self.unpinned(&model.value) else { continue };
                report.contradiction(
                    &model.path,
                    &[],
                    format!(
                        "pool `{}` serves it too, and tenant `{}` is pinned to neither",
                        other.name, tenant.id
                    ),
                    "let one pool serve it, or pin every tenant that may use it with `pool:`",
                );
            }
        }
    }

    /// A tenant that may use `model` (`"*"`: one that no pool names) and is not pinned.
    fn unpinned(&self, model: &str) -> Option<&At<RawTenant>> {
        let named = |name: &str| self.pools.iter().any(|(pool, _)| names(pool, name));
        let uses = |tenant: &RawTenant| {
            any_model(tenant)
                || tenant
                    .models
                    .iter()
                    .any(|wanted| if model == "*" { !named(wanted) } else { wanted.value == model })
        };
        self.tenants
            .iter()
            .find(|(tenant, sure)| *sure && tenant.pool.is_none() && uses(tenant))
            .map(|(tenant, _)| *tenant)
    }

    fn unreachable(&self, report: &Report<'_>) {
        // A model that no pool serves was meant to be another one, perhaps of the pool in doubt.
        let doubtful = |tenant: &At<RawTenant>| report.in_error(&format!("{}.models", tenant.path));
        if self.tenants.iter().any(|(tenant, sure)| !sure || doubtful(tenant)) {
            return;
        }
        for (pool, _) in self.pools.iter().filter(|(_, sure)| *sure) {
            let reached = self.tenants.iter().any(|(tenant, _)| self.reaches(tenant, &pool.name));
            if !reached {
                report.contradiction(
                    &format!("{}.name", pool.path),
                    &[],
                    "no tenant may use this pool",
                    "allow a tenant one of its models, pin a tenant to it, or remove it",
                );
            }
        }
    }

    fn reaches(&self, tenant: &RawTenant, pool: &str) -> bool {
        let here = |model| self.serving(tenant, model).iter().any(|served| served.name == pool);
        if any_model(tenant) {
            here(None)
        } else {
            tenant.models.iter().any(|model| here(Some(model.value.as_str())))
        }
    }
}

fn names(pool: &RawPool, model: &str) -> bool {
    pool.models.iter().any(|name| name.value == model)
}

fn any_model(tenant: &RawTenant) -> bool {
    tenant.models.is_empty() || tenant.models.iter().any(|model| model.value == "*")
}
