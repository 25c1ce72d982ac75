//! What a request costs in round trips, as the Redis and the replicas count them.

use crate::rig::{Fleet, Ledger, Load, Plan, SECOND, Tally, stream};
use crate::support::Gate;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Commands and requests of a while.
pub struct Cost {
    pub tally: Tally,
    seconds: f64,
    /// Scripts, as the Redis counts them: beats and looks too.
    scripts: f64,
    /// Changes of what is held: what requests cause.
    pub sets: f64,
}

/// Questions without an answer, over all replicas: what a machine that is too busy shows first.
async fn late(gates: &[Gate]) -> f64 {
    let mut sum = 0.0;
    for gate in gates {
        sum += gate.metrics().await.sum("streamgate_quota_store_faults_total");
    }
    sum
}

async fn sets(gates: &[Gate]) -> f64 {
    let mut sum = 0.0;
    for gate in gates {
        let label = [("op", "set")];
        sum += gate.metrics().await.sum_where("streamgate_quota_store_seconds_count", &label);
    }
    sum
}

/// This load for `time`, after it has run for a moment.
pub async fn measure(fleet: &Fleet, load: Load, seconds: u32) -> Cost {
    let ledger = Ledger::of(fleet.redis.port());
    sleep(SECOND).await;
    let faults = late(&fleet.gates).await;
    let (before, begun) = (sets(&fleet.gates).await, Instant::now());
    let scripts = ledger.scripts().unwrap();
    sleep(seconds * SECOND).await;
    let scripts = ledger.scripts().unwrap() - scripts;
    let (end, after) = (Instant::now(), sets(&fleet.gates).await);
    println!("questions without an answer: {}", late(&fleet.gates).await - faults);
    let tally = load.stop().await.between(begun, end);
    #[expect(clippy::cast_precision_loss, reason = "a count of seconds of work")]
    let scripts = scripts as f64;
    Cost { tally, seconds: (end - begun).as_secs_f64(), scripts, sets: after - before }
}

impl Cost {
    pub fn requests(&self) -> f64 {
        f64::from(u32::try_from(self.tally.kinds().values().sum::<usize>()).unwrap())
    }

    /// How many were served at once, on average: the time to their heads, over the time.
    pub fn in_flight(&self) -> f64 {
        let served: f64 = self.tally.heads("complete").iter().map(Duration::as_secs_f64).sum();
        served / self.seconds
    }

    pub fn tell(&self, what: &str) {
        println!(
            "{what}: {:.0} requests/s, {:.0} in flight, {:?}; SETs a request {:.3}, all commands a \
             request {:.3}",
            self.requests() / self.seconds,
            self.in_flight(),
            self.tally.kinds(),
            self.sets / self.requests(),
            self.scripts / self.requests(),
        );
    }
}

/// Away from the cap, unused slots serve: under a fifth of a round trip a request, and no refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn away_from_the_cap() {
    let fleet = Fleet::start(Plan::new(1)).await;
    let load = Load::of(fleet.addresses(), vec![stream("b", 2); 24]);
    let cost = measure(&fleet, load, 4).await;
    cost.tell("cap 1000, 24 clients");
    cost.tally.assert_answered(&["complete"]);
    assert!(cost.sets / cost.requests() < 0.2);
    // Beats and looks do not depend on requests: about 3 a second for each replica.
    let rest = (cost.scripts - cost.sets) / cost.seconds;
    println!("beats and looks: {rest:.1}/s of three replicas");
    assert!(rest < 15.0, "{rest}");
}

/// At the cap, where every slot is wanted by everybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_cap() {
    let fleet = Fleet::start(Plan::new(4)).await;
    let cost = measure(&fleet, Load::start(fleet.addresses(), 12, 4), 4).await;
    cost.tell("cap 4, 12 clients, refusals");
    cost.tally.assert_answered(&["complete", "429 tenant_in_flight"]);
    assert!(cost.sets / cost.requests() <= 1.0);
    fleet.assert_exact("at the cap, with refusals");

    let fleet = Fleet::start(Plan::new(4).queue(100)).await;
    let cost = measure(&fleet, Load::start(fleet.addresses(), 12, 4), 4).await;
    cost.tell("cap 4, 12 clients, a queue");
    cost.tally.assert_answered(&["complete"]);
    // A slot that comes free goes to the next in line here, and every few of them to whoever asks
    // first. Waiting itself costs by time: a few SETs a second for each replica that has a line.
    let by_time = 15.0 * cost.seconds;
    assert!(cost.sets <= cost.requests() + by_time, "{} SETs", cost.sets);
    fleet.assert_exact("at the cap, with a queue");
}
