//! Calls of the admin port that change something, and who may make them.

use crate::server::{DEFAULT_WAIT, Server, json};
use reqwest::{RequestBuilder, StatusCode};
use std::time::Duration;
use streamgate::admin::access::Access;
use streamgate::core::drain_port::DrainWait;
use streamgate::core::observe::DrainPhase;
use tokio::task::JoinHandle;

fn send(request: RequestBuilder) -> JoinHandle<reqwest::Response> {
    tokio::spawn(async { request.send().await.expect("an answer") })
}

async fn answer(request: RequestBuilder) -> (StatusCode, serde_json::Value) {
    let response = request.send().await.expect("an answer");
    (response.status(), json(response).await)
}

fn phase(server: &Server) -> DrainPhase {
    server.seen.with(|values| values.drain)
}

#[tokio::test]
async fn a_drain_call_blocks_until_drained() {
    for (method, path) in [("POST", "/api/v1/drain?wait=30s"), ("GET", "/prestop?wait=30s")] {
        let server = Server::start().await;
        let call = send(server.request(method, path));
        server.drain.waiters(1).await;
        assert_eq!(server.get("/readyz").await.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(!call.is_finished(), "{path} waits");
        server.drain.finish(DrainWait::Drained, DrainPhase::Drained);
        let response = call.await.expect("no panic");
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let body = json(response).await;
        assert_eq!((&body["drained"], &body["state"]), (&true.into(), &"drained".into()));
        assert_eq!((&body["in_flight"], &body["left"]), (&0.into(), &serde_json::json!([])));
        assert_eq!(*server.drain.asked.lock().expect("set"), Some(Duration::from_secs(30)));
    }
}

#[tokio::test]
async fn a_deadline_says_what_is_left() {
    let server = Server::start().await;
    let (status, body) = answer(server.request("POST", "/api/v1/drain?wait=20ms")).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!((&body["drained"], &body["in_flight"]), (&false.into(), &2.into()));
    assert_eq!(body["left"].as_array().map(Vec::len), Some(2));
    assert_eq!(body["left"][0]["request_id"], "r-1");
    assert!(body["waited_seconds"].as_f64().is_some_and(|waited| waited >= 0.02));
    server.drain.finish(DrainWait::TimedOut { in_flight: 1 }, DrainPhase::Cut);
    let (status, body) = answer(server.request("POST", "/api/v1/drain?wait=30s")).await;
    assert_eq!((status, &body["state"]), (StatusCode::GATEWAY_TIMEOUT, &"cut".into()));
}

#[tokio::test]
async fn without_a_wait_the_drain_deadline_holds() {
    let server = Server::start().await;
    let call = send(server.request("POST", "/api/v1/drain"));
    server.drain.waiters(1).await;
    assert_eq!(*server.drain.asked.lock().expect("set"), Some(DEFAULT_WAIT));
    call.abort();
}

#[tokio::test]
async fn a_caller_that_leaves_does_not_stop_the_drain() {
    let server = Server::start().await;
    let call = send(server.request("GET", "/prestop?wait=30s"));
    server.drain.waiters(1).await;
    call.abort();
    server.drain.waiters(0).await;
    assert_eq!(phase(&server), DrainPhase::LameDuck);
}

#[tokio::test]
async fn a_wait_that_is_no_duration_begins_nothing() {
    let server = Server::start().await;
    for query in ["wait=soon", "wait=", "wait=-1s", "wait=90m", "wait=150", "wait=1s&wait=2s"] {
        let (status, body) =
            answer(server.request("POST", &format!("/api/v1/drain?{query}"))).await;
        assert_eq!((status, &body["error"]), (StatusCode::BAD_REQUEST, &"bad_request".into()));
        assert!(body["message"].as_str().is_some_and(|text| text.contains("wait")), "{body}");
    }
    assert_eq!(phase(&server), DrainPhase::Serving);
}

#[tokio::test]
async fn a_holder_is_cut_once() {
    let server = Server::start().await;
    server.seen.with(|values| values.holders.push(crate::fake::holder("a/b c", "a")));
    for (path, left) in [("r-1", 2), ("a%2Fb%20c", 1)] {
        let path = format!("/api/v1/holders/{path}");
        let (status, body) = answer(server.request("DELETE", &path)).await;
        assert_eq!((status, &body["cut"]), (StatusCode::OK, &true.into()), "{path}");
        assert_eq!(server.seen.with(|values| values.holders.len()), left);
        let (status, body) = answer(server.request("DELETE", &path)).await;
        assert_eq!((status, &body["error"]), (StatusCode::NOT_FOUND, &"no_such_request".into()));
    }
}

/// Every call that changes something.
const CHANGES: [(&str, &str); 5] = [
    ("POST", "/api/v1/drain?wait=1ms"),
    ("GET", "/prestop?wait=1ms"),
    ("DELETE", "/api/v1/holders/r-1"),
    ("POST", "/api/v1/endpoints/10.0.0.7:8000/drain?wait=20ms"),
    ("DELETE", "/api/v1/endpoints/10.0.0.7:8000/drain"),
];

/// Nothing of the fakes was changed.
fn untouched(server: &Server) -> bool {
    phase(server) == DrainPhase::Serving && server.seen.with(|values| values.holders.len()) == 2
}

#[tokio::test]
async fn a_caller_from_elsewhere_needs_the_token() {
    let server = Server::with(Access::new(Some("t0ken"), false)).await;
    let call = |(method, path)| server.request(method, path).header("x-forwarded-for", "10.0.0.1");
    for change in CHANGES {
        let response = call(change).send().await.expect("an answer");
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{change:?}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        let wrong = call(change).bearer_auth("wrong").send().await.expect("an answer");
        assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED, "{change:?}");
    }
    assert!(untouched(&server));
    for change in CHANGES {
        let right = call(change).bearer_auth("t0ken").send().await.expect("an answer");
        assert!(!matches!(right.status().as_u16(), 401 | 403), "{change:?}");
    }
    assert!(!untouched(&server));
}

