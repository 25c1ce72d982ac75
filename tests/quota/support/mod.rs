//! Replicas, engines and waiting for values.

pub mod certificates;
pub mod cluster;
pub mod fake;
pub mod relay;
pub mod server;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use streamgate::config::{Quota, Redis, RedisUrl};
use streamgate::core::quota::{
    Acquired, FullScope, QuotaStore, SlotGuard, SlotPath, StoreError, StoreFault, StoreMeter,
    StoreOp,
};
use streamgate::quota::redis::{Hooks, RedisStore};
use tokio::time::{Instant, sleep};

/// Short, but long enough for a machine that is busy with other tests.
pub const LEASE: Duration = Duration::from_secs(2);
/// Longest wait for something that must happen.
pub const BOUND: Duration = Duration::from_secs(20);
pub const MS: Duration = Duration::from_millis(1);

/// Settings with a short lease, and an operation timeout that a busy machine keeps.
pub fn settings(url: &str) -> Quota {
    Quota {
        redis: Redis { url: RedisUrl::parse(url).unwrap(), ..Redis::default() },
        replica_lease: LEASE,
        operation_timeout: LEASE / 4,
        ..Quota::default()
    }
}

/// Operations by kind and fault.
#[derive(Default)]
pub struct Meter(Mutex<HashMap<(StoreOp, Option<StoreFault>), u64>>);

impl Meter {
    /// Answered operations.
    pub fn answered(&self, op: StoreOp) -> u64 {
        self.0.lock().unwrap().get(&(op, None)).copied().unwrap_or(0)
    }
}

impl StoreMeter for Meter {
    fn operation(&self, op: StoreOp, _: Duration, fault: Option<StoreFault>) {
        *self.0.lock().unwrap().entry((op, fault)).or_default() += 1;
    }
}

/// One replica. Dropping it is its `kill -9`.
pub struct Replica {
    pub store: Arc<RedisStore>,
    pub meter: Arc<Meter>,
    /// How often all streams had to end.
    pub cuts: Arc<AtomicU64>,
}

impl Replica {
    /// A replica that has not necessarily reached its Redis yet.
    pub fn start(settings: &Quota) -> Self {
        // RUST_LOG=streamgate=debug shows what happened.
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let (meter, cuts) = (Arc::new(Meter::default()), Arc::new(AtomicU64::new(0)));
        let on_cut = {
            let cuts = Arc::clone(&cuts);
            Arc::new(move || {
                cuts.fetch_add(1, Ordering::SeqCst);
            })
        };
        let hooks = Hooks { meter: Arc::clone(&meter) as Arc<dyn StoreMeter>, on_cut };
        Self { store: RedisStore::start(settings, hooks), meter, cuts }
    }

    /// A replica with its first lease.
    pub async fn ready(settings: &Quota) -> Self {
        let replica = Self::start(settings);
        assert!(replica.store.ready(BOUND).await, "{:?}", replica.store.status());
        replica
    }

    /// Replicas with their first lease, after the learning period of a new memory.
    pub async fn fleet<const N: usize>(settings: &Quota) -> [Self; N] {
        let mut fleet = Vec::new();
        for _ in 0..N {
            fleet.push(Self::ready(settings).await);
        }
        for replica in &fleet {
            until("nothing to learn any more", || !replica.store.status().learning).await;
        }
        fleet.try_into().unwrap_or_else(|_| panic!("as many as were started"))
    }

    pub async fn ask(&self, path: &SlotPath) -> Result<Acquired, StoreError> {
        self.store.acquire(path).await
    }

    /// A slot, at the first answer.
    pub async fn slot(&self, path: &SlotPath) -> Box<dyn SlotGuard> {
        match self.answer(path).await {
            Acquired::Granted(slot) => slot,
            other @ Acquired::Full(_) => {
                panic!("expected a slot, got {other:?}; {:?}", self.store.status())
            }
        }
    }

    /// The answer of a store that is there. On a busy machine it may be late; then it is asked
    /// for again.
    pub async fn answer(&self, path: &SlotPath) -> Acquired {
        let begun = Instant::now();
        loop {
            match self.ask(path).await {
                Ok(answer) => return answer,
                Err(error) => assert!(begun.elapsed() < BOUND, "no answer in {BOUND:?}: {error}"),
            }
            sleep(5 * MS).await;
        }
    }

    /// A slot, asked for again until there is one; how long it took.
    pub async fn slot_soon(&self, path: &SlotPath) -> (Box<dyn SlotGuard>, Duration) {
        let begun = Instant::now();
        loop {
            match self.ask(path).await {
                Ok(Acquired::Granted(slot)) => return (slot, begun.elapsed()),
                other => assert!(begun.elapsed() < BOUND, "no slot in {BOUND:?}: {other:?}"),
            }
            sleep(5 * MS).await;
        }
    }

    /// No slot, because the store says so.
    pub async fn full(&self, path: &SlotPath) -> FullScope {
        match self.answer(path).await {
            Acquired::Full(scope) => scope,
            other @ Acquired::Granted(_) => panic!("expected no room, got {other:?}"),
        }
    }

    /// No answer of the store.
    pub async fn unknown(&self, path: &SlotPath) -> StoreError {
        match self.ask(path).await {
            Err(error) => error,
            Ok(other) => panic!("expected no answer, got {other:?}"),
        }
    }
}

/// A path with a tenant's cap only.
pub fn path(tenant: &str, cap: u32) -> SlotPath {
    SlotPath {
        tenant: tenant.into(),
        tenant_cap: cap,
        pool: "p".into(),
        pool_cap: None,
        tenant_revision: 1,
        pool_revision: 1,
    }
}

/// Waits for a value, within [`BOUND`].
pub async fn until(what: &str, is: impl Fn() -> bool) {
    within(BOUND, what, is).await;
}

/// Waits for a value, within `bound`.
pub async fn within(bound: Duration, what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + bound;
    while !is() {
        assert!(Instant::now() < end, "not within {bound:?}: {what}");
        sleep(2 * MS).await;
    }
}

/// An engine that counts what runs on it.
#[derive(Default)]
pub struct Engine {
    running: AtomicU64,
    most: AtomicU64,
    served: AtomicU64,
}

/// A request at the engine.
pub struct Work<'a>(&'a Engine);

impl Engine {
    pub fn begin(&self) -> Work<'_> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        self.served.fetch_add(1, Ordering::SeqCst);
        Work(self)
    }

    /// The most that ever ran at once.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::SeqCst)
    }

    pub fn served(&self) -> u64 {
        self.served.load(Ordering::SeqCst)
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What the server's hash says of a scope: total and idle.
pub fn stored(connection: &mut redis::Connection, scope: &str) -> (i64, i64) {
    let text: Option<String> = redis::cmd("HGET")
        .arg("sg:{q0}")
        .arg(format!("S|{scope}"))
        .query(connection)
        .expect("the key is a hash");
    let Some(text) = text else { return (0, 0) };
    let head = text.split(';').next().unwrap_or_default();
    let numbers: Vec<i64> = head.split(' ').filter_map(|n| n.parse().ok()).collect();
    match numbers[..] {
        [_, _, _, _, total, idle, ..] => (total, idle),
        // Somebody edited it.
        _ => (-1, -1),
    }
}

/// Slots set aside as floors, over all holders of the only leaf.
pub fn floors(connection: &mut redis::Connection) -> usize {
    let fields: HashMap<String, String> =
        redis::cmd("HGETALL").arg("sg:{q0}").query(connection).expect("the key is a hash");
    let floors = fields.iter().filter(|(field, _)| field.starts_with("E|f"));
    floors.map(|(_, value)| value.split(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}
