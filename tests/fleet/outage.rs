//! The Redis does not answer.

use crate::relay::Mode;
use crate::rig::{Fleet, LEASE, Load, MS, Plan, SECOND, SLACK, Status, Tally, ask, stream};
use crate::support::{Leave, eventually};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Shorter than the default of these tests, so that it stands out.
const TIMEOUT: Duration = Duration::from_millis(150);

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

fn told(what: &str, tally: &Tally) {
    let (all, served) = (tally.heads(""), tally.heads("complete"));
    println!(
        "{what}: {:?}; answers p50 {:?} p99 {:?}, of those served p99 {:?}",
        tally.kinds(),
        percentile(&all, 50),
        percentile(&all, 99),
        percentile(&served, 99)
    );
}

/// Cases 6, 23, 24: frozen under load for two leases. What is held is served until the own deadline,
/// then 503; nothing waits longer than the timeout; nobody has to help afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_under_load() {
    let mut fleet = Fleet::start(Plan::new(6).timeout(TIMEOUT)).await;
    let load = Load::start(fleet.addresses(), 18, 6);
    // Away from its cap, where unused slots are held.
    let calm = Load::of(fleet.addresses(), vec![stream("b", 3); 6]);
    sleep(2 * SECOND).await;
    let begun = Instant::now();
    fleet.redis_mut().freeze();
    sleep_until(begun + 2 * LEASE).await;
    let thawed = Instant::now();
    fleet.redis_mut().thaw();
    eventually("requests are served again", || async {
        (load.so_far().between(thawed, Instant::now()).count("complete") > 10).then_some(())
    })
    .await;
    let recovered = thawed.elapsed();
    let (tally, calm) = (load.stop().await, calm.stop().await);
    // A lease is believed in for a quarter of it at least; what is held is served for as long.
    let (steady, early) = (tally.until(begun), tally.between(begun, begun + LEASE / 4));
    // What is asked at the very end may meet the Redis awake.
    let late = tally.between(begun + LEASE, thawed - LEASE / 4);
    told("before", &steady);
    told("frozen, before the own deadline", &early);
    told("frozen, after the own deadline", &late);
    told("tenant away from its cap, before", &calm.until(begun));
    let escrow = calm.between(begun, begun + LEASE / 4);
    told("tenant away from its cap, frozen", &escrow);
    println!("served again {recovered:?} after SIGCONT");
    tally.assert_only(&["complete", "429 tenant_in_flight", "503 quota_unavailable"]);
    assert!(escrow.count("complete") > 5, "what is held is served: {:?}", escrow.kinds());
    calm.assert_only(&["complete", "503 quota_unavailable"]);
    late.assert_only(&["503 quota_unavailable"]);
    let added = percentile(&early.heads(""), 99).saturating_sub(percentile(&steady.heads(""), 50));
    assert!(added <= TIMEOUT + SLACK, "added {added:?}");
    assert!(percentile(&late.heads(""), 50) < TIMEOUT, "at once, once it is known");
    fleet.assert_exact("a frozen Redis");
    for gate in &fleet.gates {
        gate.calm().await;
    }
    fleet.all_back().await;
}

/// Case 24: gone, not frozen. Streams that run go on; new requests hear 503 with the reason at once,
/// and everybody can see why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_gone_is_said_honestly() {
    let mut fleet = Fleet::start(Plan::new(2).timeout(TIMEOUT)).await;
    let held = [fleet.hold(0).await, fleet.hold(1).await];
    fleet.redis_mut().kill();
    for gate in &fleet.gates {
        let store = gate.status_when("it is known to be away", |store| store["up"] == false).await;
        assert_eq!(store["last_fault"], "unreachable");
        for _ in 0..5 {
            let seen = ask(gate.proxy, &stream("a", 1)).await;
            assert_eq!(seen.kind, "503 quota_unavailable");
            assert!(seen.head < TIMEOUT + SLACK, "{:?}", seen.head);
        }
        gate.says(&["quota store is away"]).await;
        let ready = reqwest::get(gate.admin_url("/readyz")).await.unwrap();
        assert_eq!(ready.status(), 200, "other replicas could not do better");
    }
    let unfenced = fleet.gates[0].status_when("its lease ran out", |s| s["fenced"] == true).await;
    assert_eq!(unfenced["unfenced"], 1, "{unfenced}");
    fleet.gates[0].says(&["quota lease ran out"]).await;
    assert_eq!(fleet.running(), 2, "keep: streams go on");
    fleet.redis_mut().revive();
    for gate in &fleet.gates {
        gate.status_when("counted again", |s| s["up"] == true && s["unfenced"] == 0).await;
    }
    let seen = eventually("an answer of the store", || async {
        let seen = ask(fleet.gates[2].proxy, &stream("a", 1)).await;
        (seen.kind != "503 quota_unavailable").then_some(seen)
    })
    .await;
    assert_eq!(seen.kind, "429 tenant_in_flight", "both are counted again");
    for call in held {
        call.leave(Leave::Close).await;
    }
    fleet.all_back().await;
    fleet.assert_most(2);
}

/// One replica alone is cut off, with every slot: `cut` ends its streams before others get them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_cut_off_ends_its_streams() {
    let fleet = Fleet::start(Plan::new(3).quota("on_fence: cut")).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(fleet.hold(0).await);
    }
    fleet.relays[0].set(Mode { stalled: true, ..Mode::default() });
    let load = Load::start(vec![fleet.gates[1].proxy, fleet.gates[2].proxy], 8, 4);
    for call in &mut held {
        let (text, _) = call.rest().await;
        assert!(text.contains("event: error"), "{text}");
    }
    eventually("others get the slots", || async {
        (load.so_far().count("complete") > 10).then_some(())
    })
    .await;
    fleet.relays[0].set(Mode::default());
    fleet.gates[0].calm().await;
    load.retarget(fleet.addresses());
    sleep(500 * MS).await;
    let tally = load.stop().await;
    println!("{:?}", tally.kinds());
    fleet.assert_exact("one replica cut off");
    let metrics = fleet.gates[0].metrics().await;
    let cut = metrics.sum_where("streamgate_streams_cut_total", &[("cause", "fence")]);
    assert!(cut >= 3.0, "{cut}");
    fleet.all_back().await;
}
