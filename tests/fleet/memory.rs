//! The Redis forgets while every slot is held and everybody asks.

use crate::rig::{Fleet, LEASE, Load, Plan, SECOND, SLACK};
use crate::server::RedisServer;
use crate::support::{Leave, eventually};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Every slot of cap 4 is held by three replicas, and clients ask all the time. The Redis forgets,
/// a replica starts, and a stream of the first replica ends: nothing runs beside the four, and its
/// slot is granted to another replica within a lease and a second of the loss.
async fn survives(
    what: &str,
    mut fleet: Fleet,
    after: Duration,
    lose: impl AsyncFnOnce(&mut RedisServer),
) {
    let mut held = Vec::new();
    for at in [1, 2, 0, 0] {
        held.push(fleet.hold(at).await);
    }
    let others = |fleet: &Fleet| fleet.addresses().split_off(1);
    let load = Load::start(others(&fleet), 9, 4);
    eventually("the clients are refused", || async {
        (load.so_far().count("429 tenant_in_flight") > 20).then_some(())
    })
    .await;
    lose(fleet.redis_mut()).await;
    let lost = Instant::now();
    held.pop().unwrap().leave(Leave::Close).await;
    fleet.join().await;
    load.retarget(others(&fleet));
    eventually("a grant after the loss", || async {
        (load.so_far().count("complete") > 0).then_some(())
    })
    .await;
    sleep(after).await;
    let tally = load.stop().await;
    let took = tally.longest_gap("complete", lost);
    println!("{what}: nothing new was granted for {took:?}, lease {LEASE:?}; {:?}", tally.kinds());
    tally.assert_only(&["complete", "429 tenant_in_flight", "503 quota_unavailable"]);
    fleet.assert_exact(what);
    assert!(took <= LEASE + SECOND + SLACK, "{what}: {took:?}");
    assert_eq!(fleet.running(), 3, "streams outlive the loss");
    for call in held {
        call.leave(Leave::Close).await;
    }
    fleet.runs(0).await;
}

/// Case 9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_at_the_full_cap() {
    let fleet = Fleet::start(Plan::new(4)).await;
    survives("FLUSHALL", fleet, SECOND, async |server| {
        redis::cmd("FLUSHALL").query::<()>(&mut server.connect()).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_without_persistence_at_the_full_cap() {
    let fleet = Fleet::start(Plan::new(4)).await;
    survives("restart", fleet, SECOND, async |server| {
        server.kill();
        server.revive();
    })
    .await;
}

/// By command. The old primary goes on serving for ten seconds before it is demoted; the replica that
/// starts meanwhile is led to the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_failover_at_the_full_cap() {
    let primary = RedisServer::start(&[]);
    let port = primary.port().to_string();
    let copy = RedisServer::start(&["--replicaof", "127.0.0.1", &port]);
    let sentinel = RedisServer::sentinel("main", primary.port());
    eventually("the sentinel knows a copy that is in step", || async {
        let known: redis::RedisResult<Vec<redis::Value>> =
            redis::cmd("SENTINEL").arg("REPLICAS").arg("main").query(&mut sentinel.connect());
        let known = format!("{:?}", known.ok()?);
        known.contains("bulk-string('\"ok\"')").then_some(())
    })
    .await;
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port());
    let fleet = Fleet::over(primary, Plan::new(4).url(&url)).await;
    survives("failover", fleet, 12 * SECOND, async |_| {
        let mut command = redis::cmd("SENTINEL");
        command.arg("FAILOVER").arg("main").query::<()>(&mut sentinel.connect()).unwrap();
        eventually("the sentinel leads to the copy", || async {
            let mut get = redis::cmd("SENTINEL");
            let found: Vec<String> = get
                .arg("GET-MASTER-ADDR-BY-NAME")
                .arg("main")
                .query(&mut sentinel.connect())
                .ok()?;
            (found[1] == copy.port().to_string()).then_some(())
        })
        .await;
    })
    .await;
}
