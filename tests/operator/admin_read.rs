//! Calls of the admin port that read.

use crate::exposition::Exposition;
use crate::server::{Server, json};
use reqwest::StatusCode;
use serde_json::json;
use streamgate::core::endpoint_drain_port::BoardStatus;
use streamgate::core::ids::{RequestId, TenantId};
use streamgate::core::observe::DrainPhase;
use streamgate::core::quota::StoreFault;

#[tokio::test]
async fn probes_tell_life_from_readiness() {
    let server = Server::start().await;
    let live = server.get("/livez").await;
    assert_eq!(
        (live.status(), live.text().await.expect("a body")),
        (StatusCode::OK, "ok\n".into())
    );
    let ready = server.get("/readyz").await;
    assert_eq!(ready.status(), StatusCode::OK);
    assert_eq!(json(ready).await, json!({"ready": true, "state": "serving"}));
    for phase in DrainPhase::ALL.into_iter().skip(1) {
        server.seen.with(|values| values.drain = phase);
        let ready = server.get("/readyz").await;
        assert_eq!(ready.status(), StatusCode::SERVICE_UNAVAILABLE, "{phase:?}");
        assert_eq!(json(ready).await, json!({"ready": false, "state": phase.as_str()}));
        assert_eq!(server.get("/livez").await.status(), StatusCode::OK, "{phase:?}");
    }
}

#[tokio::test]
async fn state_shows_every_owner() {
    let server = Server::start().await;
    let mut running = server.telemetry.arrive(&TenantId::from("a"), RequestId::from("r"));
    running.admitted();
    let _waiting = server.telemetry.arrive(&TenantId::from("a"), RequestId::from("r"));
    let state = json(server.get("/api/v1/state").await).await;
    assert_eq!((&state["version"], &state["uptime_seconds"]), (&json!("1.2.3"), &json!(12.5)));
    let mut a = state["tenants"][0].clone();
    let outcomes = a.as_object_mut().and_then(|a| a.remove("outcomes")).expect("outcomes");
    assert_eq!(outcomes.as_object().map(serde_json::Map::len), Some(8));
    assert_eq!(
        a,
        json!({
            "tenant": "a", "limit": 4, "mode": "enforce", "in_flight": 1,
            "fleet_in_flight": 2, "queued": 1, "arrivals": 2
        })
    );
    let endpoint = json!({"endpoint": "127.0.0.1:8002", "state": "draining", "in_flight": 1});
    assert_eq!(state["pools"][0]["endpoints"][1], endpoint);
    assert_eq!(state["store"]["kind"], "memory");
    assert_eq!(state["drain"]["state"], "serving");
    assert_eq!(state["endpoint_drains"], json!([]));
    assert_eq!(state["drain_board"], json!({"up": true, "last_fault": null}));
    let last_fault = Some(StoreFault::ForeignData);
    server.seen.with(|values| values.board = BoardStatus { up: false, last_fault });
    let state = json(server.get("/api/v1/state").await).await;
    assert_eq!(state["drain_board"], json!({"up": false, "last_fault": "foreign_data"}));
}

#[tokio::test]
async fn holders_are_listed() {
    let server = Server::start().await;
    let holders = json(server.get("/api/v1/holders").await).await;
    let first = json!({
        "request_id": "r-1", "tenant": "a", "model": "big", "endpoint": "127.0.0.1:8001",
        "age_seconds": 1.5, "tokens": 42
    });
    assert_eq!((holders.as_array().map(Vec::len), &holders[0]), (Some(2), &first));
}

#[tokio::test]
async fn metrics_are_the_exposition() {
    let server = Server::start().await;
    drop(server.telemetry.arrive(&TenantId::from("a"), RequestId::from("r")));
    let response = server.get("/metrics").await;
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let scrape = Exposition::parse(&response.text().await.expect("a body"));
    assert!(scrape.value("streamgate_arrivals_total", &[("tenant", "a")]) > 0.5);
    assert!(scrape.imbalance("a").abs() < f64::EPSILON);
}

#[tokio::test]
async fn what_is_not_there_is_said_in_json() {
    let server = Server::start().await;
    for (method, path) in [
        ("GET", "/api/v1/nothing"),
        ("POST", "/"),
        ("GET", "/api/v1/drain"),
        ("POST", "/prestop"),
        ("DELETE", "/api/v1/state"),
        ("GET", "/api/v1/holders/r-1"),
        ("OPTIONS", "/api/v1/drain"),
    ] {
        let missing = path == "/api/v1/nothing";
        let answer = server.request(method, path).send().await.expect("an answer");
        let expected = if missing { StatusCode::NOT_FOUND } else { StatusCode::METHOD_NOT_ALLOWED };
        assert_eq!(answer.status(), expected, "{method} {path}");
        assert_eq!(answer.headers().contains_key("allow"), !missing, "{method} {path}");
        let kind = if missing { "not_found" } else { "method_not_allowed" };
        let body = json(answer).await;
        assert_eq!(body["error"], kind, "{method} {path}");
        assert!(body["message"].is_string());
    }
    assert_eq!(server.seen.with(|values| values.drain), DrainPhase::Serving);
}

#[tokio::test]
async fn head_answers_without_a_body() {
    let server = Server::start().await;
    for path in ["/", "/livez", "/readyz", "/metrics", "/api/v1/state", "/api/v1/holders"] {
        let answer = server.request("HEAD", path).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        assert!(answer.headers().contains_key("content-type"), "{path}");
        assert_eq!(answer.bytes().await.expect("an end").len(), 0, "{path}");
    }
}

#[tokio::test]
async fn answers_are_of_this_moment_and_of_their_type() {
    let server = Server::start().await;
    for path in ["/", "/livez", "/metrics", "/api/v1/state", "/nothing"] {
        let answer = server.get(path).await;
        assert_eq!(answer.headers()["cache-control"], "no-store", "{path}");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff", "{path}");
        assert!(!answer.headers().contains_key("access-control-allow-origin"), "{path}");
    }
}

#[tokio::test]
async fn the_page_allows_nothing_but_itself() {
    let server = Server::start().await;
    let nonce = |policy: &str| {
        let start = policy.find("'nonce-").expect("a nonce") + "'nonce-".len();
        policy[start..start + 32].to_owned()
    };
    let first = server.get("/").await;
    assert_eq!(first.headers()["content-type"], "text/html; charset=utf-8");
    let policy = first.headers()["content-security-policy"].to_str().expect("text").to_owned();
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    let page = first.text().await.expect("a body");
    assert!(page.contains(&format!("<script nonce=\"{}\">", nonce(&policy))));
    let second = server.get("/").await;
    let policy_2 = second.headers()["content-security-policy"].to_str().expect("text").to_owned();
    assert_ne!(nonce(&policy), nonce(&policy_2), "a nonce is used once");
}
