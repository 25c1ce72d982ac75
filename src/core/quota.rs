//! The port to whatever counts slots: this process alone, or a store that all replicas share.
//!
//! A refusal is a value ([`Acquired::Full`]); not knowing is an error ([`StoreError`]). Nobody
//! may answer a client "full" because of an error.

use super::ids::{PoolId, TenantId};
use futures::future::BoxFuture;

/// Where a slot is charged: the whole path is charged or nothing is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotPath {
    pub tenant: TenantId,
    /// The tenant's cap, at least 1.
    pub tenant_cap: u32,
    pub pool: PoolId,
    /// The pool's cap over all tenants; `None`: no cap.
    pub pool_cap: Option<u32>,
}

/// The level of a [`SlotPath`] that had no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullScope {
    Tenant,
    Pool,
}

/// A held slot. Dropping it gives the slot back; the drop does no I/O and never blocks.
pub trait SlotGuard: Send + Sync + std::fmt::Debug {}

/// The answer of a store that knows.
#[derive(Debug)]
pub enum Acquired {
    Granted(Box<dyn SlotGuard>),
    /// The store itself said that this level has no room; nothing was charged.
    Full(FullScope),
}

/// The store could not say. Maps to `quota_unavailable`, never to a 429.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum StoreError {
    #[error("the quota store did not answer in time")]
    Timeout,
    #[error("the quota store is unreachable: {0}")]
    Unreachable(String),
    #[error("the quota store is learning what is held after losing its memory")]
    Learning,
}

/// What a store knows of one tenant's slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SlotUsage {
    /// Slots held by requests of this replica.
    pub here: u64,
    /// Slots held over all replicas, as last heard; equal to `here` for a store of one process.
    pub fleet: u64,
}

/// Grants slots. Implementations are shared by all tasks and never block a thread.
pub trait QuotaStore: Send + Sync {
    /// Ask for one slot on every level of `path`, all or nothing.
    ///
    /// Cancel-safe: dropping the future before it resolves leaves no slot held.
    fn acquire<'a>(&'a self, path: &'a SlotPath) -> BoxFuture<'a, Result<Acquired, StoreError>>;

    /// Resolves when a slot of `tenant` or of `pool` may have come free since **this call** (not
    /// since the first poll). Subscribe first, then [`acquire`](Self::acquire), then wait: no
    /// wake-up is lost. May resolve without cause.
    fn room(&self, tenant: &TenantId, pool: &PoolId) -> BoxFuture<'static, ()>;

    /// Slots of `tenant` as this replica knows them.
    fn usage(&self, tenant: &TenantId) -> SlotUsage;

    /// For `state` and metrics.
    fn status(&self) -> StoreStatus;
}

/// The condition of the store as an operator sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct StoreStatus {
    /// `memory` or `redis`.
    pub kind: &'static str,
    /// The store answered lately (always true for `memory`).
    pub up: bool,
    /// This replica's lease ran out; streams that go on are not counted by the store.
    pub fenced: bool,
    /// The store lost its memory and accepts only what replicas assert again.
    pub learning: bool,
    /// Slots served from this replica's own floor because the store is away.
    pub escrow: u64,
}
