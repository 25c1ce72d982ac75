//! Case 14: a panic in one request costs that request alone. Nothing a client, an engine or a store
//! sends makes the gateway panic, so it is run here in the test's process with parts that do: a
//! quota store, a recorder of hold times, and a log subscriber, which is met at chosen lines deep
//! inside a request.

use crate::support::in_process::{InProcess, MinedHolds, MinedStore, telemetry};
use crate::support::wire::{Ending, Wire};
use crate::support::{Api, BOUND, Call, Proto, Setup, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use streamgate::config::Config;
use streamgate::core::ids::TenantId;
use streamgate::core::outcome::Outcome;
use streamgate::core::quota::QuotaStore;
use streamgate::quota::memory::MemoryStore;
use streamgate::telemetry::Telemetry;
use streamgate_loadtests::engine::{Engine, EngineConfig};
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
    gateway: InProcess,
    mines: Mines,
    telemetry: Arc<Telemetry>,
    store: Arc<MemoryStore>,
    _log: tracing::subscriber::DefaultGuard,
}

impl Mined {
    async fn start(engine: &Engine, tenant: &str) -> Self {
        let setup = Setup::new(&[engine.addr()]).tenant("a", tenant);
        let setup = setup.pool("health: {interval: 1h}\nretries: {max_attempts: 1}");
        let config: Arc<Config> = Arc::new(setup.yaml().parse().unwrap());
        let mines = Mines::default();
        let subscriber = tracing_subscriber::registry().with(MinedLog(mines.clone()));
        let _log = tracing::subscriber::set_default(subscriber);
        let (telemetry, store) = (telemetry(&config), Arc::new(MemoryStore::new()));
        let step = |mine: &Mine| {
            let mine = mine.clone();
            Box::new(move || mine.pass())
        };
        let mined = Arc::new(MinedStore(store.clone(), step(&mines.acquire)));
        let holds = Arc::new(MinedHolds(step(&mines.hold)));
        let gateway = InProcess::start(config, telemetry.clone(), mined, holds).await;
        Self { gateway, mines, telemetry, store, _log }
    }

    /// Everything is back: slots, entries, leases; and the books agree.
    async fn at_rest(&self, failed: u64, engine: &Engine) {
        eventually("everything is back", || async {
            let books = self.telemetry.total();
            let leases: u64 = self
                .gateway
                .pools
                .states()
                .iter()
                .flat_map(|p| &p.endpoints)
                .map(|e| e.in_flight)
                .sum();
            let demand: u64 = self.gateway.pools.states().iter().map(|pool| pool.demand).sum();
            let slots = self.store.usage(&TenantId::from("a")).here;
            let left = books.in_flight() + books.queued() + leases + demand + slots;
            let open = *self.gateway.holders.open().borrow();
            (left + self.gateway.holders.in_flight() + open == 0 && books.balanced()).then_some(())
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
            running
                .push(Call::start(Proto::ALL[n as usize % 2], self.gateway.proxy, &silent).await);
        }
        engine.wait_stats(|stats| stats.in_flight == CAP as usize, BOUND).await.unwrap();
        let more = Wire::connect(self.gateway.proxy).await.call(&Api::Chat.stream(2)).await;
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
        let mut hit = Call::start(proto, mined.gateway.proxy, &Api::Chat.stream(5)).await;
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
        let mut hit = Call::start(proto, mined.gateway.proxy, &Api::Chat.stream(5)).await;
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
    let mut beside = Call::start(Proto::H2c, mined.gateway.proxy, &Api::Chat.stream(LONG)).await;
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
            let mut hit =
                Call::start(proto, mined.gateway.proxy, &Api::Chat.stream(50).fault(fault)).await;
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
    let mut connection = crate::support::h2::H2::connect(mined.gateway.proxy).await;
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
