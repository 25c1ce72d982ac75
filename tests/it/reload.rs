//! A reload while requests run and wait.

use crate::support::{Api, BOUND, Call, Gate, Leave, Metrics, Proto, Setup, eventually};
use std::net::SocketAddr;
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};

const LONG: u32 = 100_000;

async fn engine() -> Engine {
    Engine::start(EngineConfig::instant(Duration::from_millis(20))).await.unwrap()
}

async fn streams(gate: &Gate, count: usize) -> Vec<Call> {
    let mut calls = Vec::new();
    for _ in 0..count {
        calls.push(Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(LONG)).await);
    }
    calls
}

async fn in_flight(gate: &Gate) -> Vec<u64> {
    let state = gate.state().await;
    let endpoints = state["pools"][0]["endpoints"].as_array().unwrap();
    endpoints.iter().map(|endpoint| endpoint["in_flight"].as_u64().unwrap()).collect()
}

fn queueing(engine: &Engine, pool_cap: u32) -> Setup {
    let queue = "max_in_flight: 20\non_limit: queue\nqueue: {max_depth: 20, max_wait: 60s}";
    let pool = format!("max_in_flight: {pool_cap}");
    Setup::new(&[engine.addr()]).pool(&pool).tenant("a", queue)
}

#[tokio::test]
async fn a_raised_pool_cap_starts_those_who_wait() {
    let engine = engine().await;
    let gate = Gate::start(queueing(&engine, 1)).await;
    let running = streams(&gate, 6).await;
    gate.metrics_when("five wait", |metrics| metrics.sum("streamgate_queued") == 5.0).await;
    gate.reload(&queueing(&engine, 4)).await;
    // Nobody arrives and nobody ends.
    engine.wait_stats(|stats| stats.in_flight == 4, BOUND).await.unwrap();
    gate.reload(&queueing(&engine, 0)).await;
    engine.wait_stats(|stats| stats.in_flight == 6, BOUND).await.unwrap();
    assert_eq!(gate.metrics().await.sum("streamgate_queued"), 0.0);
    drop(running);
    gate.all_slots_free(8_usize, &engine).await;
}

#[tokio::test]
async fn a_lowered_pool_cap_holds_those_who_wait() {
    let engine = engine().await;
    let gate = Gate::start(queueing(&engine, 4)).await;
    let mut running = streams(&gate, 4).await;
    engine.wait_stats(|stats| stats.in_flight == 4, BOUND).await.unwrap();
    let mut waiting = Vec::new();
    // One by one: they are served in the order of this list.
    for place in 1..=5 {
        waiting.extend(streams(&gate, 1).await);
        let queued = |metrics: &Metrics| metrics.sum("streamgate_queued") == f64::from(place);
        gate.metrics_when("one more waits", queued).await;
    }
    gate.reload(&queueing(&engine, 1)).await;
    // Each end gives a slot that the new cap does not have, but for the last.
    for left in (1..4).rev() {
        running.remove(0).leave(Leave::Close).await;
        gate.metrics_when("one has ended", |m| m.sum("streamgate_in_flight") == left as f64).await;
        assert_eq!(engine.stats().requests, 4);
    }
    for served in 5..=9 {
        running.remove(0).leave(Leave::Close).await;
        engine.wait_stats(|stats| stats.requests == served, BOUND).await.unwrap();
        assert_eq!(engine.stats().in_flight, 1);
        running.push(waiting.remove(0));
    }
    drop(running);
    gate.settled().await;
}

fn limited(endpoints: &[SocketAddr]) -> Setup {
    Setup::new(endpoints).pool("max_in_flight_per_endpoint: 1").tenant("a", "max_in_flight: 20")
}

#[tokio::test]
async fn an_engine_that_comes_back_still_has_its_streams() {
    let (first, second) = (engine().await, engine().await);
    let gate = Gate::start(limited(&[first.addr()])).await;
    let mut running = streams(&gate, 1).await;
    assert_eq!(running[0].head().await.unwrap().0, 200);
    gate.reload(&limited(&[second.addr()])).await;
    gate.reload(&limited(&[first.addr()])).await;
    assert_eq!(in_flight(&gate).await, [1]);
    let full = gate.answer(&Api::Chat.stream(2)).await;
    assert_eq!((full.status, full.reason()), (503, Some("pool_saturated")));

    // With both, the one that is at work is not chosen.
    gate.reload(&limited(&[first.addr(), second.addr()])).await;
    assert_eq!(gate.answer(&Api::Chat.stream(2)).await.status, 200);
    assert_eq!((first.stats().requests, second.stats().requests), (1, 1));
    drop(running);
    gate.settled().await;
    assert_eq!(in_flight(&gate).await, [0, 0]);

    // Its streams are over: it comes back with nothing.
    gate.reload(&limited(&[second.addr()])).await;
    gate.reload(&limited(&[first.addr()])).await;
    assert_eq!(in_flight(&gate).await, [0]);
    assert_eq!(gate.answer(&Api::Chat.stream(2)).await.status, 200);
    assert_eq!(first.stats().max_in_flight, 1);
}

#[tokio::test]
async fn a_pool_that_comes_back_still_has_its_streams() {
    let engine = engine().await;
    let setup = limited(&[engine.addr()]);
    let gate = Gate::start(setup.clone()).await;
    let mut running = streams(&gate, 1).await;
    assert_eq!(running[0].head().await.unwrap().0, 200);
    // Another pool of the same engine, then the old one again.
    for name in ["q", "p"] {
        let yaml = setup.yaml().replace("name: p", &format!("name: {name}"));
        std::fs::write(gate.directory().join("streamgate.yaml"), yaml).unwrap();
        gate.signal("HUP");
        eventually("the pool is replaced", || async {
            (gate.state().await["pools"][0]["pool"] == name).then_some(())
        })
        .await;
        assert_eq!(in_flight(&gate).await, [1], "{name}");
        let full = gate.answer(&Api::Chat.stream(2)).await;
        assert_eq!((full.status, full.reason()), (503, Some("pool_saturated")), "{name}");
    }
    let demand = gate.state().await["pools"][0]["demand"].clone();
    assert_eq!(demand, 1);
    drop(running);
    gate.settled().await;
    assert_eq!(gate.answer(&Api::Chat.stream(2)).await.status, 200);
    assert_eq!(engine.stats().max_in_flight, 1);
}
