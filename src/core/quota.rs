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
    /// The configuration that `tenant_cap` is from: the number of its
    /// [`Revision`](super::policy::Revision). A shared store follows the highest revision it has
    /// seen of each cap, so replicas that reload one after another cannot undo each other.
    pub tenant_revision: u64,
    /// The configuration that `pool_cap` is from.
    pub pool_revision: u64,
}

/// The level of a [`SlotPath`] that had no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullScope {
    Tenant,
    Pool,
}

/// A held slot. Dropping it gives the slot back; the drop does no I/O and never blocks.
pub trait SlotGuard: Send + Sync + std::fmt::Debug {
    /// Whether work may begin on this slot now. To be asked immediately before the first byte
    /// goes to an engine: a process that was frozen since the grant may have lost its lease, and
    /// with it the slot. `false`: nothing may be sent.
    fn is_valid(&self) -> bool {
        true
    }
}

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

    /// Wait for one slot on every level of `path`, until there is one. [`Acquired::Full`] is only
    /// answered to say that another level than `told` (the last such answer; `None`: none yet) has
    /// no room; it may be a moment old, so nobody may be refused because of it. Whoever is told so
    /// and goes on to wait calls again with it.
    ///
    /// Cancel-safe: dropping the future before it resolves leaves no slot held.
    fn wait<'a>(
        &'a self,
        path: &'a SlotPath,
        told: Option<FullScope>,
    ) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        Box::pin(async move {
            loop {
                // Subscribed before asking: a slot that comes free in between is not missed.
                let room = self.room(&path.tenant, &path.pool);
                match self.acquire(path).await? {
                    Acquired::Full(scope) if told == Some(scope) => room.await,
                    answer @ (Acquired::Full(_) | Acquired::Granted(_)) => return Ok(answer),
                }
            }
        })
    }

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
    /// Requests that run on this replica's own floor because the store is away.
    pub escrow: u64,
    /// Slots this replica was granted and believes in, over all tenants and pools.
    pub held: u64,
    /// Of `held`, those no request uses: the next requests start on them without asking.
    pub spare: u64,
    /// Requests of this replica that go on although the store does not count them.
    pub unfenced: u64,
    /// Requests in flight over all replicas and tenants, as last heard.
    pub fleet: u64,
    /// Replicas with a live lease, as last heard; 0: not heard yet.
    pub replicas: u64,
    /// The last failure of an operation, also after the store recovered.
    pub last_fault: Option<StoreFault>,
}

/// What a store is asked for (`quota_store_seconds{op}`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreOp {
    /// A connection until it may be used.
    Connect,
    /// Register this replica with everything it holds.
    Join,
    /// Renew the lease.
    Beat,
    /// Change what is held.
    Set,
    /// Read what the fleet holds.
    Look,
    /// Say and read what drains.
    Drain,
}

impl StoreOp {
    /// Every operation, in declaration order.
    pub const ALL: [Self; 6] =
        [Self::Connect, Self::Join, Self::Beat, Self::Set, Self::Look, Self::Drain];

    /// The `op` label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Join => "join",
            Self::Beat => "beat",
            Self::Set => "set",
            Self::Look => "look",
            Self::Drain => "drain",
        }
    }
}

/// Why a store did not answer: a closed set, so that it can be a label and a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreFault {
    /// No answer within the operation timeout.
    Timeout,
    /// No connection, or it broke.
    Unreachable,
    /// One side does not trust the other's certificate, or they agree on no cipher.
    Tls,
    /// The server does not accept the user or the password.
    Authentication,
    /// The user may not do what is needed.
    Permission,
    /// The server is a copy that takes no writes.
    ReadOnly,
    /// The server loads its data, runs a long script, or waits for its primary.
    Busy,
    /// The server refuses writes for lack of memory.
    OutOfMemory,
    /// The cluster serves our slot nowhere at the moment.
    Cluster,
    /// Somebody else's data under our key.
    ForeignData,
    /// Data of an incompatible version under our key.
    OtherLayout,
    /// The server cannot be used: it does not show what the protocol needs.
    Unsupported,
    /// Too few copies confirmed the write (`strict_failover: wait`).
    NotReplicated,
    /// An answer that the protocol does not have.
    Protocol,
}

impl StoreFault {
    /// Every fault, in declaration order.
    pub const ALL: [Self; 14] = [
        Self::Timeout,
        Self::Unreachable,
        Self::Tls,
        Self::Authentication,
        Self::Permission,
        Self::ReadOnly,
        Self::Busy,
        Self::OutOfMemory,
        Self::Cluster,
        Self::ForeignData,
        Self::OtherLayout,
        Self::Unsupported,
        Self::NotReplicated,
        Self::Protocol,
    ];

    /// The `fault` label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::Authentication => "authentication",
            Self::Permission => "permission",
            Self::ReadOnly => "read_only",
            Self::Busy => "busy",
            Self::OutOfMemory => "out_of_memory",
            Self::Cluster => "cluster",
            Self::ForeignData => "foreign_data",
            Self::OtherLayout => "other_layout",
            Self::Unsupported => "unsupported",
            Self::NotReplicated => "not_replicated",
            Self::Protocol => "protocol",
        }
    }

    /// Whether only an operator can end it.
    pub const fn needs_operator(self) -> bool {
        matches!(
            self,
            Self::Tls
                | Self::Authentication
                | Self::Permission
                | Self::ForeignData
                | Self::OtherLayout
                | Self::Unsupported
        )
    }
}

/// Told of every operation of a shared store. Called from the store's own task; must not block.
pub trait StoreMeter: Send + Sync {
    /// One operation ended after `took`; with `fault`, without an answer.
    fn operation(&self, op: StoreOp, took: std::time::Duration, fault: Option<StoreFault>);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn labels_are_distinct_and_agree_with_serialisation() {
        let ops: BTreeSet<_> = StoreOp::ALL.iter().map(|op| op.as_str()).collect();
        assert_eq!(ops.len(), StoreOp::ALL.len());
        let faults: BTreeSet<_> = StoreFault::ALL.iter().map(|fault| fault.as_str()).collect();
        assert_eq!(faults.len(), StoreFault::ALL.len());
        for fault in StoreFault::ALL {
            assert_eq!(serde_json::json!(fault), fault.as_str());
        }
    }
}
