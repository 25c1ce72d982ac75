//! Several replicas and a Redis that behaves.

use crate::support::server::RedisServer;
use crate::support::{Engine, MS, Replica, path, settings, stored, until, within};
use std::sync::Arc;
use std::time::Duration;
use streamgate::core::quota::{Acquired, FullScope, QuotaStore, SlotPath};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Clients that come again until each was served `rounds` times.
pub async fn storm(
    replicas: &[Replica],
    path: &SlotPath,
    clients: usize,
    rounds: usize,
) -> Arc<Engine> {
    let engine = Arc::new(Engine::default());
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let store = Arc::clone(&replicas[client % replicas.len()].store);
        let (engine, path) = (Arc::clone(&engine), path.clone());
        tasks.spawn(async move {
            for _ in 0..rounds {
                loop {
                    let room = store.room(&path.tenant, &path.pool);
                    if let Ok(Acquired::Granted(slot)) = store.acquire(&path).await {
                        let work = engine.begin();
                        sleep(2 * MS).await;
                        drop(work);
                        drop(slot);
                        break;
                    }
                    room.await;
                }
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("a client failed");
    }
    engine
}

/// Case 5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_replicas_share_one_cap() {
    let server = RedisServer::start(&[]);
    let replicas: [_; 3] = Replica::fleet(&settings(&server.url())).await;
    let engine = timeout(crate::support::BOUND, storm(&replicas, &path("a", 5), 30, 10)).await;
    let engine = engine.expect("everybody is served");
    assert_eq!(engine.served(), 300);
    assert!(engine.most() <= 5, "{} at once", engine.most());
    assert!(engine.most() >= 4, "the cap is used: {} at once", engine.most());
}

/// Case 8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_comes_free_on_one_replica_is_there_on_the_other() {
    let server = RedisServer::start(&[]);
    let [one, two] = Replica::fleet(&settings(&server.url())).await;
    let path = path("a", 2);
    for _ in 0..5 {
        let held = one.slot(&path).await;
        let other = two.slot(&path).await;
        assert_eq!(two.full(&path).await, FullScope::Tenant);
        drop(held);
        // The next question finds it: nobody remembers "full".
        let (again, took) = two.slot_soon(&path).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        drop((other, again));
        until("all is back", || one.store.usage(&path.tenant).fleet == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_one_replica_keeps_unused_is_there_for_the_other() {
    let server = RedisServer::start(&[]);
    let [one, two] = Replica::fleet(&settings(&server.url())).await;
    let path = path("a", 2);
    // Far from the cap, so that nothing is given back at once.
    let held = one.slot(&path).await;
    drop(held);
    let first = two.slot(&path).await;
    let second = two.slot(&path).await;
    drop((first, second));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_is_shared_by_the_tenants_of_all_replicas() {
    let server = RedisServer::start(&[]);
    let [one, two] = Replica::fleet(&settings(&server.url())).await;
    let pooled = |tenant| SlotPath { pool_cap: Some(2), ..path(tenant, 5) };
    let a = one.slot(&pooled("a")).await;
    let _b = two.slot(&pooled("b")).await;
    assert_eq!(two.full(&pooled("c")).await, FullScope::Pool);
    drop(a);
    let (_c, took) = two.slot_soon(&pooled("c")).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_zero_within_a_second_of_the_last_end() {
    let server = RedisServer::start(&[]);
    let replicas: [_; 2] = Replica::fleet(&settings(&server.url())).await;
    let (calm, busy) = (path("calm", 100), path("busy", 4));
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(replicas[0].slot(&calm).await);
    }
    storm(&replicas, &busy, 20, 5).await;
    drop(held);
    let mut connection = server.connect();
    within(Duration::from_secs(1), "nothing is stored", || {
        ["t:calm", "t:busy", "p:p"].iter().all(|scope| {
            // A new borrow each time: the closure is called again.
            stored(&mut server.connect(), scope) == (0, 0)
        })
    })
    .await;
    for replica in &replicas {
        for tenant in [&calm.tenant, &busy.tenant] {
            until("nothing is known to be held", || {
                let usage = replica.store.usage(tenant);
                (usage.here, usage.fleet) == (0, 0)
            })
            .await;
        }
    }
    // The books hold no entry of anybody either.
    let fields: Vec<String> = redis::cmd("HKEYS").arg("sg:{q0}").query(&mut connection).unwrap();
    until("entries are forgotten", || {
        let fields: Vec<String> =
            redis::cmd("HKEYS").arg("sg:{q0}").query(&mut server.connect()).unwrap();
        !fields.iter().any(|field| field.starts_with("E|"))
    })
    .await;
    assert!(fields.iter().any(|field| field == "h"), "{fields:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lowered_cap_takes_nothing_and_a_raised_one_counts_at_once() {
    let server = RedisServer::start(&[]);
    let [one, two] = Replica::fleet(&settings(&server.url())).await;
    let at = |cap, revision| SlotPath { tenant_revision: revision, ..path("a", cap) };
    let mut held = vec![one.slot(&at(4, 1)).await, two.slot(&at(4, 1)).await];
    held.push(two.slot(&at(4, 1)).await);
    // One replica reloads; the other, which has the old configuration still, follows.
    assert_eq!(one.full(&at(2, 2)).await, FullScope::Tenant);
    assert_eq!(two.full(&at(4, 1)).await, FullScope::Tenant);
    held.truncate(1);
    let (_slot, _) = two.slot_soon(&at(4, 1)).await;
    assert_eq!(one.full(&at(2, 2)).await, FullScope::Tenant);
    let _raised = one.slot(&at(3, 3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_leaves_gives_back_what_nobody_uses() {
    let server = RedisServer::start(&[]);
    let [one, two] = Replica::fleet(&settings(&server.url())).await;
    let path = path("a", 10);
    drop((one.slot(&path).await, one.slot(&path).await));
    assert!(one.store.leave(crate::support::BOUND).await);
    assert_eq!(stored(&mut server.connect(), "t:a"), (0, 0));
    drop(one);
    let _slot = two.slot(&path).await;
}
