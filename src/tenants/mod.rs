//! L2: who is asking, and which pool serves them.
//!
//! [`TenantRegistry`] is built from a configuration and immutable; a reload builds another one.
//! [`identify`](TenantRegistry::identify) turns credentials into a tenant,
//! [`route`](TenantRegistry::route) a tenant and a model into a pool. Both are pure lookups: no
//! I/O, no await, no lock.

mod credential;
mod keys;
mod pools;

#[cfg(test)]
mod tests;

pub use credential::AuthError;

use crate::config::{Config, KeyHash};
use crate::core::ids::{PoolId, TenantId};
use crate::core::policy::TenantPolicy;
use crate::core::reason::Reason;
use credential::Presented;
use keys::KeyTable;
use pools::PoolTable;
use std::collections::HashMap;
use std::sync::Arc;

/// All tenants of one configuration.
#[derive(Debug)]
pub struct TenantRegistry {
    tenants: Box<[Arc<TenantPolicy>]>,
    /// By id; the value is a position in `tenants`.
    ids: HashMap<TenantId, usize>,
    /// Owners are positions in `tenants`.
    keys: KeyTable,
    anonymous: Option<usize>,
    pools: PoolTable,
}

impl From<&Config> for TenantRegistry {
    fn from(config: &Config) -> Self {
        let tenants: Box<[_]> = config.tenants.iter().map(|t| Arc::clone(&t.policy)).collect();
        let ids: HashMap<_, _> =
            tenants.iter().enumerate().map(|(n, tenant)| (tenant.id.clone(), n)).collect();
        let hashes = config.tenants.iter().map(|tenant| &tenant.key_hashes[..]);
        Self {
            keys: KeyTable::of(hashes),
            anonymous: config.anonymous.as_ref().and_then(|id| ids.get(id).copied()),
            pools: PoolTable::of(&config.pools),
            tenants,
            ids,
        }
    }
}

impl TenantRegistry {
    /// The tenant that presents these header values.
    ///
    /// `authorization` is `Bearer KEY` (the scheme in any case), `x_api_key` the key alone; if
    /// both are present they must hold the same key. A caller that finds one of these headers
    /// more than once must refuse the request itself: only one value can be passed here.
    ///
    /// Takes the same time for a known key and for an unknown one: every configured hash is
    /// compared, without an early exit.
    ///
    /// # Errors
    /// No credential while nobody is `anonymous`, or a credential that is not exactly one
    /// configured key. A wrong credential is never anonymous.
    pub fn identify(
        &self,
        authorization: Option<&[u8]>,
        x_api_key: Option<&[u8]>,
    ) -> Result<Arc<TenantPolicy>, AuthError> {
        let owner = match credential::presented(authorization, x_api_key)? {
            Presented::Nothing => self.anonymous.ok_or(AuthError::Missing)?,
            Presented::Key(key) => self.keys.owner(&KeyHash::of(key)).ok_or(AuthError::Unknown)?,
        };
        self.tenants.get(owner).map(Arc::clone).ok_or(AuthError::Unknown)
    }

    /// The tenant called `id`.
    pub fn tenant(&self, id: &str) -> Option<&Arc<TenantPolicy>> {
        self.ids.get(id).and_then(|n| self.tenants.get(*n))
    }

    /// Every tenant, in the order of the configuration.
    pub fn tenants(&self) -> &[Arc<TenantPolicy>] {
        &self.tenants
    }

    /// The pool that serves `model` to `tenant`.
    ///
    /// A pinned tenant has its pool alone. For any other the pool that names the model goes
    /// before one that serves `"*"`; the configuration guarantees that there is only one.
    /// A request without a model (`GET /v1/models` and the like) goes to the tenant's pool: the
    /// pinned one, or else the first of the file that serves any model the tenant may use.
    ///
    /// # Errors
    /// `unknown_model` if no pool at all serves it, `forbidden_model` if one does but not to
    /// this tenant.
    pub fn route(&self, tenant: &TenantPolicy, model: Option<&str>) -> Result<PoolId, Reason> {
        match model {
            Some(model) => self.pools.serving(tenant, model).cloned(),
            None => self.pools.first_of(tenant).cloned(),
        }
    }
}
