//! A replica dies, and one that lives holds on.

use crate::support::server::RedisServer;
use crate::support::{LEASE, MS, Replica, path, settings, within};
use std::time::Duration;
use streamgate::core::quota::QuotaStore;
use tokio::time::{Instant, sleep};

/// Case 10, first half.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_of_a_killed_replica_are_granted_within_a_lease_and_a_second() {
    let server = RedisServer::start(&[]);
    let [dead, alive] = Replica::fleet(&settings(&server.url())).await;
    let path = path("a", 2);
    let slots = (dead.slot(&path).await, dead.slot(&path).await);
    let _ = alive.full(&path).await;
    drop(dead);
    let (_one, took) = alive.slot_soon(&path).await;
    assert!(took <= LEASE + Duration::from_secs(1), "{took:?}");
    // Not before its streams are surely over: a lease from its last beat, at most a beat ago.
    assert!(took >= LEASE * 6 / 10, "{took:?}");
    let (_two, _) = alive.slot_soon(&path).await;
    drop(slots);
}

/// Unused slots of the dead make nobody believe that the cap is reached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_waits_for_the_unused_slots_of_a_killed_replica() {
    let server = RedisServer::start(&[]);
    let [dead, alive] = Replica::fleet(&settings(&server.url())).await;
    let path = path("a", 40);
    let mut held = Vec::new();
    for _ in 0..30 {
        held.push(dead.slot(&path).await);
    }
    held.truncate(20);
    // A beat, so that the store knows what is unused.
    let beats = dead.meter.answered(streamgate::core::quota::StoreOp::Beat);
    within(LEASE, "a beat", || dead.meter.answered(streamgate::core::quota::StoreOp::Beat) > beats)
        .await;
    drop(dead);
    let mut mine = Vec::new();
    for _ in 0..20 {
        mine.push(alive.slot(&path).await);
    }
    drop(held);
}

/// Case 10, second half.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_stream_of_many_leases_keeps_its_slot() {
    let server = RedisServer::start(&[]);
    let [long, other] = Replica::fleet(&settings(&server.url())).await;
    let path = path("a", 1);
    let slot = long.slot(&path).await;
    let end = Instant::now() + 4 * LEASE;
    while Instant::now() < end {
        let _ = other.full(&path).await;
        assert!(slot.is_valid());
        sleep(20 * MS).await;
    }
    assert!(!long.store.status().fenced);
    drop(slot);
    let (_slot, took) = other.slot_soon(&path).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
}
