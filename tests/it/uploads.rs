//! The memory of request bodies is bounded, and shared fairly between tenants.

use crate::support::request::Request;
use crate::support::wire::{Answer, Ending, Wire};
use crate::support::{Api, BOUND, Call, Gate, Leave, Proto, Setup, ask, eventually};
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};

/// One body may have 1 MiB, all together 4 MiB, so those of one tenant alone 2 MiB.
const LIMITS: &str = "limits: {body: 1MiB, bodies: 4MiB}";
/// Two of a tenant fit, three do not.
const BODY: usize = 900 * 1024;

async fn rig(tenant: &str) -> (Engine, Gate) {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(5))).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", tenant).tenant("b", "max_in_flight: 4");
    (engine, Gate::start(setup.with(LIMITS)).await)
}

/// A chat request with a large body.
fn large(tenant: &str, tokens: u32) -> Request {
    // Not in the prompt, which is limited by the model.
    let padding = serde_json::json!({"metadata": {"padding": "x".repeat(BODY)}});
    Api::Chat.stream_with(tokens, padding).of(tenant)
}

/// All but the end of an upload, and that end.
fn halves(mut bytes: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let end = bytes.split_off(bytes.len() - 10);
    (bytes, end)
}

fn assert_refused(answer: &Answer, status: u16, reason: &str) {
    assert_eq!((answer.status, answer.reason()), (status, Some(reason)), "{}", answer.text());
    assert!(answer.headers.contains_key("retry-after") && answer.ending == Ending::Whole);
}

/// What the gate says to a client that asks before it sends its body. It takes no room.
async fn asks(gate: &Gate) -> String {
    let polite = large("a", 1).header("expect", "100-continue");
    let mut wire = Wire::connect(gate.proxy).await;
    wire.send(&polite.head(&format!("content-length: {}\r\n", polite.body().len()))).await;
    wire.more().await.unwrap();
    String::from_utf8(wire.take_buffered(12)).unwrap()
}

/// Wait until what was sent so far leaves tenant `a` no room.
async fn until_full(gate: &Gate) {
    let full = || async { (asks(gate).await == "HTTP/1.1 429").then_some(()) };
    eventually("no room for another body", full).await;
}

#[tokio::test]
async fn a_tenant_that_floods_with_uploads_keeps_nobody_else_out() {
    let (engine, gate) = rig("max_in_flight: 4").await;
    let (with_length, end) = halves(large("a", 1).bytes());
    let (in_chunks, last_chunk) = halves(large("a", 1).chunked(8192));
    let mut first = Wire::connect(gate.proxy).await;
    first.send(&with_length).await;
    let mut second = Wire::connect(gate.proxy).await;
    second.send(&in_chunks).await;
    until_full(&gate).await;

    // Announced or not, over either protocol: refused without waiting for the rest.
    for n in 0..10 {
        let (begun, _) = halves(match n % 2 {
            0 => large("a", 1).bytes(),
            _ => large("a", 1).chunked(8192),
        });
        let mut wire = Wire::connect(gate.proxy).await;
        assert_refused(&wire.duplex(&begun).await, 429, "queue_full");
    }
    let answer = ask(Proto::H2c, gate.proxy, &large("a", 1)).await;
    assert_refused(&answer, 429, "queue_full");
    assert_eq!(
        answer.headers["ratelimit-policy"],
        r#""request-bodies";q=2097152;qu="content-bytes""#
    );
    // A small one of the same tenant, and a large one of another, come in.
    assert_eq!(gate.answer(&Api::Chat.stream(1)).await.status, 200);
    for proto in Proto::ALL {
        assert_eq!(ask(proto, gate.proxy, &large("b", 1)).await.status, 200);
    }

    first.send(&end).await;
    assert_eq!(first.answer().await.status, 200);
    assert_eq!(gate.answer(&large("a", 1)).await.status, 200, "its room is free again");
    second.send(&last_chunk).await;
    assert_eq!(second.answer().await.status, 200);
    assert_eq!(gate.settled().await.outcome("failed"), 0.0);
    assert_eq!(engine.stats().in_flight, 0);
}

