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
use streamgate::core::reason::Reason;
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

fn request(cap: u32) -> AdmitRequest {
    with_depth(cap, 1000)
}

fn with_depth(cap: u32, max_depth: u32) -> AdmitRequest {
    let max_wait = Duration::from_secs(60);
    let policy = TenantPolicy {
        id: "a".into(),
        max_in_flight: cap,
        revision: Revision::FIRST,
        on_limit: OnLimit::Queue { max_depth, max_wait },
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

/// What a crowd of clients that come again at once was served, by replica, and with how many SETs.
struct Seen {
    served: Vec<u64>,
    sets: u64,
    engine: Arc<Engine>,
}

/// So many clients at each replica, until `requests` were served.
async fn crowd(gates: &[Gate], cap: u32, clients: usize, requests: u64) -> Seen {
    let engine = Arc::new(Engine::default());
    let before = gates.iter().map(Gate::sets).sum::<u64>();
    let mut tasks = JoinSet::new();
    for (at, gate) in gates.iter().enumerate() {
        for _ in 0..clients {
            let (admission, engine) = (Arc::clone(&gate.admission), Arc::clone(&engine));
            tasks.spawn(async move {
                let mut served = 0;
                while engine.served() < requests {
                    let admitted = admission.admit(request(cap), Instant::now()).await;
                    let admitted = admitted.expect("a queue that is long enough");
                    let work = engine.begin();
                    sleep(20 * MS).await;
                    drop((work, admitted));
                    served += 1;
                }
                (at, served)
            });
        }
    }
    let mut served = vec![0; gates.len()];
    while let Some(done) = tasks.join_next().await {
        let (at, count) = done.expect("a client failed");
        served[at] += count;
    }
    let sets = gates.iter().map(Gate::sets).sum::<u64>() - before;
    Seen { served, sets, engine }
}

async fn gates<const N: usize>(server: &RedisServer) -> [Gate; N] {
    Replica::fleet::<N>(&settings(&server.url())).await.map(Gate::before)
}

/// Property 7 with a queue: every slot that comes free is wanted by all replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_at_the_cap_costs_at_most_one_question_a_request() {
    for (cap, clients, requests) in [(1, 4, 150), (4, 6, 400), (16, 16, 1200)] {
        let server = RedisServer::start(&[]);
        let gates: [_; 3] = gates(&server).await;
        let seen = crowd(&gates, cap, clients, requests).await;
        let (sets, served) = (seen.sets, seen.engine.served());
        println!("cap {cap}, 3 x {clients} clients: {sets} SETs for {served}: {:?}", seen.served);
        assert!(seen.engine.most() <= u64::from(cap), "{} at once", seen.engine.most());
        assert!(sets <= served, "{sets} questions for {served} requests");
        // Offers are for everybody, so nobody takes all and nobody gets nothing.
        assert!(seen.served.iter().all(|count| *count > 0), "{:?}", seen.served);
    }
}

/// A replica that always has somebody in line lets others have a slot too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_does_not_keep_another_replica_out() {
    let server = RedisServer::start(&[]);
    let [busy, other]: [_; 2] = gates(&server).await;
    let engine = Arc::new(Engine::default());
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (admission, engine) = (Arc::clone(&busy.admission), Arc::clone(&engine));
        tasks.spawn(async move {
            loop {
                let admitted = admission.admit(request(1), Instant::now()).await;
                let admitted = admitted.expect("a queue that is long enough");
                let work = engine.begin();
                sleep(5 * MS).await;
                drop((work, admitted));
            }
        });
    }
    // Nobody took what was offered for a while, so that offers became rare.
    crate::support::until("offers were made", || engine.served() >= 100).await;
    for _ in 0..3 {
        let before = engine.served();
        let admitted = other.admission.admit(request(1), Instant::now()).await.unwrap();
        let work = engine.begin();
        let passed = engine.served() - before;
        drop((work, admitted));
        println!("{passed} were served before it");
        // Of two replicas, 24 slots at most are kept before the next offer.
        assert!(passed <= 4 * 25, "{passed} were served before it");
    }
    tasks.shutdown().await;
    assert_eq!(engine.most(), 1);
}

/// No wake-up is lost: what is given back where nobody waits is found where somebody does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_given_back_elsewhere_is_found_by_who_queues() {
    let server = RedisServer::start(&[]);
    let [here, there]: [_; 2] = gates(&server).await;
    for _ in 0..5 {
        let held = here.admission.admit(request(1), Instant::now()).await.unwrap();
        let admission = Arc::clone(&there.admission);
        let waiting =
            tokio::spawn(async move { admission.admit(request(1), Instant::now()).await });
        crate::support::until("it waits", || there.admission.queued(&"a".into()) == 1).await;
        drop(held);
        let admitted = tokio::time::timeout(crate::support::BOUND, waiting).await;
        drop(admitted.expect("it is served").unwrap().unwrap());
        crate::support::until("all is back", || here.replica.store.usage(&"a".into()).fleet == 0)
            .await;
    }
}

/// Property 2: nobody is refused by what the store said before, not even where nobody may wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_without_places_refuses_by_an_answer_of_its_own() {
    let server = RedisServer::start(&[]);
    let [here, there]: [_; 2] = gates(&server).await;
    let _held = here.admission.admit(request(1), Instant::now()).await.unwrap();
    for _ in 0..5 {
        let before = there.sets();
        let refused = there.admission.admit(with_depth(1, 0), Instant::now()).await.unwrap_err();
        assert_eq!(refused.reason, Reason::QueueFull);
        assert!(there.sets() > before, "the store was not asked");
    }
}
