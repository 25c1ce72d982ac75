//! Case 14 in a fleet: a panic with a slot in hand costs that request alone, here and in the Redis.
//! Nothing that is sent makes the binary panic, so one more replica runs in the test's process, with
//! parts that do.

use crate::rig::{Fleet, Load, Plan, ask, stream};
use crate::support::in_process::{InProcess, MinedHolds, MinedStore, telemetry};
use crate::support::{BOUND, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use streamgate::config::Config;
use streamgate::core::ids::TenantId;
use streamgate::core::quota::QuotaStore;
use streamgate::quota::redis::{Hooks, RedisStore};

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

struct Mined {
    gateway: InProcess,
    store: Arc<RedisStore>,
    /// One hits whoever was granted a slot, one whoever gives it back.
    mines: [Mine; 2],
}

impl Mined {
    async fn start(fleet: &Fleet) -> Self {
        let setup = fleet.plan.setup(fleet.engine.addr(), &fleet.redis.url());
        let config: Arc<Config> = Arc::new(setup.yaml().parse().unwrap());
        let telemetry = telemetry(&config);
        let hooks = Hooks { meter: telemetry.clone(), on_cut: Arc::new(|| {}) };
        let store = RedisStore::start(&config.quota, hooks);
        assert!(store.ready(BOUND).await, "{:?}", store.status());
        let mines: [Mine; 2] = Default::default();
        let [granted, back] = mines.clone().map(|mine| Box::new(move || mine.pass()));
        let mined = Arc::new(MinedStore(store.clone(), granted));
        let holds = Arc::new(MinedHolds(back));
        let gateway = InProcess::start(config, telemetry, mined, holds).await;
        Self { gateway, store, mines }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_costs_its_request_alone() {
    let fleet = Fleet::start(Plan::new(4).replicas(2)).await;
    let mined = Mined::start(&fleet).await;
    let mut targets = fleet.addresses();
    targets.push(mined.gateway.proxy);
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
