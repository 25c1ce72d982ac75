//! The behaviour suite over a real server.

#[path = "../../../tests/quota/support/server.rs"]
mod server;

use super::*;
use crate::config::{Quota, Redis, RedisUrl};
use crate::core::ids::{PoolId, TenantId};
use crate::core::quota::{
    Acquired, FullScope, QuotaStore, SlotPath, SlotUsage, StoreError, StoreFault, StoreMeter,
    StoreOp, StoreStatus,
};
use crate::quota::suite;
use futures::future::BoxFuture;
use server::RedisServer;
use std::sync::Arc;
use std::time::Duration;

/// A store and the server it lives in.
struct Fixture {
    store: Arc<RedisStore>,
    _server: RedisServer,
}

impl QuotaStore for Fixture {
    fn acquire<'a>(&'a self, path: &'a SlotPath) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        self.store.acquire(path)
    }

    fn wait<'a>(
        &'a self,
        path: &'a SlotPath,
        told: Option<FullScope>,
    ) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        self.store.wait(path, told)
    }

    fn room(&self, tenant: &TenantId, pool: &PoolId) -> BoxFuture<'static, ()> {
        self.store.room(tenant, pool)
    }

    fn usage(&self, tenant: &TenantId) -> SlotUsage {
        self.store.usage(tenant)
    }

    fn status(&self) -> StoreStatus {
        self.store.status()
    }
}

struct NoMeter;

impl StoreMeter for NoMeter {
    fn operation(&self, _: StoreOp, _: Duration, _: Option<StoreFault>) {}
}

fn fresh() -> Arc<dyn QuotaStore> {
    let server = RedisServer::start(&[]);
    let settings = Quota {
        redis: Redis { url: RedisUrl::parse(&server.url()).unwrap(), ..Redis::default() },
        replica_lease: Duration::from_millis(1500),
        // The machine that runs the tests may be busy.
        operation_timeout: Duration::from_millis(375),
        ..Quota::default()
    };
    let hooks = Hooks { meter: Arc::new(NoMeter), on_cut: Arc::new(|| {}) };
    Arc::new(Fixture { store: RedisStore::start(&settings, hooks), _server: server })
}

suite::behaves_as_a_quota_store!(fresh);