#[tokio::test]
async fn uploads_that_are_given_up_leave_their_room() {
    let (_engine, gate) = rig("max_in_flight: 4").await;
    for round in 0..5 {
        let mut uploads = Vec::new();
        for n in 0..2 {
            let mut wire = Wire::connect(gate.proxy).await;
            let request = large("a", 1).id(&format!("upload-{round}-{n}"));
            wire.send(&halves(request.bytes()).0).await;
            uploads.push(wire);
        }
        until_full(&gate).await;
        for (n, wire) in uploads.into_iter().enumerate() {
            if round % 2 == 0 {
                wire.reset();
            } else {
                drop(wire);
            }
            let line = gate.line_of(&format!("upload-{round}-{n}")).await;
            assert_eq!(line["outcome"], "client_cancelled");
        }
    }
    assert_eq!(gate.answer(&large("a", 1)).await.status, 200);
    gate.settled().await;
}

/// Those who wait in a queue keep their bodies; those that an engine has answered do not.
#[tokio::test]
async fn bodies_of_queued_requests_count_until_an_engine_has_answered() {
    let queue = "max_in_flight: 1\non_limit: queue\nqueue: {max_depth: 20, max_wait: 60s}";
    let (engine, gate) = rig(queue).await;
    let mut running = Call::start(Proto::H1, gate.proxy, &large("a", 100_000)).await;
    assert_eq!(running.head().await.unwrap().0, 200);
    let mut waiting = Vec::new();
    for n in 1..=2 {
        waiting.push(Call::start(Proto::H1, gate.proxy, &large("a", 1)).await);
        let queued = f64::from(n);
        gate.metrics_when("it waits", |m| m.sum("streamgate_queued") == queued).await;
    }
    let answer = Wire::connect(gate.proxy).await.duplex(&large("a", 1).bytes()).await;
    assert_refused(&answer, 429, "queue_full");
    assert!(answer.text().contains("request bodies"), "{}", answer.text());
    assert_eq!(gate.answer(&large("b", 1)).await.status, 200);

    running.leave(Leave::Close).await;
    for mut call in waiting {
        assert_eq!(call.answer().await.status, 200);
    }
    assert_eq!(gate.answer(&large("a", 1)).await.status, 200);
    engine.wait_stats(|stats| stats.in_flight == 0, BOUND).await.unwrap();
    gate.settled().await;
}

/// When every tenant together fills the memory it is ours to answer for.
#[tokio::test]
async fn what_all_tenants_hold_is_not_one_tenants_fault() {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(5))).await.unwrap();
    let mut setup = Setup::new(&[engine.addr()]);
    for tenant in ["a", "b", "c", "d"] {
        setup = setup.tenant(tenant, "max_in_flight: 4");
    }
    let gate = Gate::start(setup.with("limits: {body: 1MiB, bodies: 2MiB}")).await;
    let mut held = Vec::new();
    for tenant in ["a", "b"] {
        // Half of it, then half of what is left.
        let size = if tenant == "a" { 1000 } else { 500 } * 1024;
        let mut wire = Wire::connect(gate.proxy).await;
        let mut begun = large(tenant, 1).head("content-length: 1048576\r\n");
        if tenant == "b" {
            begun = large(tenant, 1).head("transfer-encoding: chunked\r\n");
            begun.extend(b"100000\r\n");
        }
        begun.extend(vec![b' '; size]);
        wire.send(&begun).await;
        held.push(wire);
    }
    eventually("no room for a third", || async {
        let answer = Wire::connect(gate.proxy).await.duplex(&large("c", 1).bytes()).await;
        (answer.status == 503).then(|| assert_refused(&answer, 503, "pool_saturated"))
    })
    .await;
    assert_eq!(gate.answer(&Api::Chat.stream(1).of("d")).await.status, 200, "a small one fits");
}

/// Nobody fills the memory without a key.
#[tokio::test]
async fn without_a_key_no_body_is_read() {
    let (_engine, gate) = rig("max_in_flight: 4").await;
    for request in [large("nobody", 1), large("a", 1).without_key()] {
        let mut wire = Wire::connect(gate.proxy).await;
        wire.send(&request.head("content-length: 1000000\r\n")).await;
        let answer = wire.answer().await;
        assert_eq!((answer.status, answer.reason()), (401, Some("unauthenticated")));
    }
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("rejected"), 2.0);
}
