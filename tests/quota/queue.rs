//! Queues at the cap: what they cost, and that no replica is left out.

use crate::support::server::RedisServer;
use crate::support::{Engine, MS, Replica, settings};
use std::sync::Arc;
use std::time::Duration;
use streamgate::admission::{AdmissionController, AdmitRequest, Holders};
use streamgate::core::hold::HoldTimes;
use streamgate::core::ids::TenantId;
use streamgate::core::policy::{Mode, ModelSet, OnLimit, PoolCap, Revision, TenantPolicy};
use streamgate::core::quota::{QuotaStore, StoreOp};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

struct Unrecorded;

impl HoldTimes for Unrecorded {
    fn record(&self, _: &TenantId, _: Duration, _: std::time::Instant) {}
}

/// A replica with its queues.
struct Gate {
    replica: Replica,
    admission: Arc<AdmissionController>,
}

impl Gate {
    fn before(replica: Replica) -> Self {
        let store = Arc::clone(&replica.store);
        let admission =
            Arc::new(AdmissionController::new(store, Arc::new(Unrecorded), Holders::new()));
        Self { replica, admission }
    }

    fn sets(&self) -> u64 {
        self.replica.meter.answered(StoreOp::Set)
    }
}

fn request(cap: u32, queue: bool) -> AdmitRequest {
    let max_wait = Duration::from_secs(60);
    let policy = TenantPolicy {
        id: "a".into(),
        max_in_flight: cap,
        revision: Revision::FIRST,
        on_limit: if queue {
            OnLimit::Queue { max_depth: 1000, max_wait }
        } else {
            OnLimit::Reject
        },
        models: ModelSet::Any,
        pool: None,
        mode: Mode::Enforce,
        may_route: false,
    };
    AdmitRequest {
        request_id: "r".into(),
        policy: Arc::new(policy),
        model: None,
        pool: "p".into(),
        pool_cap: PoolCap { max_in_flight: None, revision: Revision::FIRST },
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measure_queue() {
    for queue in [true, false] {
        for hold in [20u64, 100] {
            for replicas in [2usize, 3] {
                for (cap, per) in
                    [(1u32, 1usize), (1, 3), (4, 1), (4, 2), (4, 4), (16, 5), (16, 6), (16, 12)]
                {
                    let server = RedisServer::start(&[]);
                    let mut gates = Vec::new();
                    for _ in 0..replicas {
                        gates.push(Replica::ready(&settings(&server.url())).await);
                    }
                    for replica in &gates {
                        crate::support::until("learnt", || !replica.store.status().learning).await;
                    }
                    let gates: Vec<_> = gates.into_iter().map(Gate::before).collect();
                    let engine = Arc::new(Engine::default());
                    let before: u64 = gates.iter().map(Gate::sets).sum();
                    let end = Instant::now() + Duration::from_millis(2500);
                    let mut tasks = JoinSet::new();
                    for (at, gate) in gates.iter().enumerate() {
                        for _ in 0..per {
                            let (admission, engine) =
                                (Arc::clone(&gate.admission), Arc::clone(&engine));
                            tasks.spawn(async move {
                                let (mut n, mut refused, mut longest) =
                                    (0u64, 0u64, Duration::ZERO);
                                while Instant::now() < end {
                                    let begun = Instant::now();
                                    match admission.admit(request(cap, queue), begun).await {
                                        Ok(admitted) => {
                                            longest = longest.max(begun.elapsed());
                                            let work = engine.begin();
                                            sleep(Duration::from_millis(hold)).await;
                                            drop(work);
                                            drop(admitted);
                                            n += 1;
                                        }
                                        Err(_) => {
                                            refused += 1;
                                            sleep(10 * MS).await;
                                        }
                                    }
                                }
                                (at, n, refused, longest)
                            });
                        }
                    }
                    let mut served = vec![0; replicas];
                    let (mut refusals, mut longest) = (0, Duration::ZERO);
                    while let Some(done) = tasks.join_next().await {
                        let (at, n, refused, long) = done.unwrap();
                        served[at] += n;
                        refusals += refused;
                        longest = longest.max(long);
                    }
                    let sets: u64 = gates.iter().map(Gate::sets).sum::<u64>() - before;
                    let sum: u64 = served.iter().sum();
                    println!(
                        "queue {queue} hold {hold} replicas {replicas} cap {cap} clients {per}/replica: SETs/request {:.2} ({sets} for {sum}+{refusals}), use {:.2}, served {served:?} longest {longest:?} most {}",
                        sets as f64 / (sum + refusals) as f64,
                        sum as f64 * hold as f64
                            / 2500.0
                            / f64::from(cap.min((per * replicas) as u32)),
                        engine.most()
                    );
                }
            }
        }
    }
}
