//! Chooses where slots are counted, and connects a shared store to what it must reach.

use crate::admission::Holders;
use crate::config::{Quota, StoreKind};
use crate::core::cause::CutCause;
use crate::core::endpoint_drain_port::DrainBoard;
use crate::core::quota::QuotaStore;
use crate::quota::memory::{LocalBoard, MemoryStore};
use crate::quota::redis::{Hooks, RedisBoard, RedisStore};
use crate::telemetry::Telemetry;
use std::sync::Arc;
use std::time::Duration;

/// How long the start waits for the first lease. A Redis that is away then does not keep the
/// process from serving by its policy.
const FIRST_LEASE: Duration = Duration::from_secs(2);
/// How long the end waits until the store knows that nothing is held any more; its lease tells it
/// otherwise.
const LAST_WORD: Duration = Duration::from_millis(500);

/// The store of this process.
#[derive(Clone)]
pub(super) enum Store {
    Memory(Arc<MemoryStore>),
    Redis(Arc<RedisStore>),
}

impl Store {
    /// The store that the configuration names. Must be called inside a runtime.
    pub fn new(quota: &Quota, telemetry: &Arc<Telemetry>, holders: &Arc<Holders>) -> Self {
        match quota.store {
            StoreKind::Memory => Self::Memory(Arc::new(MemoryStore::new())),
            StoreKind::Redis => {
                let holders = Arc::clone(holders);
                let hooks = Hooks {
                    meter: telemetry.clone(),
                    on_cut: Arc::new(move || {
                        holders.cut_all(CutCause::Fence);
                    }),
                };
                Self::Redis(RedisStore::start(quota, hooks))
            }
        }
    }

    /// The board on which replicas that share the store agree what drains.
    pub fn board(&self, quota: &Quota, telemetry: &Arc<Telemetry>) -> Arc<dyn DrainBoard> {
        match self {
            Self::Memory(_) => Arc::new(LocalBoard::new()),
            Self::Redis(store) => {
                Arc::new(RedisBoard::new(quota, Arc::clone(store), telemetry.clone()))
            }
        }
    }

    /// As everybody else sees it.
    pub fn port(&self) -> Arc<dyn QuotaStore> {
        match self {
            Self::Memory(store) => store.clone(),
            Self::Redis(store) => store.clone(),
        }
    }

    /// Wait for the first lease, but not for long.
    pub async fn ready(&self) {
        if let Self::Redis(store) = self
            && !store.ready(FIRST_LEASE).await
        {
            let status = store.status();
            let fault = status.last_fault.map_or("none", |fault| fault.as_str());
            tracing::warn!(fault, "serving without a quota lease, by quota.when_unavailable");
        }
    }

    /// The last stream has ended: give everything back.
    pub async fn leave(&self) {
        if let Self::Redis(store) = self {
            store.leave(LAST_WORD).await;
        }
    }
}