#[tokio::test]
async fn without_a_token_only_loopback_changes_and_all_may_read() {
    let server = Server::start().await;
    for (method, path) in CHANGES {
        let call = server.request(method, path).header("forwarded", "for=10.0.0.1");
        let (status, body) = answer(call).await;
        assert_eq!((status, &body["error"]), (StatusCode::FORBIDDEN, &"forbidden".into()));
    }
    assert!(untouched(&server));
    for path in ["/livez", "/readyz", "/metrics", "/api/v1/state", "/api/v1/holders", "/"] {
        let call = server.request("GET", path).header("x-forwarded-for", "10.0.0.1");
        assert_eq!(call.send().await.expect("an answer").status(), StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn a_page_in_the_operators_browser_changes_nothing() {
    let server = Server::start().await;
    for change in CHANGES {
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("host", "evil.example"),
        ] {
            let call = server.request(change.0, change.1).header(name, value);
            let status = call.send().await.expect("an answer").status();
            assert_eq!(status, StatusCode::FORBIDDEN, "{change:?} {name}: {value}");
        }
    }
    assert!(untouched(&server));
}

#[tokio::test]
async fn a_head_of_prestop_begins_nothing() {
    let server = Server::start().await;
    let answer = server.request("HEAD", "/prestop?wait=1ms").send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(untouched(&server));
}

#[tokio::test]
async fn the_kubelet_may_drain_if_told_so() {
    let server = Server::with(Access::new(None, true)).await;
    let elsewhere =
        |method, path| server.request(method, path).header("x-forwarded-for", "10.0.0.1");
    let (status, _) = answer(elsewhere("POST", "/api/v1/drain?wait=1ms")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(untouched(&server));
    let (status, _) = answer(elsewhere("GET", "/prestop?wait=1ms")).await;
    assert_eq!((status, phase(&server)), (StatusCode::GATEWAY_TIMEOUT, DrainPhase::LameDuck));
}
