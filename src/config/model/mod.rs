//! The validated configuration: what the rest of the code sees. Every value is in range, every
//! reference resolves, every file named was readable when the configuration was loaded.

mod identity;
mod listen;
mod pool;
mod quota;
mod runtime;
mod tenant;
mod timing;

pub use identity::{Identity, Jwks, Jwt, TrustedHeader};
pub use listen::{Admin, Limits, Listen, TlsFiles};
pub use pool::{Discovery, Health, Pool, PoolKind, Retries, Strategy};
pub use quota::{
    OnFence, Quota, QuotaFloors, Redis, RedisTls, StoreKind, StrictFailover, WhenUnavailable,
};
pub use runtime::{Log, LogFormat, LogLevel, OnEngineAbort, Records, Runtime, Streams};
pub use tenant::Tenant;
pub use timing::{Drain, Timeouts};

pub use crate::core::slo::Slo;

use crate::core::ids::TenantId;
use crate::core::policy::Revision;
use std::sync::Arc;

/// One validated configuration: immutable, cheap to clone, meant to stand behind an
/// `ArcSwap<Config>`. Equality tells whether a reload changed anything.
///
/// Shape, by section of the file:
///
/// | field | section | note |
/// |---|---|---|
/// | `revision` | – | when the file came to its place |
/// | `listen` | `listen` | socket addresses; TLS files if any |
/// | `admin` | `admin` | token of the admin API, already read from its file |
/// | `pools` | `pools[]` | at least one; ids unique; endpoints unique over all pools |
/// | `tenants` | `tenants[]` | at least one; `policy` is what admission sees, `key_hashes` what identity sees |
/// | `anonymous` | `anonymous` | the tenant of requests without any credential; `None`: they are refused |
/// | `identity` | `identity` | further sources of identity |
/// | `quota` | `quota` | where slots are counted |
/// | `slo`, `timeouts`, `drain` | same | durations |
/// | `limits` | `limits` | bytes |
/// | `streams`, `records`, `log`, `runtime` | same | |
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub revision: Revision,
    pub listen: Listen,
    pub admin: Admin,
    pub pools: Arc<[Arc<Pool>]>,
    pub tenants: Arc<[Arc<Tenant>]>,
    pub anonymous: Option<TenantId>,
    pub identity: Identity,
    pub quota: Quota,
    pub slo: Slo,
    pub timeouts: Timeouts,
    pub limits: Limits,
    pub streams: Streams,
    pub drain: Drain,
    pub records: Records,
    pub log: Log,
    pub runtime: Runtime,
}

impl Config {
    /// The pool called `id`.
    pub fn pool(&self, id: &str) -> Option<&Arc<Pool>> {
        self.pools.iter().find(|pool| pool.id.as_str() == id)
    }

    /// The tenant called `id`.
    pub fn tenant(&self, id: &str) -> Option<&Arc<Tenant>> {
        self.tenants.iter().find(|tenant| tenant.policy.id.as_str() == id)
    }
}
