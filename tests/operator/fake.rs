//! A process to look at: an [`Observe`] over real telemetry and settable values.

use futures::future::BoxFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use streamgate::core::drain_port::{DrainPort, DrainWait};
use streamgate::core::endpoint_drain::EndpointDrainState;
use streamgate::core::endpoint_drain_port::{
    BoardStatus, EndpointDrains, EndpointWait, Restoration, UnknownEndpoint,
};
use streamgate::core::ids::{EndpointId, ModelName, PoolId, RequestId, TenantId};
use streamgate::core::observe::{
    DrainPhase, DrainState, EndpointPhase, EndpointState, HolderState, Observe, PoolState,
    TenantState,
};
use streamgate::core::policy::{Mode, ModelSet};
use streamgate::core::quota::StoreStatus;
use streamgate::core::slo::Slo;
use streamgate::telemetry::{Labels, Params, Telemetry};
use tokio::sync::watch;

/// The service level of every test.
pub const SLO: Slo = Slo {
    ttft: Duration::from_secs(2),
    tpot: Duration::from_millis(150),
    e2e: Duration::from_secs(30),
};

/// Tenants `a` and `b`, models `big` and `small`; `b` may use `small` only.
pub fn labels() -> Labels {
    let only_small = ModelSet::Only(vec![ModelName::from("small")]);
    Labels {
        tenants: vec![(TenantId::from("a"), ModelSet::Any), (TenantId::from("b"), only_small)],
        models: vec![ModelName::from("big"), ModelName::from("small")],
    }
}

/// Telemetry for [`labels`], without a record file.
pub fn telemetry() -> Arc<Telemetry> {
    let params = Params { labels: labels(), slo: SLO, records: None, version: "1.2.3" };
    Telemetry::new(&params).expect("valid parameters")
}

/// Values an [`Observe`] hands out, apart from the books.
pub struct Values {
    /// Tenants and their limits.
    pub tenants: Vec<(&'static str, u32)>,
    pub pools: Vec<PoolState>,
    pub holders: Vec<HolderState>,
    pub store: StoreStatus,
    pub drain: DrainPhase,
    pub board: BoardStatus,
    /// Whether reading the holders is a defect.
    pub broken: bool,
}

/// An [`Observe`] whose books are telemetry's, as in the real process.
pub struct Fake {
    pub telemetry: Arc<Telemetry>,
    pub values: Mutex<Values>,
}

impl Fake {
    pub fn new(telemetry: Arc<Telemetry>) -> Arc<Self> {
        let values = Values {
            tenants: vec![("a", 4), ("b", 2)],
            pools: vec![pool()],
            holders: vec![holder("r-1", "a"), holder("r-2", "b")],
            store: StoreStatus { kind: "memory", up: true, ..StoreStatus::default() },
            drain: DrainPhase::Serving,
            board: BoardStatus { up: true, last_fault: None },
            broken: false,
        };
        Arc::new(Self { telemetry, values: Mutex::new(values) })
    }

    pub fn with<T>(&self, change: impl FnOnce(&mut Values) -> T) -> T {
        change(&mut self.values.lock().expect("no test panics inside"))
    }
}

fn pool() -> PoolState {
    let endpoint = |address: &str, state, in_flight| EndpointState {
        endpoint: EndpointId::from(address),
        state,
        in_flight,
    };
    PoolState {
        pool: PoolId::from("l20"),
        kind: "engines",
        models: vec!["big".into(), "small".into()],
        max_in_flight: 0,
        demand: 3,
        endpoints: vec![
            endpoint("127.0.0.1:8001", EndpointPhase::Ready, 2),
            endpoint("127.0.0.1:8002", EndpointPhase::Draining, 1),
        ],
    }
}

pub fn holder(request: &str, tenant: &str) -> HolderState {
    HolderState {
        request_id: RequestId::from(request),
        tenant: TenantId::from(tenant),
        model: Some(ModelName::from("big")),
        endpoint: Some(EndpointId::from("127.0.0.1:8001")),
        age_seconds: 1.5,
        tokens: 42,
    }
}

impl Observe for Fake {
    fn tenants(&self) -> Vec<TenantState> {
        let limits = self.with(|values| values.tenants.clone());
        let state = |(id, limit): (&str, u32)| {
            let tenant = TenantId::from(id);
            let ledger = self.telemetry.ledger(&tenant);
            TenantState {
                tenant,
                limit,
                mode: Mode::Enforce,
                in_flight: ledger.in_flight(),
                fleet_in_flight: ledger.in_flight() + 1,
                queued: ledger.queued(),
                arrivals: ledger.arrivals(),
                outcomes: ledger.outcomes(),
            }
        };
        limits.into_iter().map(state).collect()
    }

