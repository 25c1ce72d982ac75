//! SIGTERM, preStop and what clients see of them: LameDuck → Draining → Drained | Cut.

use crate::support::wire::{Ending, Request, Wire, chat};
use crate::support::{Gate, Setup, eventually};
use serde_json::Value;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};
use streamgate_loadtests::engine::{Engine, EngineConfig};

/// Slow enough that a test can act between two events.
const SLOW: Duration = Duration::from_millis(20);

async fn slow_engine() -> Engine {
    Engine::start(EngineConfig::instant(SLOW)).await.unwrap()
}

async fn gate(engine: &Engine, tenant: &str, drain: &str) -> Gate {
    let setup = Setup::new(&[engine.addr()]).tenant("a", tenant);
    Gate::start(setup.with(&format!("drain: {drain}"))).await
}

/// A stream whose first content has arrived.
async fn streaming(gate: &Gate, tokens: u32) -> Wire {
    let mut wire = Wire::connect(gate.proxy).await;
    let request = Request::post("/v1/chat/completions", "a", chat(tokens, true));
    wire.send(&request.bytes()).await;
    assert_eq!(wire.head().await.unwrap().0, 200);
    wire.until("content").await;
    wire
}

/// The rest of a stream and how it ended.
async fn rest(wire: &mut Wire) -> (String, Ending) {
    let mut text = String::new();
    loop {
        match wire.chunk().await {
            Ok(Some(chunk)) => text.push_str(&String::from_utf8_lossy(&chunk)),
            Ok(None) => return (text, Ending::Whole),
            Err(ending) => return (text, ending),
        }
    }
}

async fn phase(gate: &Gate) -> String {
    gate.state().await["drain"]["state"].as_str().unwrap().to_owned()
}

