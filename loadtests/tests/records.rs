//! What the engine records: concurrency, tenants, statuses, requests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

mod common;

use std::time::Duration;

use common::{BOUND, Client, completion, get, plain_completion, post, request, text};
use streamgate_loadtests::engine::{Engine, EngineConfig, Faults, body_hash};

const COMPLETIONS: &str = "/v1/completions";

async fn slow() -> Engine {
    Engine::start(EngineConfig::instant(Duration::from_millis(10))).await.unwrap()
}

async fn begin(engine: &Engine, headers: &[(&str, &str)], body: &str) -> Client {
    let mut client = Client::connect(engine.addr()).await;
    client.send(request("POST", COMPLETIONS, headers, body)).await;
    client
}

#[tokio::test]
async fn concurrency_is_counted_in_total_and_for_each_tenant() {
    let engine = slow().await;
    let mut clients = Vec::new();
    for tenant in ["a", "a", "b"] {
        clients.push(begin(&engine, &[("x-sim-tenant", tenant)], &completion(20)).await);
    }
    for body in [
        r#"{"prompt":"x","max_tokens":20,"user":"c"}"#,
        r#"{"prompt":"x","max_tokens":20,"metadata":{"tenant":"c"}}"#,
        r#"{"prompt":"x","max_tokens":20,"metadata":{"user_id":"d"}}"#,
        r#"{"prompt":"x","max_tokens":20,"metadata":"d"}"#,
        r#"{"prompt":"x","max_tokens":20}"#,
    ] {
        clients.push(begin(&engine, &[], body).await);
    }
    engine.wait_stats(|s| s.in_flight == 8, BOUND).await.unwrap();
    for client in &mut clients {
        client.answer().await;
    }
    let stats = engine.stats();
    assert_eq!((stats.in_flight, stats.max_in_flight, stats.requests), (0, 8, 8));
    assert_eq!((stats.completed, stats.tokens_generated), (8, 160));
    let of = |tenant: &str| {
        let t = &stats.tenants[tenant];
        (t.max_in_flight, t.in_flight, t.requests, t.completed, t.tokens_generated)
    };
    assert_eq!([of("a"), of("c"), of("d")], [(2, 0, 2, 2, 40); 3]);
    assert_eq!([of("b"), of("")], [(1, 0, 1, 1, 20); 2]);
}

/// Whoever has seen the end of a stream may start the next request at once: the engine must not
/// count both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_series_are_never_counted_twice() {
    for config in [EngineConfig::default(), EngineConfig::calibrated(2000.0)] {
        let engine = Engine::start(config).await.unwrap();
        let mut client = Client::connect(engine.addr()).await;
        for body in [completion(3), plain_completion(3)] {
            for _ in 0..100 {
                client.send(request("POST", COMPLETIONS, &[], &body)).await;
                // The connection is not used up to its end: the finish is enough.
                let finish = |raw: &[u8]| raw.windows(8).any(|w| w == b"\"length\"");
                client.until(finish).await;
                let mut other = begin(&engine, &[], &body).await;
                other.answer().await;
                client.answer().await;
            }
        }
        assert_eq!((engine.stats().max_in_flight, engine.stats().completed), (1, 400));
    }
}

#[tokio::test]
async fn a_request_that_fails_leaves_nothing_in_flight() {
    let engine =
        Engine::start(EngineConfig { body_limit: 1000, ..EngineConfig::default() }).await.unwrap();
    for body in ["{", "{}", r#"{"model":"nope","prompt":"x"}"#, r#"{"prompt":""}"#] {
        assert!(post(engine.addr(), COMPLETIONS, &[], body).await.status() >= 400);
    }
    let big = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(2000));
    assert_eq!(post(engine.addr(), COMPLETIONS, &[], &big).await.status(), 413);
    for fault in ["status=503", "drain-500", "cut=before-head", "cut=events:1", "error-after=1"] {
        engine.set_fault(Faults::parse(fault).unwrap());
        let mut client = begin(&engine, &[], &completion(3)).await;
        client.answer().await;
    }
    let stats = engine.wait_stats(|s| s.in_flight == 0, BOUND).await.unwrap();
    assert_eq!((stats.requests, stats.completed, stats.aborts, stats.max_in_flight), (10, 0, 0, 1));
    let statuses: Vec<(u16, u64)> = stats.by_status.into_iter().collect();
    assert_eq!(statuses, [(200, 2), (400, 3), (404, 1), (413, 1), (500, 1), (503, 1)]);
}

