//! What is served while the Redis is away, and what becomes of running streams.

use crate::support::server::RedisServer;
use crate::support::{LEASE, Replica, floors, path, settings, stored, until};
use std::sync::atomic::Ordering;
use streamgate::config::{OnFence, Quota, QuotaFloors, WhenUnavailable};
use streamgate::core::quota::{Acquired, QuotaStore};

async fn replica(server: &RedisServer, when: WhenUnavailable, on_fence: OnFence) -> Replica {
    let settings = Quota { when_unavailable: when, on_fence, ..settings(&server.url()) };
    let [replica] = Replica::fleet(&settings).await;
    replica
}

/// The Redis is frozen, and the replica knows.
async fn away(server: &mut RedisServer, replica: &Replica) {
    server.freeze();
    until("it is known to be away", || !replica.store.status().up).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn escrow_serves_what_is_held_until_the_own_deadline() {
    let mut server = RedisServer::start(&[]);
    let replica = replica(&server, WhenUnavailable::Escrow, OnFence::Keep).await;
    let path = path("a", 10);
    let running = replica.slot(&path).await;
    let unused = replica.slot(&path).await;
    drop(unused);
    away(&mut server, &replica).await;
    assert!(matches!(replica.ask(&path).await, Ok(Acquired::Granted(_))));
    until("the lease runs out", || replica.store.status().fenced).await;
    assert!(!running.is_valid(), "nothing may begin on it");
    let _ = replica.unknown(&path).await;
    let status = replica.store.status();
    assert_eq!((status.unfenced, replica.store.usage(&path.tenant).here), (1, 1));
    assert_eq!(replica.cuts.load(Ordering::SeqCst), 0);
    server.thaw();
    until("it is counted again", || {
        let status = replica.store.status();
        status.up && status.unfenced == 0
    })
    .await;
    assert!(running.is_valid());
    assert_eq!(stored(&mut server.connect(), "t:a").0, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_that_cuts_tells_so_once_and_voids_the_slots() {
    let mut server = RedisServer::start(&[]);
    let replica = replica(&server, WhenUnavailable::Escrow, OnFence::Cut).await;
    let path = path("a", 1);
    let cut = replica.slot(&path).await;
    server.freeze();
    until("the lease runs out", || replica.cuts.load(Ordering::SeqCst) == 1).await;
    assert!(!cut.is_valid());
    assert_eq!(replica.store.usage(&path.tenant).here, 0);
    server.thaw();
    let (next, _) = replica.slot_soon(&path).await;
    // The slot of the stream that was cut is not given back twice.
    drop(cut);
    let _ = replica.full(&path).await;
    assert!(next.is_valid());
    assert_eq!(replica.cuts.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_serves_nothing() {
    let mut server = RedisServer::start(&[]);
    let replica = replica(&server, WhenUnavailable::Closed, OnFence::Keep).await;
    let path = path("a", 10);
    let _running = replica.slot(&path).await;
    drop(replica.slot(&path).await);
    away(&mut server, &replica).await;
    let _ = replica.unknown(&path).await;
    server.thaw();
    let (_slot, _) = replica.slot_soon(&path).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_admits_up_to_the_cap_on_each_replica_and_counts_it_later() {
    let mut server = RedisServer::start(&[]);
    let settings = Quota { when_unavailable: WhenUnavailable::Open, ..settings(&server.url()) };
    let fleet: [_; 2] = Replica::fleet(&settings).await;
    let path = path("a", 2);
    let mut held = vec![fleet[0].slot(&path).await];
    server.freeze();
    for replica in &fleet {
        until("it is known to be away", || !replica.store.status().up).await;
    }
    held.push(fleet[0].slot(&path).await);
    held.push(fleet[1].slot(&path).await);
    held.push(fleet[1].slot(&path).await);
    for replica in &fleet {
        let _ = replica.unknown(&path).await;
    }
    until("the leases run out", || fleet.iter().all(|r| r.store.status().fenced)).await;
    assert!(held.iter().all(|slot| slot.is_valid()), "the policy lets them begin");
    server.thaw();
    until("all four are counted", || {
        fleet.iter().all(|r| r.store.status().unfenced == 0)
            && stored(&mut server.connect(), "t:a").0 >= 4
    })
    .await;
    let _ = tokio::time::timeout(3 * LEASE, fleet[0].full(&path)).await.expect("an answer");
    drop(held);
    let (_slot, _) = fleet[0].slot_soon(&path).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floors_serve_past_the_deadline_and_never_above_the_cap() {
    let mut server = RedisServer::start(&[]);
    let set_aside = QuotaFloors { percent: 50, per_replica: 1, lease: 4 * LEASE };
    let settings = Quota { floors: set_aside, ..settings(&server.url()) };
    let fleet: [_; 2] = Replica::fleet(&settings).await;
    let path = path("a", 4);
    for replica in &fleet {
        drop(replica.slot(&path).await);
    }
    until("both hold their floor", || floors(&mut server.connect()) == 2).await;
    server.freeze();
    until("the leases run out", || fleet.iter().all(|r| r.store.status().fenced)).await;
    let (one, two) = (fleet[0].slot(&path).await, fleet[1].slot(&path).await);
    assert_eq!(fleet[0].store.status().escrow, 1);
    for replica in &fleet {
        let _ = replica.unknown(&path).await;
    }
    server.thaw();
    // Floors count: two of four are in use.
    let (_three, _) = fleet[0].slot_soon(&path).await;
    let (_four, _) = fleet[0].slot_soon(&path).await;
    let fifth = fleet[1].ask(&path).await;
    assert!(!matches!(fifth, Ok(Acquired::Granted(_))), "{fifth:?}");
    drop((one, two));
}
