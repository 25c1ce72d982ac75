//! What the configuration grants a tenant, validated. Policies are immutable; a reload replaces
//! them while the counts they govern stay where they are.

use super::ids::{ModelName, PoolId, TenantId};
use std::time::Duration;

/// One tenant's rights and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantPolicy {
    pub id: TenantId,
    /// Requests of this tenant that may run at engines at once, over all replicas; at least 1.
    pub max_in_flight: u32,
    /// The configuration this is from: higher for a newer one.
    pub revision: Revision,
    pub on_limit: OnLimit,
    pub models: ModelSet,
    /// The only pool this tenant is served by, if it is pinned to one.
    pub pool: Option<PoolId>,
    pub mode: Mode,
    /// Whether the tenant may choose the upstream gateway's `routing-strategy` by header.
    pub may_route: bool,
}

/// Which configuration a value is from: the higher number is the newer one, the same on every
/// replica. It says when, not what: **any two are equal**, so that configurations and policies
/// that differ in nothing else compare equal and a reload of the same text changes nothing.
#[derive(Clone, Copy, Debug, Eq)]
pub struct Revision(u64);

impl Revision {
    /// The revision of a configuration that was not read from a file.
    pub const FIRST: Self = Self(1);

    /// The revision `number`; 0 counts as 1.
    pub const fn new(number: u64) -> Self {
        Self(if number == 0 { 1 } else { number })
    }

    /// Its number, at least 1.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl PartialEq for Revision {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A pool's cap over all tenants, as one configuration says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolCap {
    /// Requests of the pool that may run at once, over all replicas; `None`: no cap.
    pub max_in_flight: Option<u32>,
    /// The configuration this is from.
    pub revision: Revision,
}

/// What happens to a request above the cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLimit {
    /// Refused at once with `tenant_in_flight`.
    Reject,
    /// Waits in the tenant's queue: at most `max_depth` waiters, each at most `max_wait`.
    Queue { max_depth: u32, max_wait: Duration },
}

/// Whether decisions are enforced or only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Enforce,
    /// Decide, count and log, never refuse.
    Shadow,
}

/// The models a tenant may use or a pool serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSet {
    /// `"*"`.
    Any,
    Only(Vec<ModelName>),
}

impl ModelSet {
    /// Whether `model` is in the set.
    pub fn contains(&self, model: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(names) => names.iter().any(|name| name.as_str() == model),
        }
    }
}
