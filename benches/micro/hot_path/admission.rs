//! A slot, from the question to the drop of its permit.

use divan::Bencher;
use futures::FutureExt;
use std::sync::Arc;
use streamgate::admission::{AdmissionController, AdmitRequest, HoldEstimates, Holders};
use streamgate::core::policy::{Mode, ModelSet, OnLimit, PoolCap, Revision, TenantPolicy};
use streamgate::quota::memory::MemoryStore;
use tokio::time::Instant;

/// All threads ask for one tenant in one pool: the worst case for every lock.
#[divan::bench(threads = [1, 8])]
fn admit_and_drop(bencher: Bencher<'_, '_>) {
    let controller = AdmissionController::new(
        Arc::new(MemoryStore::new()),
        Arc::new(HoldEstimates::default()),
        Holders::new(),
    );
    let policy = Arc::new(policy());
    bencher.with_inputs(|| ask(&policy)).bench_values(|ask| {
        let admitted = controller.admit(ask, Instant::now()).now_or_never();
        admitted.expect("the memory store answers at once").expect("there is room")
    });
}

fn ask(policy: &Arc<TenantPolicy>) -> AdmitRequest {
    AdmitRequest {
        request_id: "0123456789abcdef0123456789abcdef".into(),
        policy: Arc::clone(policy),
        model: Some("qwen".into()),
        pool: "p".into(),
        pool_cap: PoolCap { max_in_flight: None, revision: Revision::FIRST },
    }
}

fn policy() -> TenantPolicy {
    TenantPolicy {
        id: "a".into(),
        max_in_flight: 1_000_000,
        revision: Revision::FIRST,
        on_limit: OnLimit::Reject,
        models: ModelSet::Any,
        pool: None,
        mode: Mode::Enforce,
        may_route: false,
    }
}
