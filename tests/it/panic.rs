//! Case 14: a panic in one request costs that request alone. Nothing a client, an engine or a store
//! sends makes the gateway panic, so it is run here in the test's process with parts that do: a
//! quota store, a recorder of hold times, and a log subscriber, which is met at chosen lines deep
//! inside a request.

use crate::support::wire::{Ending, Wire};
use crate::support::{Api, BOUND, Call, Proto, Setup, eventually};
use futures::future::BoxFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use streamgate::admission::{AdmissionController, Holders};
use streamgate::config::Config;
use streamgate::core::hold::HoldTimes;
use streamgate::core::ids::{PoolId, TenantId};
use streamgate::core::outcome::Outcome;
use streamgate::core::quota::{Acquired, QuotaStore, SlotPath, SlotUsage, StoreError, StoreStatus};
use streamgate::proxy::{
    ClientSocket, EngineTimeouts, Engines, Gateway, Live, Parts, serve_connection,
};
use streamgate::quota::memory::MemoryStore;
use streamgate::telemetry::{Labels, Params, Telemetry};
use streamgate::upstream::Pools;
use streamgate_loadtests::engine::{Engine, EngineConfig};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

const CAP: u32 = 3;
/// More tokens than any test waits for.
const LONG: u32 = 100_000;

/// Panics the next time it is passed, once armed.
#[derive(Clone, Debug, Default)]
struct Mine(Arc<AtomicU32>);

impl Mine {
    fn arm(&self) {
        self.0.store(1, Ordering::SeqCst);
    }

    fn pass(&self) {
        if self.0.swap(0, Ordering::SeqCst) == 1 {
            panic!("a mine");
        }
    }

    fn armed(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 1
    }
}

