//! Where slots are counted, and what happens when that place is away.

use crate::config::Secret;
use std::time::Duration;

/// The quota store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub store: StoreKind,
    /// `redis://`, `rediss://`, sentinel or cluster form; may carry a password.
    pub redis_url: Secret,
    /// How long the store believes in a replica it hears nothing from.
    pub replica_lease: Duration,
    /// Longest wait for one answer of the store; below a third of `replica_lease`.
    pub operation_timeout: Duration,
    pub when_unavailable: WhenUnavailable,
    pub on_fence: OnFence,
    pub strict_failover: StrictFailover,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            store: StoreKind::Memory,
            redis_url: Secret::from("redis://127.0.0.1:6379/0"),
            replica_lease: Duration::from_secs(3),
            operation_timeout: Duration::from_millis(50),
            when_unavailable: WhenUnavailable::Escrow,
            on_fence: OnFence::Keep,
            strict_failover: StrictFailover::Off,
        }
    }
}

/// Who counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// This process alone.
    Memory,
    /// All replicas together.
    Redis,
}

/// What is admitted while the store is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenUnavailable {
    /// As much as this replica was granted to hold on its own.
    Escrow,
    /// Nothing.
    Closed,
    /// Everything the local count allows; the cap may be exceeded.
    Open,
}

/// What happens to running streams when this replica's lease ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFence {
    Keep,
    Cut,
}

/// Whether a write to the store waits for its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictFailover {
    Off,
    Wait,
}