async fn status_of(url: String) -> u16 {
    reqwest::get(url).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn an_idle_replica_ends_with_code_0_after_the_propagation() {
    let engine = slow_engine().await;
    let drain = "{propagation: 300ms, deadline: 20s, cut_margin: 1s}";
    let mut gate = gate(&engine, "max_in_flight: 1", drain).await;
    let began = Instant::now();
    gate.signal("TERM");
    assert_eq!(gate.exit_code().await, Some(0));
    assert!(began.elapsed() >= Duration::from_millis(300), "the propagation is served out");
}

#[tokio::test]
async fn a_lame_duck_says_so_and_still_serves() {
    let engine = slow_engine().await;
    let drain = "{propagation: 15s, deadline: 60s, cut_margin: 1s}";
    let gate = gate(&engine, "max_in_flight: 4", drain).await;
    let mut kept = Wire::connect(gate.proxy).await;
    let request = Request::post("/v1/chat/completions", "a", chat(2, true));
    assert_eq!(kept.call(&request).await.headers["connection"], "keep-alive");
    assert_eq!(status_of(gate.admin_url("/readyz")).await, 200);

    gate.signal("TERM");
    eventually("not ready", || async {
        (status_of(gate.admin_url("/readyz")).await == 503).then_some(())
    })
    .await;
    assert_eq!(status_of(gate.admin_url("/livez")).await, 200);
    assert_eq!(phase(&gate).await, "lame_duck");

    // A connection from before and a new one are both served, and told to go.
    let old = kept.call(&request).await;
    let new = Wire::connect(gate.proxy).await.call(&request).await;
    for answer in [old, new] {
        assert_eq!((answer.status, answer.ending), (200, Ending::Whole));
        assert_eq!(answer.headers["connection"], "close");
    }
    assert!(kept.closed().await);
}

#[tokio::test]
async fn a_draining_replica_refuses_the_new_and_completes_the_old() {
    let engine = slow_engine().await;
    let drain = "{propagation: 0s, deadline: 60s, cut_margin: 1s}";
    let mut gate = gate(&engine, "max_in_flight: 4", drain).await;
    // Idle for the whole drain, which does not wait for it.
    let mut idle = Wire::connect(gate.proxy).await;
    let mut running = streaming(&gate, 60).await;
    gate.signal("TERM");
    eventually("draining", || async { (phase(&gate).await == "draining").then_some(()) }).await;

    let request = Request::post("/v1/chat/completions", "a", chat(2, true));
    let refused = Wire::connect(gate.proxy).await.call(&request).await;
    assert_eq!((refused.status, refused.reason()), (503, Some("draining")));
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(refused.headers["connection"], "close");
    assert_eq!(engine.stats().requests, 1, "the refused one cost nothing");

    let (text, ending) = rest(&mut running).await;
    assert_eq!(ending, Ending::Whole);
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    assert_eq!(gate.exit_code().await, Some(0));
    assert!(idle.closed().await);
}

#[tokio::test]
async fn what_outlives_the_deadline_is_cut_and_told() {
    let engine = slow_engine().await;
    let drain = "{propagation: 0s, deadline: 2s, cut_margin: 1s}";
    let mut gate = gate(&engine, "max_in_flight: 4", drain).await;
    let mut running = streaming(&gate, 100_000).await;
    gate.signal("TERM");
    let (text, ending) = rest(&mut running).await;
    assert_ne!(ending, Ending::Whole, "{text}");
    assert!(!text.contains("[DONE]"));
    let event = text.rsplit_once("event: error\ndata: ").unwrap().1;
    let error: Value = serde_json::from_str(event.trim()).unwrap();
    assert_eq!(error["error"]["code"], "draining");
    assert_eq!(gate.exit_code().await, Some(2));
    let lines = eventually("the log line", || {
        std::future::ready(Some(gate.request_lines()).filter(|lines| !lines.is_empty()))
    })
    .await;
    let outcomes: Vec<_> = lines.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["drain_cut"]);
    engine.wait_stats(|stats| stats.in_flight == 0, Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn a_second_signal_cuts_at_once() {
    let engine = slow_engine().await;
    let drain = "{propagation: 5s, deadline: 600s, cut_margin: 1s}";
    let mut gate = gate(&engine, "max_in_flight: 4", drain).await;
    let mut running = streaming(&gate, 100_000).await;
    gate.signal("TERM");
    eventually("leaving", || async { (phase(&gate).await != "serving").then_some(()) }).await;
    gate.signal("TERM");
    let (text, ending) = rest(&mut running).await;
    assert_ne!(ending, Ending::Whole);
    assert!(text.contains("event: error"));
    assert_eq!(gate.exit_code().await, Some(2));
}

#[tokio::test]
async fn those_who_queue_are_answered() {
    let engine = slow_engine().await;
    let drain = "{propagation: 0s, deadline: 60s, cut_margin: 1s}";
    let tenant = "max_in_flight: 1\non_limit: queue\nqueue: {max_depth: 8, max_wait: 50s}";
    let mut gate = gate(&engine, tenant, drain).await;
    let mut running = streaming(&gate, 60).await;
    let request = Request::post("/v1/chat/completions", "a", chat(2, true));
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let mut wire = Wire::connect(gate.proxy).await;
        wire.send(&request.bytes()).await;
        waiting.push(wire);
    }
    gate.metrics_when("three queued", |metrics| metrics.sum("streamgate_queued") == 3.0).await;
    gate.signal("TERM");
    for mut wire in waiting {
        let answer = wire.answer().await;
        assert_eq!((answer.status, answer.reason()), (503, Some("draining")));
    }
    assert_eq!(rest(&mut running).await.1, Ending::Whole);
    assert_eq!(gate.exit_code().await, Some(0));
}

#[tokio::test]
async fn prestop_blocks_until_drained_and_the_signal_then_ends_at_once() {
    let engine = slow_engine().await;
    let drain = "{propagation: 0s, deadline: 60s, cut_margin: 1s}";
    let mut gate = gate(&engine, "max_in_flight: 4", drain).await;
    let mut running = streaming(&gate, 60).await;
    let prestop = tokio::spawn(reqwest::get(gate.admin_url("/prestop?wait=50s")));
    eventually("draining", || async { (phase(&gate).await == "draining").then_some(()) }).await;
    assert!(!prestop.is_finished(), "a stream still runs");
    assert_eq!(rest(&mut running).await.1, Ending::Whole);
    assert_eq!(prestop.await.unwrap().unwrap().status(), 200);
    assert_eq!(phase(&gate).await, "drained");
    gate.signal("TERM");
    assert_eq!(gate.exit_code().await, Some(0));
}

#[tokio::test]
async fn a_prestop_whose_wait_is_over_names_what_is_left() {
    let engine = slow_engine().await;
    let drain = "{propagation: 0s, deadline: 60s, cut_margin: 1s}";
    let gate = gate(&engine, "max_in_flight: 4", drain).await;
    let running = streaming(&gate, 100_000).await;
    let answer = reqwest::get(gate.admin_url("/prestop?wait=50ms")).await.unwrap();
    assert_eq!(answer.status(), 504);
    let report: Value = answer.json().await.unwrap();
    assert_eq!(report["in_flight"], 1);
    assert_eq!(report["left"][0]["tenant"], "a");
    drop(running);
}

/// An upload of which the last bytes are still to come.
async fn uploading(gate: &Gate) -> Wire {
    let bytes = Request::post("/v1/chat/completions", "a", chat(2, true)).bytes();
    let mut wire = Wire::connect(gate.proxy).await;
    wire.send(&bytes[..bytes.len() - 10]).await;
    wire
}

#[tokio::test]
async fn an_upload_that_outlives_the_deadline_is_answered() {
    let engine = slow_engine().await;
    let drain = "{propagation: 0s, deadline: 4s, cut_margin: 3s}";
    let mut gate = gate(&engine, "max_in_flight: 4", drain).await;
    let mut wire = uploading(&gate).await;
    // The head has been read once another connection, accepted later, was served.
    let other = Request::get("/v1/models", "a");
    assert_eq!(Wire::connect(gate.proxy).await.call(&other).await.status, 200);
    gate.signal("TERM");
    let answer = wire.answer().await;
    assert_eq!((answer.status, answer.reason()), (503, Some("draining")));
    assert!(answer.headers.contains_key("retry-after"));
    gate.exit_code().await;
    let lines = gate.request_lines();
    assert_eq!(lines.len(), 2);
    let line = &lines[1];
    assert_eq!((&line["outcome"], &line["tenant"]), (&"rejected".into(), &"a".into()));
}

#[tokio::test]
async fn an_upload_that_comes_while_draining_is_refused_before_its_end() {
    let engine = slow_engine().await;
    let drain = "{propagation: 0s, deadline: 60s, cut_margin: 1s}";
    let gate = gate(&engine, "max_in_flight: 4", drain).await;
    let running = streaming(&gate, 100_000).await;
    gate.signal("TERM");
    eventually("draining", || async { (phase(&gate).await == "draining").then_some(()) }).await;
    let answer = uploading(&gate).await.answer().await;
    assert_eq!((answer.status, answer.reason()), (503, Some("draining")));
    assert_eq!(answer.headers["connection"], "close");
    drop(running);
}

#[tokio::test]
async fn an_upload_under_way_is_answered() {
    let engine = slow_engine().await;
    let drain = "{propagation: 0s, deadline: 60s, cut_margin: 1s}";
    let mut gate = gate(&engine, "max_in_flight: 4", drain).await;
    let bytes = Request::post("/v1/chat/completions", "a", chat(2, true)).bytes();
    let (most, rest) = bytes.split_at(bytes.len() - 10);
    let mut wire = Wire::connect(gate.proxy).await;
    wire.send(most).await;
    // The head has been read once another connection, accepted later, was served.
    let other = Request::get("/v1/models", "a");
    assert_eq!(Wire::connect(gate.proxy).await.call(&other).await.status, 200);
    gate.signal("TERM");
    eventually("draining", || async { (phase(&gate).await == "draining").then_some(()) }).await;
    wire.send(rest).await;
    let answer = wire.answer().await;
    assert_eq!((answer.status, answer.reason()), (503, Some("draining")));
    assert_eq!(gate.exit_code().await, Some(0));
    let lines = eventually("the log lines", || {
        std::future::ready(Some(gate.request_lines()).filter(|lines| lines.len() == 2))
    });
    assert_eq!(lines.await[1]["outcome"], "rejected");
}

/// A stream that began before the drain did not announce the end of its connection.
#[tokio::test]
async fn the_end_of_a_stream_carries_the_close_of_its_connection() {
    let engine = slow_engine().await;
    for propagation in ["0s", "15s"] {
        let drain = format!("{{propagation: {propagation}, deadline: 60s, cut_margin: 1s}}");
        let gate = gate(&engine, "max_in_flight: 4", &drain).await;
        let mut running = Wire::connect(gate.proxy).await;
        let request = Request::post("/v1/chat/completions", "a", chat(60, true));
        running.send(&request.bytes()).await;
        let (_, headers) = running.head().await.unwrap();
        assert_eq!(headers["connection"], "keep-alive");
        running.until("content").await;
        gate.signal("TERM");
        eventually("leaving", || async { (phase(&gate).await != "serving").then_some(()) }).await;
        let (text, ending) = rest(&mut running).await;
        assert_eq!(ending, Ending::Whole);
        assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
        // No wait: whoever has the last bytes knows of the close.
        let next = socket2::SockRef::from(&running.stream).peek(&mut [MaybeUninit::uninit()]);
        assert_eq!(next.unwrap(), 0, "{propagation}");
    }
}

#[tokio::test]
async fn what_a_client_sent_ahead_is_served_by_a_lame_duck() {
    let engine = slow_engine().await;
    let drain = "{propagation: 15s, deadline: 60s, cut_margin: 1s}";
    let gate = gate(&engine, "max_in_flight: 4", drain).await;
    let mut wire = streaming(&gate, 60).await;
    gate.signal("TERM");
    eventually("leaving", || async { (phase(&gate).await != "serving").then_some(()) }).await;
    wire.send(&Request::post("/v1/chat/completions", "a", chat(2, true)).bytes()).await;
    assert_eq!(rest(&mut wire).await.1, Ending::Whole);
    let answer = wire.answer().await;
    assert_eq!((answer.status, answer.ending), (200, Ending::Whole));
    assert_eq!(answer.headers["connection"], "close");
    assert!(wire.closed().await);
}

/// The next request of such a connection would be refused.
#[tokio::test]
async fn an_idle_connection_is_served_by_a_lame_duck_and_closed_by_a_draining_replica() {
    let engine = slow_engine().await;
    let drain = "{propagation: 700ms, deadline: 60s, cut_margin: 1s}";
    let gate = gate(&engine, "max_in_flight: 4", drain).await;
    let request = Request::post("/v1/chat/completions", "a", chat(2, true));
    let mut idle = Wire::connect(gate.proxy).await;
    assert_eq!(idle.call(&request).await.headers["connection"], "keep-alive");
    let mut running = streaming(&gate, 200).await;
    gate.signal("TERM");
    assert!(idle.closed().await);
    assert_eq!(phase(&gate).await, "draining");
    assert_eq!(rest(&mut running).await.1, Ending::Whole);
}