/// Where a request may be hit.
#[derive(Clone, Debug, Default)]
struct Mines {
    /// Asked for a slot.
    acquire: Mine,
    /// Its slot has just come back.
    hold: Mine,
    /// It logs this.
    line: Arc<std::sync::Mutex<Option<(&'static str, Mine)>>>,
}

impl Mines {
    fn at_line(&self, text: &'static str) -> Mine {
        let mine = Mine::default();
        mine.arm();
        *self.line.lock().unwrap() = Some((text, mine.clone()));
        mine
    }
}

struct MinedStore(MemoryStore, Mine);

impl QuotaStore for MinedStore {
    fn acquire<'a>(&'a self, path: &'a SlotPath) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        Box::pin(async move {
            let answer = self.0.acquire(path).await;
            // With the slot in hand: it must not be lost with the request.
            self.1.pass();
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

struct MinedHolds(Mine);

impl HoldTimes for MinedHolds {
    fn record(&self, _tenant: &TenantId, _held: Duration, _now: Instant) {
        self.0.pass();
    }
}

/// Hits whoever logs the chosen line.
struct MinedLog(Mines);

impl<S: tracing::Subscriber> Layer<S> for MinedLog {
    fn on_event(&self, event: &tracing::Event<'_>, _context: Context<'_, S>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        let chosen = self.0.line.lock().unwrap().clone();
        if let Some((_, mine)) = chosen.filter(|(line, _)| text.0.contains(line)) {
            mine.pass();
        }
    }
}

/// A gateway in this process and thread.
struct Mined {
    proxy: SocketAddr,
    mines: Mines,
    telemetry: Arc<Telemetry>,
    holders: Arc<Holders>,
    store: Arc<MinedStore>,
    pools: Arc<Pools>,
    _log: tracing::subscriber::DefaultGuard,
    _accept: AbortOnDropHandle<()>,
    _leaving: watch::Sender<bool>,
}

impl Mined {
    async fn start(engine: &Engine, tenant: &str) -> Self {
        let setup = Setup::new(&[engine.addr()]).tenant("a", tenant);
        let setup = setup.pool("health: {interval: 1h}\nretries: {max_attempts: 1}");
        let config: Arc<Config> = Arc::new(setup.yaml().parse().unwrap());
        let mines = Mines::default();
        let subscriber = tracing_subscriber::registry().with(MinedLog(mines.clone()));
        let log = tracing::subscriber::set_default(subscriber);
        let policies = config.tenants.iter().map(|tenant| &tenant.policy);
        let tenants = policies.map(|policy| (policy.id.clone(), policy.models.clone())).collect();
        let telemetry = Telemetry::new(&Params {
            labels: Labels { tenants, models: Vec::new() },
            slo: config.slo,
            records: None,
            version: "test",
        })
        .unwrap();
        let store = Arc::new(MinedStore(MemoryStore::new(), mines.acquire.clone()));
        let holders = Holders::new();
        let holds = Arc::new(MinedHolds(mines.hold.clone()));
        let admission = Arc::new(AdmissionController::new(store.clone(), holds, holders.clone()));
        let pools = Arc::new(Pools::new(config.pools.iter()));
        let timeouts = EngineTimeouts { connect: BOUND, pool_idle: config.timeouts.upstream_idle };
        let gateway = Gateway::new(Parts {
            live: Live::new(config),
            admission,
            estimates: Arc::default(),
            pools: pools.clone(),
            telemetry: telemetry.clone(),
            engines: Engines::new(timeouts, 16),
            engine_connections: 1024,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap();
        let (leaving, left) = watch::channel(false);
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
        let _accept = AbortOnDropHandle::new(accept);
        let (_log, _leaving) = (log, leaving);
        Self { proxy, mines, telemetry, holders, store, pools, _log, _accept, _leaving }
    }

    /// Everything is back: slots, entries, leases; and the books agree.
    async fn at_rest(&self, failed: u64, engine: &Engine) {
        eventually("everything is back", || async {
            let books = self.telemetry.total();
            let leases: u64 =
                self.pools.states().iter().flat_map(|p| &p.endpoints).map(|e| e.in_flight).sum();
            let demand: u64 = self.pools.states().iter().map(|pool| pool.demand).sum();
            let slots = self.store.usage(&TenantId::from("a")).here;
            let left = books.in_flight() + books.queued() + leases + demand + slots;
            let open = *self.holders.open().borrow();
            (left + self.holders.in_flight() + open == 0 && books.balanced()).then_some(())
        })
        .await;
        assert_eq!(self.telemetry.total().ended(Outcome::Failed), failed);
        engine.wait_stats(|stats| stats.in_flight == 0, BOUND).await.unwrap();
    }

    /// The whole cap can be used, and no more.
    async fn all_slots_free(&self, engine: &Engine) {
        let silent = Api::Chat.stream(2).fault("delay-head=5m");
        let mut running = Vec::new();
        for n in 0..CAP {
            running.push(Call::start(Proto::ALL[n as usize % 2], self.proxy, &silent).await);
        }
        engine.wait_stats(|stats| stats.in_flight == CAP as usize, BOUND).await.unwrap();
        let more = Wire::connect(self.proxy).await.call(&Api::Chat.stream(2)).await;
        assert_eq!(more.status, 429);
    }
}

async fn engine() -> Engine {
    Engine::start(EngineConfig::instant(Duration::from_millis(5))).await.unwrap()
}

/// A request that is hit ends for its client without a clean end.
async fn ends(call: &mut Call) {
    if call.head().await.is_some() {
        assert_ne!(call.rest().await.1, Ending::Whole);
    }
}

#[tokio::test]
async fn while_it_asks_for_a_slot() {
    let engine = engine().await;
    let tenant = format!("max_in_flight: {CAP}");
    let mined = Mined::start(&engine, &tenant).await;
    for (n, proto) in Proto::ALL.into_iter().enumerate() {
        mined.mines.acquire.arm();
        let mut hit = Call::start(proto, mined.proxy, &Api::Chat.stream(5)).await;
        ends(&mut hit).await;
        assert!(!mined.mines.acquire.armed());
        mined.at_rest(n as u64 + 1, &engine).await;
    }
    mined.all_slots_free(&engine).await;
}

#[tokio::test]
async fn while_its_slot_comes_back() {
    let engine = engine().await;
    let tenant = format!("max_in_flight: {CAP}");
    let mined = Mined::start(&engine, &tenant).await;
    for (n, proto) in Proto::ALL.into_iter().enumerate() {
        mined.mines.hold.arm();
        let mut hit = Call::start(proto, mined.proxy, &Api::Chat.stream(5)).await;
        // Its engine was done, its client not yet told.
        ends(&mut hit).await;
        assert!(!mined.mines.hold.armed());
        mined.at_rest(n as u64 + 1, &engine).await;
    }
    mined.all_slots_free(&engine).await;
}

/// With a slot, an endpoint and an engine connection in hand, at several places of its way.
#[tokio::test]
async fn in_the_middle_of_its_work() {
    let engine = engine().await;
    let tenant =
        format!("max_in_flight: {CAP}\non_limit: queue\nqueue: {{max_depth: 8, max_wait: 1m}}");
    let mined = Mined::start(&engine, &tenant).await;
    // One that runs beside all of it, untouched.
    let mut beside = Call::start(Proto::H2c, mined.proxy, &Api::Chat.stream(LONG)).await;
    assert_eq!(beside.head().await.unwrap().0, 200);
    let places = [
        ("no answer from the engine", "cut=before-head"),
        ("an attempt failed", "error-after=0"),
        ("an attempt failed", "status=503"),
        ("the engine's stream broke", "cut=events:4"),
    ];
    let mut failed = 0;
    for (line, fault) in places {
        for proto in Proto::ALL {
            let mine = mined.mines.at_line(line);
            let mut hit = Call::start(proto, mined.proxy, &Api::Chat.stream(50).fault(fault)).await;
            ends(&mut hit).await;
            assert!(!mine.armed(), "{line}");
            failed += 1;
            eventually("it is counted", || async {
                let books = mined.telemetry.total();
                (books.ended(Outcome::Failed) == failed && books.in_flight() == 1).then_some(())
            })
            .await;
            assert_eq!(mined.store.usage(&TenantId::from("a")).here, 1, "{line}");
        }
    }
    beside.until(Api::Chat.content_mark()).await;
    drop(beside);
    mined.at_rest(failed, &engine).await;
}

/// Others on the same HTTP/2 connection are not disturbed; those who wait get the slot.
#[tokio::test]
async fn others_on_its_connection_and_in_its_queue_go_on() {
    let engine = engine().await;
    let tenant = "max_in_flight: 2\non_limit: queue\nqueue: {max_depth: 8, max_wait: 1m}";
    let mined = Mined::start(&engine, tenant).await;
    let mut connection = crate::support::h2::H2::connect(mined.proxy).await;
    let mut steady = connection.send(&Api::Chat.stream(LONG)).await;
    assert_eq!(steady.head().await.unwrap().0, 200);
    let mine = mined.mines.at_line("the engine's stream broke");
    let mut hit = connection.send(&Api::Chat.stream(LONG).fault("cut=events:20")).await;
    assert_eq!(hit.head().await.unwrap().0, 200);
    let mut waiting = connection.send(&Api::Chat.stream(3)).await;
    let ending = loop {
        match hit.piece().await {
            Ok(Some(_)) => {}
            Ok(None) => break Ending::Whole,
            Err(ending) => break ending,
        }
    };
    assert_eq!(ending, Ending::Reset);
    assert!(!mine.armed());
    assert_eq!(waiting.head().await.unwrap().0, 200, "the slot went to who waited");
    while let Some(piece) = waiting.piece().await.expect("a clean end") {
        drop(piece);
    }
    assert!(steady.piece().await.unwrap().is_some());
    steady.reset();
    mined.at_rest(1, &engine).await;
}
