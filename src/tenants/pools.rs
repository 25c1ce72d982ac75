//! Tenant and model → pool.

use crate::config::Pool;
use crate::core::ids::PoolId;
use crate::core::policy::{ModelSet, TenantPolicy};
use crate::core::reason::Reason;
use std::collections::HashMap;
use std::sync::Arc;

/// What each pool serves. Positions are those of the configuration.
#[derive(Debug)]
pub(super) struct PoolTable {
    pools: Box<[(PoolId, ModelSet)]>,
    /// Model → the first pool that names it.
    naming: HashMap<String, usize>,
    /// The first pool that serves `"*"`.
    any: Option<usize>,
}

impl PoolTable {
    pub fn of(pools: &[Arc<Pool>]) -> Self {
        let mut naming = HashMap::new();
        for (n, pool) in pools.iter().enumerate() {
            if let ModelSet::Only(models) = &pool.models {
                for model in models {
                    naming.entry(model.as_str().to_owned()).or_insert(n);
                }
            }
        }
        Self {
            any: pools.iter().position(|pool| pool.models == ModelSet::Any),
            pools: pools.iter().map(|pool| (pool.id.clone(), pool.models.clone())).collect(),
            naming,
        }
    }

    /// The pool that serves `model` to `tenant`.
    pub fn serving(&self, tenant: &TenantPolicy, model: &str) -> Result<&PoolId, Reason> {
        let open = self.naming.get(model).copied().or(self.any);
        let Some((open, _)) = open.and_then(|n| self.pools.get(n)) else {
            return Err(Reason::UnknownModel);
        };
        if !tenant.models.contains(model) {
            return Err(Reason::ForbiddenModel);
        }
        match &tenant.pool {
            None => Ok(open),
            Some(pin) => match self.pinned(pin) {
                Some((pool, models)) if models.contains(model) => Ok(pool),
                _ => Err(Reason::ForbiddenModel),
            },
        }
    }

    /// The pool of requests that name no model.
    pub fn first_of(&self, tenant: &TenantPolicy) -> Result<&PoolId, Reason> {
        let found = match (&tenant.pool, &tenant.models) {
            (Some(pin), _) => self.pinned(pin).map(|(pool, _)| pool),
            (None, ModelSet::Any) => self.pools.first().map(|(pool, _)| pool),
            (None, ModelSet::Only(models)) => {
                let serves = |model: &str| self.naming.get(model).copied().or(self.any);
                let first = models.iter().filter_map(|model| serves(model.as_str())).min();
                first.and_then(|n| self.pools.get(n)).map(|(pool, _)| pool)
            }
        };
        found.ok_or(Reason::ForbiddenModel)
    }

    fn pinned(&self, pin: &PoolId) -> Option<&(PoolId, ModelSet)> {
        self.pools.iter().find(|(pool, _)| pool == pin)
    }
}
