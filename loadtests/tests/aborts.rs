//! A client that goes away aborts its request: however it goes, and wherever the request is.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

mod common;

use std::time::{Duration, Instant};

use common::{BOUND, Client, End, at_best, completion, plain_completion, post, request};
use streamgate_loadtests::engine::{
    Engine, EngineConfig, Faults, InstantProfile, Profile, StepModel,
};
use tokio::io::AsyncWriteExt;

const COMPLETIONS: &str = "/v1/completions";
/// From the close to the processed abort, on a busy machine.
const SOON: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
enum Leave {
    Fin,
    Reset,
    HalfClose,
}

const ALL: [Leave; 3] = [Leave::Fin, Leave::Reset, Leave::HalfClose];

/// Leaves; keeps the connection where leaving does not end it.
async fn leave(mut client: Client, how: Leave) -> Option<Client> {
    match how {
        Leave::Fin => None,
        Leave::Reset => {
            client.reset();
            None
        }
        Leave::HalfClose => {
            client.stream.shutdown().await.unwrap();
            Some(client)
        }
    }
}

async fn one_slot(first_token: Duration) -> Engine {
    let profile = Profile::Instant(InstantProfile {
        token_interval: Duration::from_millis(10),
        first_token,
        max_running: Some(1),
    });
    Engine::start(EngineConfig { profile, ..EngineConfig::default() }).await.unwrap()
}

async fn start_request(engine: &Engine, body: &str) -> Client {
    let mut client = Client::connect(engine.addr()).await;
    client.send(request("POST", COMPLETIONS, &[("x-sim-tenant", "t")], body)).await;
    client
}

async fn expect_abort(engine: &Engine, left_at: Instant, queued: bool) {
    engine.wait_stats(|s| s.aborts == 1 && s.in_flight == 0, BOUND).await.unwrap();
    let abort = engine.aborts().pop().unwrap();
    assert!(abort.seen.saturating_duration_since(left_at) < SOON, "{abort:?}");
    assert!(abort.latency < SOON, "{abort:?}");
    assert_eq!((abort.tenant.as_str(), abort.queued), ("t", queued));
    assert_eq!((engine.stats().running, engine.stats().waiting), (0, 0));
    assert_eq!(engine.stats().tenants["t"].aborts, 1);
}

#[tokio::test]
async fn while_streaming() {
    for how in ALL {
        let engine = one_slot(Duration::ZERO).await;
        let mut client = start_request(&engine, &completion(10_000)).await;
        client.until(|raw| raw.windows(4).any(|w| w == b"text")).await;
        let now = Instant::now();
        let rest = leave(client, how).await;
        expect_abort(&engine, now, false).await;
        if let Some(mut client) = rest {
            assert_ne!(client.read_to_end().await, End::Silent, "the engine closes its side too");
        }
        let stats = engine.stats();
        assert!(stats.tokens_generated < 1000 && stats.completed == 0);
    }
}

#[tokio::test]
async fn within_a_few_milliseconds() {
    for how in ALL {
        at_best(|| async move {
            let engine = one_slot(Duration::from_secs(100)).await;
            let client = start_request(&engine, &completion(5)).await;
            engine.wait_stats(|s| s.running == 1, BOUND).await.unwrap();
            let now = Instant::now();
            let _rest = leave(client, how).await;
            engine.wait_stats(|s| s.aborts == 1, BOUND).await.unwrap();
            let took = now.elapsed();
            if took < Duration::from_millis(5) { Ok(()) } else { Err(format!("{how:?}: {took:?}")) }
        })
        .await;
    }
}

#[tokio::test]
async fn while_waiting_for_the_first_token_streaming_or_not() {
    for how in ALL {
        for body in [completion(5), plain_completion(5)] {
            let engine = one_slot(Duration::from_secs(100)).await;
            let client = start_request(&engine, &body).await;
            engine.wait_stats(|s| s.running == 1, BOUND).await.unwrap();
            let now = Instant::now();
            let _rest = leave(client, how).await;
            expect_abort(&engine, now, true).await;
        }
    }
}

#[tokio::test]
async fn while_queued_and_the_place_in_the_queue_is_free() {
    for how in ALL {
        let engine = one_slot(Duration::from_secs(100)).await;
        let running = start_request(&engine, &completion(5)).await;
        engine.wait_stats(|s| s.running == 1, BOUND).await.unwrap();
        let queued = start_request(&engine, &completion(5)).await;
        engine.wait_stats(|s| s.waiting == 1, BOUND).await.unwrap();
        let _rest = leave(queued, how).await;
        engine
            .wait_stats(|s| s.waiting == 0 && s.running == 1 && s.aborts == 1, BOUND)
            .await
            .unwrap();
        drop(running);
        engine.wait_stats(|s| s.running == 0, BOUND).await.unwrap();
    }
}

