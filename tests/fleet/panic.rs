//! Case 14 in a fleet: a panic with a slot in hand costs that request alone, here and in the Redis.
//! Nothing that is sent makes the binary panic, so one more replica runs in the test's process, with
//! parts that do.

use crate::rig::{Fleet, Load, Plan, ask, stream};
use crate::support::eventually;
use futures::future::BoxFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use streamgate::admission::{AdmissionController, Holders};
use streamgate::config::Config;
use streamgate::core::hold::HoldTimes;
use streamgate::core::ids::{PoolId, TenantId};
use streamgate::core::quota::{Acquired, QuotaStore, SlotPath, SlotUsage, StoreError, StoreStatus};
use streamgate::proxy::{
    ClientSocket, EngineTimeouts, Engines, Gateway, Live, Parts, serve_connection,
};
use streamgate::quota::redis::{Hooks, RedisStore};
use streamgate::telemetry::{Labels, Params, Telemetry};
use streamgate::upstream::Pools;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Panics every so many times it is passed.
#[derive(Clone, Default)]
struct Mine(Arc<AtomicU32>);

impl Mine {
    fn pass(&self) {
        if self.0.fetch_add(1, Ordering::SeqCst) % 3 == 2 {
            panic!("a mine");
        }
    }
}

/// Hits whoever was granted a slot.
struct MinedStore(Arc<RedisStore>, Mine);

impl QuotaStore for MinedStore {
    fn acquire<'a>(&'a self, path: &'a SlotPath) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        Box::pin(async move {
            let answer = self.0.acquire(path).await;
            if matches!(answer, Ok(Acquired::Granted(_))) {
                self.1.pass();
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

/// Hits whoever gives a slot back.
struct MinedHolds(Mine);

impl HoldTimes for MinedHolds {
    fn record(&self, _tenant: &TenantId, _held: Duration, _now: Instant) {
        self.0.pass();
    }
}

struct Mined {
    proxy: SocketAddr,
    store: Arc<RedisStore>,
    mines: [Mine; 2],
    _accept: AbortOnDropHandle<()>,
    _leaving: watch::Sender<bool>,
}

impl Mined {
    async fn start(fleet: &Fleet) -> Self {
        let setup = fleet.plan.setup(fleet.engine.addr(), &fleet.redis.url());
        let config: Arc<Config> = Arc::new(setup.yaml().parse().unwrap());
        let policies = config.tenants.iter().map(|tenant| &tenant.policy);
        let tenants = policies.map(|policy| (policy.id.clone(), policy.models.clone())).collect();
        let telemetry = Telemetry::new(&Params {
            labels: Labels { tenants, models: Vec::new() },
            slo: config.slo,
            records: None,
            version: "test",
        })
        .unwrap();
        let hooks = Hooks { meter: telemetry.clone(), on_cut: Arc::new(|| {}) };
        let store = RedisStore::start(&config.quota, hooks);
        assert!(store.ready(crate::support::BOUND).await, "{:?}", store.status());
        let mines: [Mine; 2] = Default::default();
        let mined = Arc::new(MinedStore(store.clone(), mines[0].clone()));
        let holds = Arc::new(MinedHolds(mines[1].clone()));
        let admission = Arc::new(AdmissionController::new(mined, holds, Holders::new()));
        let pool_idle = config.timeouts.upstream_idle;
        let timeouts = EngineTimeouts { connect: config.timeouts.connect, pool_idle };
        let gateway = Gateway::new(Parts {
            admission,
            estimates: Arc::default(),
            pools: Arc::new(Pools::new(config.pools.iter())),
            telemetry,
            engine_connections: 1024,
            engines: Engines::new(timeouts, 16),
            live: Live::new(config),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap();
        let (_leaving, left) = watch::channel(false);
        let accept = tokio::spawn(async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                let (stream, reset) = ClientSocket::new(stream);
                let (gateway, left) = (gateway.clone(), left.clone());
                tokio::spawn(serve_connection(
                    Box::new(stream),
                    reset,
                    peer.ip(),
                    None,
                    gateway,
                    left,
                ));
            }
        });
        Self { proxy, store, mines, _accept: AbortOnDropHandle::new(accept), _leaving }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_costs_its_request_alone() {
    let fleet = Fleet::start(Plan::new(4).replicas(2)).await;
    let mined = Mined::start(&fleet).await;
    let mut targets = fleet.addresses();
    targets.push(mined.proxy);
    let load = Load::start(targets, 15, 4);
    eventually("both mines went off, several times", || async {
        let passed = mined.mines.iter().map(|mine| mine.0.load(Ordering::SeqCst)).min();
        (passed >= Some(15)).then_some(())
    })
    .await;
    let tally = load.stop().await;
    println!("panics: {:?}", tally.kinds());
    let hit = tally.count("broken") + tally.count("gone") + tally.count("500 internal");
    assert!(hit >= 8, "{:?}", tally.kinds());
    fleet.assert_exact("panics with a slot in hand");
    fleet.all_back().await;
    assert_eq!(mined.store.usage(&TenantId::from("a")).here, 0);
    // The whole cap can be used by others.
    let held = [fleet.hold(0).await, fleet.hold(0).await, fleet.hold(1).await, fleet.hold(1).await];
    assert_eq!(ask(fleet.gates[0].proxy, &stream("a", 1)).await.kind, "429 tenant_in_flight");
    drop(held);
}
