//! Admission at the level of the controller, over the memory store and stores that misbehave.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

mod close;
mod drain;
mod queue;
mod reject;
mod sequences;
mod shadow;

use futures::future::BoxFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use streamgate::admission::{AdmissionController, AdmitRequest, Admitted, Holders, Refused};
use streamgate::core::hold::HoldTimes;
use streamgate::core::ids::{PoolId, TenantId};
use streamgate::core::policy::{Mode, ModelSet, OnLimit, PoolCap, Revision, TenantPolicy};
use streamgate::core::quota::{Acquired, QuotaStore, SlotPath, SlotUsage, StoreError, StoreStatus};
use streamgate::core::reason::Reason;
use streamgate::quota::memory::MemoryStore;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long a test waits for what must happen; in paused time it costs nothing.
const BOUND: Duration = Duration::from_secs(60);

/// Hold times as they were recorded.
#[derive(Default)]
struct Recorded(Mutex<Vec<(TenantId, Duration)>>);

impl HoldTimes for Recorded {
    fn record(&self, tenant: &TenantId, held: Duration, _now: std::time::Instant) {
        self.0.lock().unwrap().push((tenant.clone(), held));
    }
}

/// A store in front of another: can be told to fail, and to make every call wait.
#[derive(Default)]
struct Troubled {
    inner: MemoryStore,
    error: Mutex<Option<StoreError>>,
    /// If set, each call needs one permit of it.
    gate: Option<Arc<Semaphore>>,
}

impl Troubled {
    fn failing(error: StoreError) -> Arc<Self> {
        Arc::new(Self { error: Mutex::new(Some(error)), ..Self::default() })
    }

    fn gated() -> (Arc<Self>, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(0));
        (Arc::new(Self { gate: Some(Arc::clone(&gate)), ..Self::default() }), gate)
    }
}

impl QuotaStore for Troubled {
    fn acquire<'a>(&'a self, path: &'a SlotPath) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        Box::pin(async move {
            if let Some(gate) = &self.gate {
                gate.acquire().await.unwrap().forget();
            }
            let error = self.error.lock().unwrap().clone();
            match error {
                Some(error) => Err(error),
                None => self.inner.acquire(path).await,
            }
        })
    }

    fn room(&self, tenant: &TenantId, pool: &PoolId) -> BoxFuture<'static, ()> {
        self.inner.room(tenant, pool)
    }

    fn usage(&self, tenant: &TenantId) -> SlotUsage {
        self.inner.usage(tenant)
    }

    fn status(&self) -> StoreStatus {
        self.inner.status()
    }
}

/// A controller with everything around it.
struct Rig {
    controller: Arc<AdmissionController>,
    holders: Arc<Holders>,
    store: Arc<dyn QuotaStore>,
    recorded: Arc<Recorded>,
}

impl Rig {
    fn over(store: Arc<dyn QuotaStore>) -> Self {
        let (holders, recorded) = (Holders::new(), Arc::new(Recorded::default()));
        let controller = Arc::new(AdmissionController::new(
            Arc::clone(&store),
            Arc::clone(&recorded) as _,
            Arc::clone(&holders),
        ));
        Self { controller, holders, store, recorded }
    }

    fn new() -> Self {
        Self::over(Arc::new(MemoryStore::new()))
    }

    async fn admit(&self, request: AdmitRequest) -> Result<Admitted, Refused> {
        self.controller.admit(request, Instant::now()).await
    }

    fn spawn(&self, request: AdmitRequest) -> JoinHandle<Result<Admitted, Refused>> {
        let controller = Arc::clone(&self.controller);
        tokio::spawn(async move { controller.admit(request, Instant::now()).await })
    }

    /// Spawn and let the request come as far as it can: one turn of a runtime of one thread.
    async fn queue(&self, request: AdmitRequest) -> JoinHandle<Result<Admitted, Refused>> {
        let task = self.spawn(request);
        tokio::task::yield_now().await;
        assert!(!task.is_finished(), "decided at once");
        task
    }

    fn held(&self, tenant: &str) -> u64 {
        self.store.usage(&tenant.into()).here
    }

    fn assert_nothing_left(&self, tenant: &str) {
        assert_eq!(self.held(tenant), 0, "slots");
        assert_eq!(self.controller.queued(&tenant.into()), 0, "queued");
        assert_eq!(self.holders.in_flight(), 0, "holders");
        assert_eq!(*self.holders.open().borrow(), 0, "open");
    }
}

fn policy(id: &str, cap: u32, on_limit: OnLimit) -> TenantPolicy {
    TenantPolicy {
        id: id.into(),
        max_in_flight: cap,
        revision: Revision::FIRST,
        on_limit,
        models: ModelSet::Any,
        pool: None,
        mode: Mode::Enforce,
        may_route: false,
    }
}

fn request(policy: TenantPolicy) -> AdmitRequest {
    AdmitRequest {
        request_id: "r".into(),
        policy: Arc::new(policy),
        model: Some("m".into()),
        pool: "p".into(),
        pool_cap: pool_cap(None),
    }
}

fn pool_cap(max_in_flight: Option<u32>) -> PoolCap {
    PoolCap { max_in_flight, revision: Revision::FIRST }
}

/// Asks for a slot of `a`, refused at the cap.
fn rejecting(cap: u32) -> AdmitRequest {
    request(policy("a", cap, OnLimit::Reject))
}

/// Asks for a slot of `a`, queued at the cap for up to ten seconds.
fn queueing(cap: u32, max_depth: u32) -> AdmitRequest {
    let max_wait = Duration::from_secs(10);
    request(policy("a", cap, OnLimit::Queue { max_depth, max_wait }))
}

fn in_pool(mut request: AdmitRequest, pool: &str, cap: Option<u32>) -> AdmitRequest {
    (request.pool, request.pool_cap) = (pool.into(), pool_cap(cap));
    request
}

fn reason(answer: Result<Admitted, Refused>) -> Reason {
    answer.expect_err("admitted").reason
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.expect("not within the bound")
}
