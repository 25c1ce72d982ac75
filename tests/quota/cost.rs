//! Round trips.

use crate::fleet::storm;
use crate::support::relay::Relay;
use crate::support::server::RedisServer;
use crate::support::{MS, Replica, path, settings};
use std::sync::Arc;
use streamgate::core::quota::{QuotaStore, StoreOp};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Calls of scripts that the server executed.
fn calls(server: &RedisServer) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connect()).unwrap();
    let count = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
        let calls = line.and_then(|line| line.split(['=', ',']).nth(1));
        calls.map_or(0, |calls| calls.parse().unwrap())
    };
    count("evalsha") + count("eval")
}

/// Away from the cap, everything counted: questions, beats, looks, from all replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn away_from_the_cap_a_request_costs_less_than_a_fifth_of_a_round_trip() {
    let server = RedisServer::start(&[]);
    let fleet: [_; 2] = Replica::fleet(&settings(&server.url())).await;
    let path = path("a", 200);
    let before = calls(&server);
    let mut clients = JoinSet::new();
    for client in 0..8 {
        let store = Arc::clone(&fleet[client % 2].store);
        let path = path.clone();
        clients.spawn(async move {
            for _ in 0..100 {
                let slot = store.acquire(&path).await.expect("an answer");
                sleep(5 * MS).await;
                drop(slot);
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.expect("a client failed");
    }
    let cost = calls(&server) - before;
    assert!(cost * 5 < 800, "{cost} calls for 800 requests");
}

/// At the cap a request waits for one answer before it goes on, and gives its slot back once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_cap_a_request_costs_one_round_trip_before_it_runs() {
    let server = RedisServer::start(&[]);
    let relay = Relay::start(server.port()).await;
    let near = Replica::ready(&settings(&server.url())).await;
    let [far] = Replica::fleet(&settings(&relay.url())).await;
    let path = path("a", 2);
    let _full = (near.slot(&path).await, near.slot(&path).await);
    // The first refusal asks the others for what they did not report; the next ones do not.
    let _ = far.full(&path).await;
    let (sets, wire) = (far.meter.answered(StoreOp::Set), relay.requests());
    let beats = far.meter.answered(StoreOp::Beat) + far.meter.answered(StoreOp::Look);
    for _ in 0..50 {
        let _ = far.full(&path).await;
    }
    let others = far.meter.answered(StoreOp::Beat) + far.meter.answered(StoreOp::Look) - beats;
    // A beat may bring a SET of its own along.
    let asked = far.meter.answered(StoreOp::Set) - sets;
    assert!((50..=50 + others).contains(&asked), "{asked} for 50 questions");
    assert!(relay.requests() - wire <= asked + others + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_one_scope_share_a_call() {
    let server = RedisServer::start(&[]);
    let fleet: [_; 1] = Replica::fleet(&settings(&server.url())).await;
    let path = path("a", 64);
    let before = fleet[0].meter.answered(StoreOp::Set);
    let mut tasks = JoinSet::new();
    for _ in 0..64 {
        let (store, path) = (Arc::clone(&fleet[0].store), path.clone());
        tasks.spawn(async move { store.acquire(&path).await.expect("an answer") });
    }
    let slots = tasks.join_all().await;
    assert_eq!(slots.len(), 64);
    let calls = fleet[0].meter.answered(StoreOp::Set) - before;
    assert!(calls <= 16, "{calls} calls for 64 waiters");
}

/// One take and one give back, never more, whoever wins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_at_the_cap_costs_a_bounded_number_of_calls() {
    let server = RedisServer::start(&[]);
    let fleet: [_; 2] = Replica::fleet(&settings(&server.url())).await;
    let before = calls(&server);
    let engine = storm(&fleet, &path("a", 4), 8, 25).await;
    let cost = calls(&server) - before;
    assert!(engine.most() <= 4 && engine.served() == 200);
    assert!(cost <= 200 * 8, "{cost} calls for 200 requests of 8 clients that compete");
}
