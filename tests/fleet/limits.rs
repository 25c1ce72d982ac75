//! The limits of docs/quota.md, provoked: without their settings the cap is exceeded by what is
//! measured here, with them it holds.

use crate::relay::{Mode, Relay};
use crate::rig::{Fleet, LEASE, Load, MS, Plan, SECOND, Status};
use crate::server::RedisServer;
use crate::support::{Gate, eventually};
use std::process::{Command, Stdio};
use tokio::time::sleep;

/// The script that is shipped, watching one replica; killed by drop.
struct Watchdog(std::process::Child);

impl Watchdog {
    fn over(gate: &Gate) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/watchdog.sh");
        let mut command = Command::new(script);
        command.arg(gate.pid().to_string()).arg(gate.admin.to_string());
        let child = command.arg(LEASE.as_secs().to_string()).stderr(Stdio::null()).spawn().unwrap();
        Self(child)
    }

    /// It has killed what it watched.
    async fn bit(&mut self) {
        let code = eventually("the watchdog bites", || {
            std::future::ready(self.0.try_wait().unwrap().map(|status| status.code()))
        })
        .await;
        assert_eq!(code, Some(3));
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A replica with all slots stands still for two leases while clients ask the others; the most that
/// ran at once.
async fn frozen(fleet: &Fleet, mut watchdog: Option<Watchdog>) -> usize {
    let mut held = Vec::new();
    for _ in 0..fleet.plan.cap {
        held.push(fleet.hold(0).await);
    }
    let load = Load::start(vec![fleet.gates[1].proxy, fleet.gates[2].proxy], 10, 8);
    fleet.gates[0].signal("STOP");
    eventually("the others get the slots", || async {
        (load.so_far().count("complete") > fleet.plan.cap).then_some(())
    })
    .await;
    match &mut watchdog {
        Some(watchdog) => watchdog.bit().await,
        None => fleet.gates[0].signal("CONT"),
    }
    sleep(LEASE).await;
    load.stop().await.assert_only(&["complete", "429 tenant_in_flight", "503 quota_unavailable"]);
    fleet.most()
}

/// Limit (a).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_process_needs_a_watchdog() {
    let fleet = Fleet::start(Plan::new(4)).await;
    let most = frozen(&fleet, None).await;
    println!("frozen process, keep, no watchdog: most at the engine {most}, cap 4");
    assert!((5..=8).contains(&most), "at most twice the cap, and provoked: {most}");

    let fleet = Fleet::start(Plan::new(4).quota("on_fence: cut")).await;
    let most = frozen(&fleet, None).await;
    println!("frozen process, cut, no watchdog: most at the engine {most}, cap 4");
    assert!((5..=8).contains(&most), "it cannot cut while it stands still: {most}");
    eventually("awake, it ends its streams", || async {
        let metrics = fleet.gates[0].metrics().await;
        let cut = metrics.sum_where("streamgate_streams_cut_total", &[("cause", "fence")]);
        (cut >= 4.0).then_some(())
    })
    .await;

    let fleet = Fleet::start(Plan::new(4).quota("on_fence: cut")).await;
    let watchdog = Watchdog::over(&fleet.gates[0]);
    let most = frozen(&fleet, Some(watchdog)).await;
    println!("frozen process, cut and watchdog: most at the engine {most}, cap 4");
    assert_eq!(most, 4);
}

/// A primary with its copy; one replica stays with the primary, two are led to the copy, which was
/// promoted behind its back. The most that ran at once.
async fn split(quota: &str) -> usize {
    let primary = RedisServer::start(&[]);
    let port = primary.port().to_string();
    let copy = RedisServer::start(&["--replicaof", "127.0.0.1", &port]);
    // Its own copy, or nobody could confirm anything after the promotion.
    let port = copy.port().to_string();
    let second = RedisServer::start(&["--replicaof", "127.0.0.1", &port]);
    for server in [&copy, &second] {
        eventually("the copies are in step", || async {
            let info: String =
                redis::cmd("INFO").arg("replication").query(&mut server.connect()).ok()?;
            info.contains("master_link_status:up").then_some(())
        })
        .await;
    }
    let fleet = Fleet::over(primary, Plan::new(4).quota(quota)).await;
    let load = Load::start(fleet.addresses(), 18, 8);
    eventually("the cap is in use", || async {
        (load.so_far().count("complete") > 8).then_some(())
    })
    .await;
    redis::cmd("REPLICAOF").arg("NO").arg("ONE").query::<()>(&mut copy.connect()).unwrap();
    let led = |relay: &Relay| {
        relay.lead_to(copy.port());
        relay.reset();
    };
    fleet.relays[1..].iter().for_each(led);
    sleep(3 * LEASE).await;
    let tally = load.stop().await;
    println!("split brain, {quota:?}: {:?}", tally.kinds());
    for gate in &fleet.gates[1..] {
        gate.calm().await;
    }
    fleet.most()
}

/// Limit (b).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_brain_needs_strict_failover() {
    let most = split("strict_failover: \"off\"").await;
    println!("split brain, off: most at the engine {most}, cap 4");
    assert!((5..=8).contains(&most), "at most once a primary, and provoked: {most}");
    let most = split("strict_failover: wait\non_fence: cut").await;
    println!("split brain, wait and cut: most at the engine {most}, cap 4");
    assert!((1..=4).contains(&most), "{most}");
}

/// What a single partitioned replica does with `keep`: its streams go on beside those of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_cut_off_and_keeps() {
    let fleet = Fleet::start(Plan::new(3)).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(fleet.hold(0).await);
    }
    let load = Load::start(vec![fleet.gates[1].proxy, fleet.gates[2].proxy], 8, 4);
    fleet.relays[0].set(Mode { stalled: true, ..Mode::default() });
    eventually("others get the slots", || async {
        (load.so_far().count("complete") > 10).then_some(())
    })
    .await;
    let store = fleet.gates[0].status_when("it is fenced", |store| store["fenced"] == true).await;
    assert_eq!(store["unfenced"], 3, "reported: {store}");
    let most = fleet.most();
    println!("one replica cut off, keep: most at the engine {most}, cap 3");
    assert!((4..=6).contains(&most), "{most}");
    fleet.relays[0].set(Mode::default());
    fleet.gates[0].status_when("counted again", |s| s["up"] == true && s["unfenced"] == 0).await;
    // Counted above the cap, nothing new is granted.
    sleep(200 * MS).await;
    fleet.engine.reset_stats();
    sleep(SECOND).await;
    assert!(fleet.most() <= 3, "{}", fleet.most());
    load.stop().await;
}