#[tokio::test]
async fn requests_are_kept_as_they_arrived() {
    let engine = slow().await;
    let body = completion(1);
    let headers = [("X-Odd-Case", "Value"), ("x-sim-tenant", "a")];
    post(engine.addr(), "/v1/completions?x=1", &headers, &body).await;
    get(engine.addr(), "/health").await;
    let requests = engine.requests();
    let first = &requests[0];
    assert_eq!((first.method.as_str(), first.path.as_str()), ("POST", COMPLETIONS));
    assert_eq!((first.query.as_str(), first.status), ("x=1", Some(200)));
    assert_eq!(first.headers[1], ("X-Odd-Case".into(), "Value".into()));
    assert_eq!(first.header("x-odd-case"), Some("Value"));
    assert_eq!(first.body.as_deref(), Some(body.as_bytes()));
    assert_eq!(first.body_hash, Some(format!("{:016x}", body_hash(body.as_bytes()))));
    assert_eq!(first.tenant.as_deref(), Some("a"));
    assert_eq!((requests[1].path.as_str(), requests[1].body_len), ("/health", None));
    assert_ne!(first.connection, requests[1].connection);
}

#[tokio::test]
async fn only_the_last_thousand_requests_are_kept() {
    let engine = slow().await;
    let mut client = Client::connect(engine.addr()).await;
    for _ in 0..1003 {
        client.send(request("GET", "/health", &[], "")).await;
        client.answer().await;
    }
    let requests = engine.requests();
    assert_eq!((requests.len(), requests[0].seq, requests[999].seq), (1000, 3, 1002));
    assert_eq!(engine.stats().other_by_status[&200], 1003);
}

#[tokio::test]
async fn the_same_is_readable_over_http() {
    let engine = slow().await;
    let addr = engine.addr();
    post(addr, COMPLETIONS, &[("x-sim-tenant", "a")], &completion(2)).await;
    let stats: serde_json::Value =
        serde_json::from_str(&text(&get(addr, "/sim/stats").await)).unwrap();
    assert_eq!(stats["max_in_flight"], 1);
    assert_eq!(stats["phase"], "serving");
    assert_eq!(stats["by_status"]["200"], 1);
    assert_eq!(stats["tenants"]["a"]["tokens_generated"], 2);
    let requests: serde_json::Value =
        serde_json::from_str(&text(&get(addr, "/sim/requests").await)).unwrap();
    assert_eq!(requests.as_array().unwrap().len(), 1, "its own paths are not recorded");
    assert_eq!(requests[0]["headers"][1], serde_json::json!(["x-sim-tenant", "a"]));
    assert_eq!(get(addr, "/sim/nothing").await.status(), 404);
}

#[tokio::test]
async fn a_reset_keeps_what_is_in_flight() {
    let engine = slow().await;
    let mut client = begin(&engine, &[("x-sim-tenant", "a")], &completion(30)).await;
    engine.wait_stats(|s| s.tokens_generated > 2, BOUND).await.unwrap();
    post(engine.addr(), "/sim/reset", &[], "").await;
    let stats = engine.stats();
    assert_eq!((stats.requests, stats.in_flight, stats.max_in_flight), (0, 1, 1));
    assert_eq!((stats.tenants["a"].requests, stats.tenants["a"].in_flight), (0, 1));
    assert!(engine.requests().is_empty());
    client.answer().await;
    let stats = engine.stats();
    assert_eq!((stats.in_flight, stats.completed), (0, 1));
    assert!(stats.tokens_generated < 30);
}

#[tokio::test]
async fn waiting_for_figures_gives_up_with_the_last_ones() {
    let engine = slow().await;
    let bound = Duration::from_millis(50);
    let error = engine.wait_stats(|s| s.requests == 1, bound).await.unwrap_err();
    assert_eq!((error.bound, error.last.requests), (bound, 0));
}