#[tokio::test]
async fn while_a_fault_delays_or_stalls_the_answer() {
    for faults in ["delay-head=100s", "delay-first=100s", "stall-after=1", "opening-silence=100s"] {
        for body in [completion(5), plain_completion(5)] {
            if faults.starts_with("opening") && !body.contains("stream") {
                continue;
            }
            let engine = one_slot(Duration::ZERO).await;
            engine.set_fault(Faults::parse(faults).unwrap());
            let client = start_request(&engine, &body).await;
            // A delayed plain answer is generated, and so no longer in flight, while it is held.
            let generated = |s: &streamgate_loadtests::engine::StatsSnapshot| {
                s.tenants.get("t").is_some_and(|t| t.tokens_generated >= 5)
            };
            if body.contains("stream") {
                engine.wait_stats(|s| s.in_flight == 1, BOUND).await.unwrap();
            } else {
                engine.wait_stats(generated, BOUND).await.unwrap();
            }
            let aborts = u64::from(engine.stats().in_flight == 1);
            drop(client);
            let gone = |s: &streamgate_loadtests::engine::StatsSnapshot| {
                s.open_connections == 0 && s.in_flight == 0 && s.aborts == aborts
            };
            engine.wait_stats(gone, BOUND).await.unwrap();
        }
    }
}

#[tokio::test]
async fn while_the_body_is_still_coming() {
    let engine = one_slot(Duration::ZERO).await;
    let mut client = Client::connect(engine.addr()).await;
    let whole = request("POST", COMPLETIONS, &[("x-sim-tenant", "t")], &completion(5));
    client.send(&whole[..whole.len() - 5]).await;
    engine.wait_stats(|s| s.in_flight == 1, BOUND).await.unwrap();
    let now = Instant::now();
    drop(client);
    expect_abort(&engine, now, true).await;
}

#[tokio::test]
async fn while_the_client_does_not_read() {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let mut client = Client::connect(engine.addr()).await;
    let body = r#"{"prompt":"x","max_tokens":100000,"stream":true}"#;
    client.send(request("POST", COMPLETIONS, &[("x-sim-tenant", "t")], body)).await;
    // The socket's buffers fill up, and the count of tokens stands still.
    let mut tokens = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = engine.stats().tokens_generated;
        if now == tokens && now > 0 {
            break;
        }
        tokens = now;
    }
    assert!(tokens < 100_000);
    client.reset();
    engine.wait_stats(|s| s.aborts == 1 && s.in_flight == 0, BOUND).await.unwrap();
}

#[tokio::test]
async fn a_pipelined_request_is_no_close() {
    let engine = one_slot(Duration::from_millis(100)).await;
    let mut client = start_request(&engine, &completion(3)).await;
    client.send(request("GET", "/version", &[], "")).await;
    client.until(|raw| raw.windows(6).any(|w| w == b"0.32.0")).await;
    let text = String::from_utf8(client.raw).unwrap();
    assert!(text.find("[DONE]").unwrap() < text.find("{\"version\"").unwrap());
    assert_eq!((engine.stats().aborts, engine.stats().completed), (0, 1));
}

/// The calibrated replica frees an aborted sequence at its next step.
#[tokio::test]
async fn in_the_calibrated_replica() {
    for how in ALL {
        for body in [completion(5000), plain_completion(5000)] {
            let engine = Engine::start(EngineConfig {
                profile: Profile::Calibrated(StepModel { max_running: 1, ..StepModel::default() }),
                time_scale: 10.0,
                ..EngineConfig::default()
            })
            .await
            .unwrap();
            let client = start_request(&engine, &body).await;
            engine.wait_stats(|s| s.running == 1, BOUND).await.unwrap();
            let queued = start_request(&engine, &body).await;
            engine.wait_stats(|s| s.waiting == 1, BOUND).await.unwrap();
            let now = Instant::now();
            let _rest = (leave(queued, how).await, leave(client, how).await);
            engine.wait_stats(|s| s.aborts == 2 && s.in_flight == 0, BOUND).await.unwrap();
            for abort in engine.aborts() {
                assert!(abort.seen.saturating_duration_since(now) < SOON, "{abort:?}");
                // A step lasts about 5 ms at this scale.
                assert!(abort.latency < SOON, "{abort:?}");
            }
            assert_eq!((engine.stats().running, engine.stats().waiting), (0, 0));
            post(engine.addr(), COMPLETIONS, &[], &completion(1)).await;
        }
    }
}
