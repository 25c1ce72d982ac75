//! The strict figures of docs/quota.md, for a quiet machine and a release build:
//! `scripts/quota-figures.sh`. Left out of an ordinary test run, where other tests run beside them.

use crate::cost::measure;
use crate::rig::{Fleet, Load, MS, Plan, SECOND, Status, stream};
use crate::support::{Api, eventually, request::Request};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// The default.
const TIMEOUT: Duration = Duration::from_millis(50);
/// The default.
const DEFAULT_LEASE: Duration = Duration::from_secs(3);

fn defaults(cap: usize) -> Plan {
    Plan::new(cap).lease(DEFAULT_LEASE).timeout(TIMEOUT)
}

/// A plain request that takes `time` at the engine.
fn plain(tenant: &str, time: Duration) -> Request {
    let request = Api::Chat.plain(2).of(tenant).header("x-sim-tenant", tenant);
    request.fault(&format!("interval={}ms", time.as_millis()))
}

fn percentile(sorted: &[Duration], per_mille: usize) -> Duration {
    let at = (sorted.len() * per_mille).div_ceil(1000).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

/// Property 7: a tenant with cap 1,000, 2,000 requests a second over three replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement for a quiet machine: scripts/quota-figures.sh"]
async fn round_trips_a_request() {
    // A timeout that two busy cores keep: outages are not what is measured.
    let plan = defaults(1000).timeout(250 * MS).pool("health: {interval: 1h}");
    let fleet = Fleet::start(plan).await;
    let away = Load::paced(&fleet.addresses(), 300, 2000.0, &plain("a", 50 * MS));
    let cost = measure(&fleet, away, 10).await;
    cost.tell("cap 1000, about 100 in flight");
    cost.tally.assert_only(&["complete"]);
    assert!(cost.sets / cost.requests() < 0.2);

    // More clients than slots, each slot taken for half a second.
    let load = Load::paced(&fleet.addresses(), 1200, 2400.0, &plain("a", 500 * MS));
    let cost = measure(&fleet, load, 10).await;
    cost.tell("cap 1000, 1200 clients");
    cost.tally.assert_answered(&["complete", "429 tenant_in_flight"]);
    assert!(cost.sets / cost.requests() <= 1.0);
    println!("cap 1000: most at the engine {}", fleet.most());
    assert!((901..=1000).contains(&fleet.most()), "{}", fleet.most());
    // Whoever was refused was refused because the slots were in use.
    assert!(cost.in_flight() > 900.0, "{}", cost.in_flight());
}

/// Property 5: what a frozen Redis adds, with the default settings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement for a quiet machine: scripts/quota-figures.sh"]
async fn what_a_frozen_redis_adds() {
    let mut fleet = Fleet::start(defaults(6)).await;
    let at_cap = Load::start(fleet.addresses(), 12, 6);
    let away = Load::of(fleet.addresses(), vec![stream("b", 3); 6]);
    sleep(4 * SECOND).await;
    let begun = Instant::now();
    fleet.redis_mut().freeze();
    sleep_until(begun + 6 * SECOND).await;
    let thawed = Instant::now();
    fleet.redis_mut().thaw();
    eventually("requests are served again", || async {
        (at_cap.so_far().between(thawed, Instant::now()).count("complete") > 10).then_some(())
    })
    .await;
    let recovered = thawed.elapsed();
    for gate in &fleet.gates {
        gate.calm().await;
    }
    for (what, tally) in [("at the cap", at_cap.stop().await), ("away", away.stop().await)] {
        let (before, frozen) = (tally.until(begun), tally.between(begun, thawed));
        let p99 = percentile(&frozen.heads(""), 990);
        let base = percentile(&before.heads("complete"), 500);
        println!(
            "{what}: before p50 {base:?} p99 {:?}; frozen p50 {:?} p99 {p99:?} max {:?}; added p99 {:?}; {:?}",
            percentile(&before.heads(""), 990),
            percentile(&frozen.heads(""), 500),
            percentile(&frozen.heads(""), 1000),
            p99.saturating_sub(base),
            frozen.kinds(),
        );
        assert!(p99.saturating_sub(base) <= TIMEOUT + 10 * MS, "{what}: {p99:?}");
    }
    println!("served again {recovered:?} after SIGCONT, lease {DEFAULT_LEASE:?}");
    fleet.assert_exact("a frozen Redis");
}
