//! The Redis forgets, or somebody edits it.

use crate::support::relay::{Mode, Relay};
use crate::support::server::RedisServer;
use crate::support::{BOUND, LEASE, MS, Replica, path, settings, stored, until, within};
use std::time::Duration;
use streamgate::core::quota::{QuotaStore, SlotPath, StoreOp};
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

/// What somebody may do to our hash: write a value, or (`None`) delete. A field is named by how it begins.
const EDITS: [(&str, Option<&str>); 10] = [
    ("S|t:a", Some("4 1 0 9999999999999 0 0 0")),
    ("S|t:a", Some("hello")),
    ("S|t:a", None),
    ("S|p:p", Some("-1 1 0 9999999999 7 0 0")),
    ("E|o", Some("7 0 1 0")),
    ("E|o", None),
    ("L|o", Some("0 0 0 0")),
    ("h", Some("hello")),
    ("h", None),
    ("pr", Some("=;=")),
];

fn edit(connection: &mut redis::Connection, begins: &str, value: Option<&str>) {
    let fields: Vec<String> = redis::cmd("HKEYS").arg("sg:{q0}").query(connection).unwrap();
    let field = fields.into_iter().find(|field| field.starts_with(begins));
    let field = field.unwrap_or_else(|| begins.to_owned());
    match value {
        Some(value) => redis::cmd("HSET").arg("sg:{q0}").arg(field).arg(value).exec(connection),
        None => redis::cmd("HDEL").arg("sg:{q0}").arg(field).exec(connection),
    }
    .unwrap();
}

/// The next beat of each replica notices. One may have been under way, and on a busy machine one more may
/// pass until this test looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_edited_by_hand_heals_with_the_next_beat() {
    for (field, value) in EDITS {
        let server = RedisServer::start(&[]);
        let [one, two] = Replica::fleet(&settings(&server.url())).await;
        let path = path("a", 2);
        let held = (one.slot(&path).await, two.slot(&path).await);
        let beats = || [&one, &two].map(|replica| replica.meter.answered(StoreOp::Beat));
        let joins = || [&one, &two].map(|replica| replica.meter.answered(StoreOp::Join));
        let (before, joined) = (beats(), joins());
        edit(&mut server.connect(), field, value);
        let what = format!("{field} = {value:?} heals");
        within(BOUND, &what, || {
            let again = joins().into_iter().zip(joined).all(|(now, then)| now > then);
            again && stored(&mut server.connect(), "t:a").0 == 2
        })
        .await;
        let passed = beats().into_iter().zip(before).map(|(now, then)| now - then);
        assert!(passed.clone().all(|beats| beats <= 3), "{what} in {passed:?} beats");
        let _ = tokio::time::timeout(BOUND, two.full(&path)).await.expect("an answer");
        drop(held);
        until("all is back", || one.store.usage(&path.tenant).fleet == 0).await;
        let _slot = one.slot(&path).await;
    }
}

/// Stated exception: a lease deleted by hand ends its holder's incarnation, as if it had lapsed. Until its
/// next call the slots count as free; then its requests are claimed again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_deleted_by_hand_ends_an_incarnation() {
    let server = RedisServer::start(&[]);
    let [replica] = Replica::fleet(&settings(&server.url())).await;
    let path = path("a", 2);
    let held = replica.slot(&path).await;
    edit(&mut server.connect(), "L|o", None);
    let joins = replica.meter.answered(StoreOp::Join);
    until("it joined again", || replica.meter.answered(StoreOp::Join) > joins).await;
    until("it is counted again", || held.is_valid()).await;
    assert_eq!(stored(&mut server.connect(), "t:a").0, 1);
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
