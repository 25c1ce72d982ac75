//! The Redis does not answer: frozen, cut off, reset.

use crate::support::relay::{Mode, Relay};
use crate::support::server::RedisServer;
use crate::support::{Engine, LEASE, MS, Replica, path, settings, until};
use std::sync::Arc;
use std::time::Duration;
use streamgate::config::{OnFence, Quota};
use streamgate::core::quota::{Acquired, QuotaStore, SlotGuard, StoreError, StoreFault};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// A timeout that is short beside a lease, for tests that measure it.
const TIMEOUT: Duration = Duration::from_millis(100);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_millis(150);

fn quick(url: &str) -> Quota {
    Quota { operation_timeout: TIMEOUT, ..settings(url) }
}

/// Cases 23 and 24: the first request waits for the timeout, the next ones for nothing.
async fn costs_one_timeout(replica: &Replica) {
    let path = path("b", 1);
    let begun = Instant::now();
    let error = replica.unknown(&path).await;
    assert!(begun.elapsed() <= TIMEOUT + SLACK, "{:?}", begun.elapsed());
    assert!(matches!(error, StoreError::Timeout | StoreError::Unreachable(_)), "{error:?}");
    let begun = Instant::now();
    for _ in 0..100 {
        let _ = replica.unknown(&path).await;
    }
    assert!(begun.elapsed() <= SLACK, "a hundred took {:?}", begun.elapsed());
    let status = replica.store.status();
    assert!(!status.up && status.last_fault.is_some(), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_costs_one_timeout() {
    let mut server = RedisServer::start(&[]);
    let [replica] = Replica::fleet(&quick(&server.url())).await;
    server.freeze();
    costs_one_timeout(&replica).await;
    server.thaw();
    let (_slot, _) = replica.slot_soon(&path("b", 1)).await;
    assert!(replica.store.status().up);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_does_a_network_that_swallows_everything() {
    let server = RedisServer::start(&[]);
    let relay = Relay::start(server.port()).await;
    let [replica] = Replica::fleet(&quick(&relay.url())).await;
    relay.set(Mode { stalled: true, ..Mode::default() });
    costs_one_timeout(&replica).await;
    relay.set(Mode::default());
    let (_slot, _) = replica.slot_soon(&path("b", 1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_does_a_redis_that_is_gone() {
    let mut server = RedisServer::start(&[]);
    let [replica] = Replica::fleet(&quick(&server.url())).await;
    server.kill();
    costs_one_timeout(&replica).await;
    until("the connection is known to be lost", || {
        replica.store.status().last_fault == Some(StoreFault::Unreachable)
    })
    .await;
    server.revive();
    let (_slot, _) = replica.slot_soon(&path("b", 1)).await;
}

/// A slow network is not an outage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_network_delays_and_refuses_nothing() {
    let server = RedisServer::start(&[]);
    let relay = Relay::start(server.port()).await;
    let [replica] = Replica::fleet(&settings(&relay.url())).await;
    relay.set(Mode { delay: 40 * MS, ..Mode::default() });
    let path = path("a", 50);
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let (store, path) = (Arc::clone(&replica.store), path.clone());
        tasks.spawn(async move {
            match store.acquire(&path).await {
                Ok(Acquired::Granted(slot)) => slot,
                other => panic!("{other:?}"),
            }
        });
    }
    let slots: Vec<Box<dyn SlotGuard>> = tasks.join_all().await;
    assert_eq!(slots.len(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_reset_is_made_again_at_once() {
    let server = RedisServer::start(&[]);
    let relay = Relay::start(server.port()).await;
    let [replica] = Replica::fleet(&settings(&relay.url())).await;
    let path = path("a", 3);
    let held = replica.slot(&path).await;
    for _ in 0..3 {
        relay.reset();
        let (slot, took) = replica.slot_soon(&path).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert!(held.is_valid());
        drop(slot);
    }
}

/// Case 6: bursts on all replicas before, during and after an outage of several leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_outage_lets_more_run_than_the_cap() {
    const CAP: u32 = 4;
    for on_fence in [OnFence::Keep, OnFence::Cut] {
        let mut server = RedisServer::start(&[]);
        let settings = Quota { on_fence, ..quick(&server.url()) };
        let fleet: [_; 3] = Replica::fleet(&settings).await;
        let engine = Arc::new(Engine::default());
        let end = Instant::now() + 6 * LEASE;
        let mut clients = JoinSet::new();
        for client in 0..24_u64 {
            let store = Arc::clone(&fleet[usize::try_from(client).unwrap() % fleet.len()].store);
            let engine = Arc::clone(&engine);
            clients.spawn(async move {
                let path = path("a", CAP);
                while Instant::now() < end {
                    if let Ok(Acquired::Granted(slot)) = store.acquire(&path).await
                        && slot.is_valid()
                    {
                        let work = engine.begin();
                        // A stream that its replica cuts is over at the engine.
                        let stream_end =
                            Instant::now() + Duration::from_millis(20 + 90 * (client % 7));
                        while Instant::now() < stream_end
                            && (on_fence == OnFence::Keep || slot.is_valid())
                        {
                            sleep(MS).await;
                        }
                        drop(work);
                    }
                    sleep(3 * MS).await;
                }
            });
        }
        sleep(LEASE).await;
        server.freeze();
        sleep(2 * LEASE).await;
        server.thaw();
        while let Some(client) = clients.join_next().await {
            client.expect("a client failed");
        }
        assert!(engine.most() <= u64::from(CAP), "{on_fence:?}: {} at once", engine.most());
        assert!(engine.served() > 10, "{on_fence:?}: {} served", engine.served());
        for replica in &fleet {
            until("it answers again", || replica.store.status().up).await;
        }
        let (_slot, _) = fleet[0].slot_soon(&path("a", CAP)).await;
    }
}
