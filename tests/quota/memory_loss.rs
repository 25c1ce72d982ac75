//! The Redis forgets, or somebody edits it.

use crate::support::relay::{Mode, Relay};
use crate::support::server::RedisServer;
use crate::support::{BOUND, LEASE, MS, Replica, path, settings, stored, until, within};
use std::time::Duration;
use streamgate::core::quota::{QuotaStore, SlotPath};
use tokio::time::{Instant, sleep};

/// Every slot of cap 4 is held by three replicas; `lose` makes the Redis forget. Until a slot is
/// given back nobody is admitted, a replica that starts meanwhile included; then the next one is,
/// within a lease and a second of the loss.
async fn survives(server: RedisServer, lose: impl FnOnce(RedisServer) -> RedisServer) {
    let settings = settings(&server.url());
    let fleet: [_; 3] = Replica::fleet(&settings).await;
    let path = path("a", 4);
    let mut held = Vec::new();
    for at in [0, 1, 2, 0] {
        held.push(fleet[at].slot(&path).await);
    }
    let _ = fleet[1].full(&path).await;
    let server = lose(server);
    let lost = Instant::now();
    let fresh = Replica::start(&settings);
    let end = Instant::now() + LEASE + LEASE / 2;
    while Instant::now() < end {
        for replica in fleet.iter().chain([&fresh]) {
            let asked = tokio::time::timeout(20 * MS, replica.ask(&path)).await;
            let granted = matches!(asked, Ok(Ok(streamgate::core::quota::Acquired::Granted(_))));
            assert!(!granted, "a fifth, {:?} after the loss", lost.elapsed());
        }
        sleep(5 * MS).await;
    }
    assert_eq!(stored(&mut server.connect(), "t:a").0, 4, "all were asserted again");
    for replica in &fleet {
        assert!(!replica.store.status().fenced, "{:?}", replica.store.status());
    }
    drop(held.pop());
    let (_slot, took) = fresh.slot_soon(&path).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
}

/// Case 9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_at_the_full_cap_admits_nobody() {
    survives(RedisServer::start(&[]), |server| {
        redis::cmd("FLUSHALL").query::<()>(&mut server.connect()).unwrap();
        server
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_does_a_restart_without_persistence() {
    survives(RedisServer::start(&[]), |mut server| {
        server.kill();
        server.revive();
        server
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_does_a_restart_from_an_older_snapshot() {
    let server = RedisServer::start(&["--dbfilename", "dump.rdb"]);
    let mut connection = server.connect();
    // A snapshot from before anything was held; the restart believes in it.
    redis::cmd("SAVE").query::<()>(&mut connection).unwrap();
    survives(server, |mut server| {
        server.kill();
        server.revive();
        server
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_grants_come_within_a_lease_and_a_second_of_a_loss() {
    let server = RedisServer::start(&[]);
    let [one, two] = Replica::fleet(&settings(&server.url())).await;
    let path = path("a", 2);
    let _held = one.slot(&path).await;
    redis::cmd("FLUSHALL").query::<()>(&mut server.connect()).unwrap();
    let (_slot, took) = two.slot_soon(&path).await;
    assert!(took <= LEASE + Duration::from_secs(1), "{took:?}");
}

/// What somebody may write into our hash.
const EDITS: [(&str, &str); 5] = [
    ("S|t:a", "4 1 0 9999999999999 0 0 0"),
    ("S|t:a", "hello"),
    ("h", "hello"),
    ("S|p:p", "-1 1 0 9999999999 7 0 0"),
    ("pr", "=;="),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_edited_by_hand_heals_with_the_next_beat() {
    for (field, value) in EDITS {
        let server = RedisServer::start(&[]);
        let [one, two] = Replica::fleet(&settings(&server.url())).await;
        let path = path("a", 2);
        let held = (one.slot(&path).await, two.slot(&path).await);
        let mut connection = server.connect();
        let edit: redis::RedisResult<()> =
            redis::cmd("HSET").arg("sg:{q0}").arg(field).arg(value).query(&mut connection);
        edit.unwrap();
        within(LEASE, &format!("{field} = {value} heals"), || {
            stored(&mut server.connect(), "t:a").0 == 2
        })
        .await;
        let _ = tokio::time::timeout(LEASE * 2, two.full(&path)).await.expect("an answer");
        drop(held);
        until("all is back", || one.store.usage(&path.tenant).fleet == 0).await;
        let _slot = one.slot(&path).await;
    }
}

/// A reply that is lost leaves a slot neither granted twice nor lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_neither_grant_nor_lose_a_slot() {
    let server = RedisServer::start(&[]);
    let relay = Relay::start(server.port()).await;
    let [near] = Replica::fleet(&settings(&server.url())).await;
    let far = Replica::ready(&settings(&relay.url())).await;
    let path: SlotPath = path("a", 2);
    let _held = near.slot(&path).await;
    relay.set(Mode { deaf: true, ..Mode::default() });
    // The store grants it; the answer vanishes.
    let _ = far.unknown(&path).await;
    until("the store granted it", || stored(&mut server.connect(), "t:a").0 == 2).await;
    assert_eq!(far.store.usage(&path.tenant).here, 0);
    let _ = near.full(&path).await;
    relay.set(Mode::default());
    relay.reset();
    // Asked for again with the whole number, it is given back, and free for others.
    let (_slot, took) = near.slot_soon(&path).await;
    assert!(took < LEASE + Duration::from_secs(1), "{took:?}");
    until("the far one is back", || far.store.status().up).await;
    tokio::time::timeout(BOUND, far.full(&path)).await.expect("an answer");
}