    fn pools(&self) -> Vec<PoolState> {
        self.with(|values| values.pools.clone())
    }

    fn holders(&self) -> Vec<HolderState> {
        assert!(!self.with(|values| values.broken), "a defect");
        self.with(|values| values.holders.clone())
    }

    fn store(&self) -> StoreStatus {
        self.with(|values| values.store.clone())
    }

    fn drain(&self) -> DrainState {
        let total = self.telemetry.total();
        let state = self.with(|values| values.drain);
        let since = (state != DrainPhase::Serving).then_some(1.0);
        DrainState {
            state,
            in_flight: total.in_flight(),
            queued: total.queued(),
            since_seconds: since,
        }
    }

    fn uptime_seconds(&self) -> f64 {
        12.5
    }

    fn cut_holder(&self, request: &str) -> bool {
        self.with(|values| {
            let before = values.holders.len();
            values.holders.retain(|holder| holder.request_id.as_str() != request);
            values.holders.len() < before
        })
    }
}

/// A drain that ends when a test says so.
pub struct FakeDrain {
    seen: Arc<Fake>,
    ended: watch::Sender<Option<DrainWait>>,
    /// How many calls wait for it now.
    pub waiting: watch::Sender<usize>,
    /// The longest wait asked for last.
    pub asked: Mutex<Option<Duration>>,
}

impl FakeDrain {
    pub fn new(seen: Arc<Fake>) -> Arc<Self> {
        let (ended, waiting) = (watch::Sender::new(None), watch::Sender::new(0));
        Arc::new(Self { seen, ended, waiting, asked: Mutex::default() })
    }

    /// The last request ended.
    pub fn finish(&self, end: DrainWait, phase: DrainPhase) {
        self.seen.with(|values| values.drain = phase);
        self.ended.send_replace(Some(end));
    }

    /// Wait until `count` calls wait.
    pub async fn waiters(&self, count: usize) {
        let mut waiting = self.waiting.subscribe();
        let reached = waiting.wait_for(|waiting| *waiting == count);
        tokio::time::timeout(Duration::from_secs(10), reached)
            .await
            .expect("in time")
            .expect("open");
    }
}

impl DrainPort for FakeDrain {
    fn begin(&self) {
        self.seen.with(|values| {
            if values.drain == DrainPhase::Serving {
                values.drain = DrainPhase::LameDuck;
            }
        });
    }

    fn wait(&self, limit: Duration) -> BoxFuture<'static, DrainWait> {
        *self.asked.lock().expect("not poisoned") = Some(limit);
        let mut ended = self.ended.subscribe();
        let here = Waiting::new(self.waiting.clone());
        Box::pin(async move {
            let _here = here;
            let end = tokio::time::timeout(limit, ended.wait_for(Option::is_some)).await;
            let end = end.ok().and_then(Result::ok).and_then(|end| *end);
            end.unwrap_or(DrainWait::TimedOut { in_flight: 2 })
        })
    }

    fn phase(&self) -> DrainPhase {
        self.seen.with(|values| values.drain)
    }
}

/// Counts a waiting call for as long as its future lives.
struct Waiting(watch::Sender<usize>);

impl Waiting {
    fn new(count: watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// A process without endpoints; their drains are tested with the real binary (`tests/it`).
pub struct NoEndpoints(pub Arc<Fake>);

impl EndpointDrains for NoEndpoints {
    fn drain(
        &self,
        _: EndpointId,
        _: Duration,
    ) -> BoxFuture<'static, Result<EndpointWait, UnknownEndpoint>> {
        Box::pin(async { Err(UnknownEndpoint { known: Vec::new() }) })
    }

    fn restore(&self, _: EndpointId) -> BoxFuture<'static, Result<Restoration, UnknownEndpoint>> {
        Box::pin(async { Err(UnknownEndpoint { known: Vec::new() }) })
    }

    fn states(&self) -> Vec<EndpointDrainState> {
        Vec::new()
    }

    fn board(&self) -> BoardStatus {
        self.0.with(|values| values.board)
    }
}
