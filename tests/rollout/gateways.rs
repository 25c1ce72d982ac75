//! Streamgate itself is rolled under 200 live streams and 100 requests a second.

use crate::client::{Load, Tally};
use crate::cluster::{Service, ready, turn};
use crate::kubelet::{Death, delete};
use crate::support::{BOUND, Gate, OwnEngine, Setup, eventually};
use std::collections::BTreeMap;
use std::time::Duration;
use streamgate_loadtests::engine::EngineConfig;
use tokio::time::{Instant, sleep};

const STREAMS: usize = 200;
/// Between two tokens.
const TOKEN: Duration = Duration::from_millis(200);
/// The shipped base, with less time: propagation 10 s, deadline 170 s, grace 200 s.
const DRAIN: &str = "drain: {propagation: 3s, deadline: 40s, cut_margin: 1s, http_prestop: true}";
const GRACE: Duration = Duration::from_secs(45);
/// From the deletion until the last kube-proxy has heard of it.
const UNLISTED_AFTER: Duration = Duration::from_secs(1);

struct Rollout {
    engine: OwnEngine,
    service: Service,
    load: Load,
    drain: &'static str,
    serving: Vec<Gate>,
    gone: Vec<Gate>,
    began: Instant,
}

impl Rollout {
    /// Two replicas under load.
    async fn start(drain: &'static str, streams: usize) -> Self {
        let engine = OwnEngine::start(EngineConfig::instant(TOKEN)).await;
        let (service, load) = (Service::default(), Load::new(1));
        let (serving, gone) = (Vec::new(), Vec::new());
        let mut rollout =
            Self { engine, service, load, drain, serving, gone, began: Instant::now() };
        rollout.surge().await;
        rollout.surge().await;
        rollout.load.streams(&rollout.service, streams, 5..=25);
        rollout.load.requests(&rollout.service, 100, 60, &(1..=3));
        // Those above keep the connections that they have.
        rollout.load.newcomers(&rollout.service, 10, &(1..=1));
        rollout
    }

    /// One more replica, listed once it is ready.
    async fn surge(&mut self) {
        let setup = Setup::new(&[self.engine.addr()]).tenant("a", "max_in_flight: 1000");
        let gate = Gate::start(setup.with(self.drain)).await;
        ready(gate.admin, "/readyz").await;
        self.service.add(gate.proxy);
        self.serving.push(gate);
    }

    /// All streams run again, and the next replica to go has its share of them.
    async fn under_load(&self, streams: usize) {
        let all = self.engine.wait_stats(|stats| stats.in_flight >= streams, BOUND).await;
        all.expect("all streams run");
        let oldest = &self.serving[0];
        let what = "streams on the replica that goes";
        let share = |in_flight: f64| in_flight >= f64::from(u32::try_from(streams / 8).unwrap());
        oldest.metrics_when(what, |metrics| share(metrics.sum("streamgate_in_flight"))).await;
    }

    /// Replace the oldest replica; it is unlisted by `unlisted` meanwhile.
    async fn replace(&mut self, pre_stop: bool, unlisted: impl AsyncFnOnce(&Load)) -> Death {
        self.surge().await;
        let mut old = self.serving.remove(0);
        let (proxy, hook) = (old.proxy, old.admin_url("/prestop"));
        let hook = async {
            if pre_stop {
                let answer = reqwest::get(hook).await.expect("preStop is answered");
                assert_eq!(answer.status(), 200, "drained");
            }
        };
        let unlist = async {
            unlisted(&self.load).await;
            self.service.remove(proxy);
        };
        let (death, ()) = tokio::join!(delete(&mut old, hook, GRACE), unlist);
        self.gone.push(old);
        death
    }

    /// End the load. What clients, replicas and the engine counted is the same.
    async fn settle(self) -> Tally {
        let tally = self.load.stop().await;
        for gate in &self.serving {
            gate.settled().await;
        }
        let stats = self.engine.wait_stats(|stats| stats.in_flight == 0, BOUND).await;
        let stats = stats.expect("nothing runs any more");
        let gates: Vec<_> = self.serving.iter().chain(&self.gone).collect();
        let outcomes = eventually("the last log lines", || {
            let outcomes = outcomes(&gates);
            let all: u64 = outcomes.values().sum();
            // Connections that were refused are nobody's requests.
            let asked = tally.all() - tally.count("connection refused");
            std::future::ready((all == asked).then_some(outcomes))
        })
        .await;
        println!(
            "{} requests in {:.1} s, as clients saw them: {:?}; as logged: {outcomes:?}; most at once: {}",
            tally.all(),
            self.began.elapsed().as_secs_f64(),
            tally.counts(),
            stats.max_in_flight
        );
        assert_eq!(outcomes.get("complete").copied().unwrap_or(0), tally.count("complete"));
        assert_eq!(stats.completed, tally.count("complete"));
        tally
    }
}

/// Requests by outcome, from the log lines of all replicas.
fn outcomes(gates: &[&Gate]) -> BTreeMap<String, u64> {
    let mut outcomes = BTreeMap::new();
    for line in gates.iter().flat_map(|gate| gate.request_lines()) {
        *outcomes.entry(line["outcome"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    outcomes
}

async fn nothing_is_seen_of_a_rollout(pre_stop: bool) {
    let _turn = turn().await;
    let mut rollout = Rollout::start(DRAIN, STREAMS).await;
    for replica in ["the first replica", "the second replica"] {
        rollout.under_load(STREAMS).await;
        let death = rollout.replace(pre_stop, async |_| sleep(UNLISTED_AFTER).await).await;
        println!("{replica} was gone after {:.1} s", death.took.as_secs_f64());
        death.assert_orderly(replica);
    }
    let tally = rollout.settle().await;
    assert!(tally.assert_complete() >= 1000, "{:?}", tally.counts());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_seen_of_a_rollout_with_prestop() {
    nothing_is_seen_of_a_rollout(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_seen_of_a_rollout_with_sigterm_alone() {
    nothing_is_seen_of_a_rollout(false).await;
}

/// The rollouts above can fail: without propagation a replica is gone while connections are still
/// led to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_goes_before_it_is_unlisted_refuses_connections() {
    let _turn = turn().await;
    let drain = "drain: {propagation: 0s, deadline: 40s, cut_margin: 1s}";
    let mut rollout = Rollout::start(drain, 20).await;
    rollout.under_load(20).await;
    let refused = async |load: &Load| {
        eventually("a refused connection", || async {
            (load.so_far().count("connection refused") > 0).then_some(())
        })
        .await;
    };
    rollout.replace(false, refused).await.assert_orderly("the replica");
    let tally = rollout.load.stop().await;
    println!("without propagation: {:?}", tally.counts());
    assert!(tally.count("connection refused") > 0);
}
