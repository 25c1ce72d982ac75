//! A gateway in the test's process, with parts of the test's own.

use super::BOUND;
use futures::future::BoxFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use streamgate::admission::{AdmissionController, Holders};
use streamgate::config::Config;
use streamgate::core::drain::Farewell;
use streamgate::core::hold::HoldTimes;
use streamgate::core::ids::{PoolId, TenantId};
use streamgate::core::quota::{Acquired, QuotaStore, SlotPath, SlotUsage, StoreError, StoreStatus};
use streamgate::proxy::{
    ClientSocket, EngineTimeouts, Engines, Gateway, Live, Parts, serve_connection,
};
use streamgate::telemetry::{Labels, Params, Telemetry};
use streamgate::upstream::Pools;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Called at some step of a request; may panic.
pub type Step = Box<dyn Fn() + Send + Sync>;

/// A store that takes a step with a slot in hand: it must not be lost with the request.
pub struct MinedStore(pub Arc<dyn QuotaStore>, pub Step);

impl QuotaStore for MinedStore {
    fn acquire<'a>(&'a self, path: &'a SlotPath) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        Box::pin(async move {
            let answer = self.0.acquire(path).await;
            if matches!(answer, Ok(Acquired::Granted(_))) {
                self.1();
            }
            answer
        })
    }

    fn room(&self, tenant: &TenantId, pool: &PoolId) -> BoxFuture<'static, ()> {
        self.0.room(tenant, pool)
    }

    fn usage(&self, tenant: &TenantId) -> SlotUsage {
        self.0.usage(tenant)
    }

    fn status(&self) -> StoreStatus {
        self.0.status()
    }
}

/// A step whenever a slot has just come back.
pub struct MinedHolds(pub Step);

impl HoldTimes for MinedHolds {
    fn record(&self, _tenant: &TenantId, _held: Duration, _now: Instant) {
        self.0();
    }
}

/// What a gateway of this configuration reports to.
pub fn telemetry(config: &Config) -> Arc<Telemetry> {
    let policies = config.tenants.iter().map(|tenant| &tenant.policy);
    let tenants = policies.map(|policy| (policy.id.clone(), policy.models.clone())).collect();
    let labels = Labels { tenants, models: Vec::new() };
    let params = Params { labels, slo: config.slo, records: None, version: "test" };
    Telemetry::new(&params).unwrap()
}

/// A gateway at work until it is dropped.
pub struct InProcess {
    pub proxy: SocketAddr,
    pub holders: Arc<Holders>,
    pub pools: Arc<Pools>,
    _accept: AbortOnDropHandle<()>,
    _farewell: watch::Sender<Farewell>,
}

impl InProcess {
    pub async fn start(
        config: Arc<Config>,
        telemetry: Arc<Telemetry>,
        store: Arc<dyn QuotaStore>,
        holds: Arc<dyn HoldTimes>,
    ) -> Self {
        let holders = Holders::new();
        let pools = Arc::new(Pools::new(config.pools.iter()));
        let timeouts = EngineTimeouts { connect: BOUND, pool_idle: config.timeouts.upstream_idle };
        let gateway = Gateway::new(Parts {
            live: Live::new(config),
            admission: Arc::new(AdmissionController::new(store, holds, holders.clone())),
            estimates: Arc::default(),
            pools: pools.clone(),
            telemetry,
            engines: Engines::new(timeouts, 16),
            engine_connections: 1024,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap();
        let _farewell = watch::Sender::default();
        let stays = _farewell.subscribe();
        let accept = async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                let (stream, close) = ClientSocket::new(stream);
                let (gateway, stays) = (gateway.clone(), stays.clone());
                let stream = Box::new(stream);
                tokio::spawn(serve_connection(stream, close, peer.ip(), None, gateway, stays));
            }
        };
        let _accept = AbortOnDropHandle::new(tokio::spawn(accept));
        Self { proxy, holders, pools, _accept, _farewell }
    }
}
