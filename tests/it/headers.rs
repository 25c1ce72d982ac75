//! What of a head passes, in both directions.

use crate::support::call::{Call, ask};
use crate::support::request::{Request, chat};
use crate::support::scripted::Scripted;
use crate::support::wire::{Ending, Wire};
use crate::support::{Api, Gate, Proto, Setup, bounded, eventually};
use serde_json::Value;
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig, RecordedRequest};

async fn start() -> (Engine, Gate) {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(1))).await.unwrap();
    let gate = Gate::start(Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 4")).await;
    (engine, gate)
}

/// The one request that reached the engine since the last look.
fn seen(engine: &Engine) -> RecordedRequest {
    let requests = engine.requests();
    let mut requests = requests.into_iter().filter(|request| request.path != "/health");
    let (one, None) = (requests.next().expect("a request at the engine"), requests.next()) else {
        panic!("more than one request");
    };
    engine.reset_stats();
    one
}

const STEERING: [&str; 22] = [
    "x-tenant",
    "user",
    "target-pod",
    "target-pod-ip",
    "external-filter",
    "config-profile",
    "x-session-id",
    "routing-strategy",
    "X-Tenant",
    "USER",
    "Target-Pod",
    "target_pod",
    "target_pod_ip",
    "x_tenant",
    "routing_strategy",
    "x-error-user",
    "x-error-routing",
    "x-update-rpm",
    "x-update-tpm",
    "X_Update_Rpm",
    "x-streamgate-reason",
    "x_streamgate_anything",
];

#[tokio::test]
async fn a_client_cannot_steer_or_name_a_tenant() {
    let (engine, gate) = start().await;
    for proto in Proto::ALL {
        for name in STEERING {
            // HTTP/2 has no upper case in names.
            let name = if proto == Proto::H2c { name.to_lowercase() } else { name.to_owned() };
            let request = Api::Chat.plain(1).header(&name, "canary").header("x-fine", "kept");
            let answer = ask(proto, gate.proxy, &request.header(&name, "canary-2")).await;
            assert_eq!(answer.status, 200, "{name}");
            let seen = seen(&engine);
            assert!(!seen.headers.iter().any(|(_, value)| value.contains("canary")), "{name}");
            assert_eq!(seen.header("x-fine"), Some("kept"));
        }
    }
}

#[tokio::test]
async fn a_tenant_that_may_route_chooses_the_strategy_of_its_gateway() {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let setup = Setup::new(&[engine.addr()])
        .pool("kind: gateway")
        .tenant("a", "max_in_flight: 1\nmay_route: true")
        .tenant("b", "max_in_flight: 1");
    let gate = Gate::start(setup).await;
    for (tenant, passes) in [("a", Some("random")), ("b", None)] {
        let request = Request::post("/v1/chat/completions", tenant, chat(1, false));
        let request = request.header("routing-strategy", "random").header("target-pod", "x");
        assert_eq!(gate.answer(&request).await.status, 200);
        let seen = seen(&engine);
        assert_eq!(seen.header("routing-strategy"), passes, "{tenant}");
        assert_eq!(seen.header("target-pod"), None);
    }
}

#[tokio::test]
async fn what_ends_at_this_hop_does_not_reach_the_engine() {
    let (engine, gate) = start().await;
    let request = Api::Chat
        .plain(1)
        .header("connection", "keep-alive, x-hop, content-type, Authorization")
        .header("x-hop", "1")
        .header("keep-alive", "timeout=5")
        .header("proxy-connection", "keep-alive")
        .header("proxy-authorization", "Basic x")
        .header("te", "trailers")
        .header("trailer", "x-end")
        .header("upgrade", "websocket")
        .header("http2-settings", "AAMAAABkAAQAAP__")
        .header("accept-encoding", "gzip, br")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .header("x-many", "one")
        .header("x-many", "two")
        .header("user-agent", "OpenAI/Python 3.57");
    assert_eq!(gate.answer(&request).await.status, 200);
    let seen = seen(&engine);
    let mut names: Vec<_> = seen.headers.iter().map(|(name, _)| name.to_lowercase()).collect();
    names.sort();
    let passed = [
        "accept-encoding",
        "content-length",
        "content-type",
        "host",
        "traceparent",
        "user-agent",
        "x-many",
        "x-many",
        "x-request-id",
    ];
    assert_eq!(names, passed);
    // A compressed stream could not be read for its end.
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    assert_eq!(seen.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn what_ends_at_the_engine_or_tells_of_the_inside_does_not_reach_the_client() {
    let mut engine = Scripted::start().await;
    let gate = Gate::start(Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 4")).await;
    for proto in Proto::ALL {
        let mut call = Call::start(proto, gate.proxy, &Request::get("/v1/models", "a")).await;
        let mut taken = engine.next().await;
        taken
            .write(
                "HTTP/1.1 200 Fine\r\nserver: uvicorn\r\nset-cookie: a=1\r\nvary: Origin\r\n\
                 connection: keep-alive, x-secret\r\nkeep-alive: timeout=5\r\nx-secret: inside\r\n\
                 proxy-authenticate: Basic\r\ntrailer: x-t\r\nupgrade: h2c\r\ntarget-pod: inside\r\n\
                 target-pod-ip: inside\r\nTarget_Pod: inside\r\nrouting-strategy: inside\r\n\
                 x-update-rpm: inside\r\nx-error-routing: inside\r\nx-streamgate-reason: inside\r\n\
                 x-request-id: inside\r\nrequest-id: upstream-1\r\nretry-after: 3\r\n\
                 content-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
            )
            .await;
        let answer = call.answer().await;
        let mut names: Vec<_> = answer.headers.keys().map(String::as_str).collect();
        names.retain(|name| !["connection", "date"].contains(name));
        let passed = [
            "content-length",
            "content-type",
            "request-id",
            "retry-after",
            "server",
            "set-cookie",
            "vary",
            "x-request-id",
        ];
        assert_eq!(names, passed, "{proto:?}");
        assert!(!answer.headers.values().any(|value| value.contains("inside")), "{proto:?}");
        assert_eq!((answer.text().as_str(), answer.ending), ("{}", Ending::Whole));
    }
}

/// What a client may send as its request id, and whether it is taken.
fn ids() -> Vec<(String, bool)> {
    let taken = ["req-1", "A.b_c:9-", &"x".repeat(128)].map(|id| (id.to_owned(), true));
    let refused = ["", "a b", "a/b", "a\"b", "a;b", "ä", "<script>", &"x".repeat(129), "a,b"];
    taken.into_iter().chain(refused.map(|id| (id.to_owned(), false))).collect()
}

fn is_made_here(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[tokio::test]
async fn a_request_has_one_id_everywhere() {
    let (engine, gate) = start().await;
    for (sent, taken) in ids() {
        let answer = gate.answer(&Api::Chat.plain(1).id(&sent)).await;
        let id = &answer.headers["x-request-id"];
        assert_eq!(id == &sent, taken, "{sent}: {id}");
        assert!(taken || is_made_here(id), "{sent}: {id}");
        assert_eq!(seen(&engine).header("x-request-id"), Some(id.as_str()));
        assert_eq!(gate.line_of(id).await["outcome"], "complete");
    }
    let none = gate.answer(&Api::Chat.plain(1)).await;
    assert!(is_made_here(&none.headers["x-request-id"]));
    let twice = gate.answer(&Api::Chat.plain(1).id("one").id("two")).await;
    assert!(is_made_here(&twice.headers["x-request-id"]), "two ids are none");
    let refused = gate.answer(&Api::Messages.plain(1).without_key().id("mine")).await;
    assert_eq!(refused.headers["x-request-id"], "mine");
    // Anthropic's libraries look here.
    assert_eq!(refused.headers["request-id"], "mine");
    assert_eq!(refused.json()["request_id"], "mine");
    assert_eq!(gate.line_of("mine").await["reason"], "unauthenticated");
}

#[tokio::test]
async fn a_running_request_is_listed_by_its_id() {
    let (_engine, gate) = start().await;
    let request = Api::Chat.stream(20).id("listed-1").fault("stall-after=3");
    let mut call = Call::start(Proto::H1, gate.proxy, &request).await;
    assert_eq!(call.head().await.map(|(status, _)| status), Some(200));
    let listed = eventually("the request is listed", || async {
        let answer = reqwest::get(gate.admin_url("/api/v1/holders")).await.unwrap();
        let holders: Value = answer.json().await.unwrap();
        holders.as_array()?.iter().find(|holder| holder["request_id"] == "listed-1").cloned()
    })
    .await;
    assert_eq!(listed["tenant"], "a");
}

/// Ask in these bytes; what the engine saw.
async fn told(engine: &Engine, gate: &Gate, request: &str) -> RecordedRequest {
    let mut wire = Wire::connect(gate.proxy).await;
    wire.send(request.as_bytes()).await;
    let answer = wire.answer().await;
    assert_eq!(answer.status, 200, "{request}: {}", answer.text());
    seen(engine)
}

#[tokio::test]
async fn the_engine_is_asked_in_origin_form_with_one_host() {
    let (engine, gate) = start().await;
    let key = "authorization: Bearer key-a\r\n\r\n";
    let host = |seen: &RecordedRequest| seen.header("host").map(str::to_owned);

    let plain = format!("GET /v1/models?a=%2F&b=c+d HTTP/1.1\r\nhost: my.host:81\r\n{key}");
    let got = told(&engine, &gate, &plain).await;
    assert_eq!((got.path.as_str(), got.query.as_str()), ("/v1/models", "a=%2F&b=c+d"));
    assert_eq!(host(&got).as_deref(), Some("my.host:81"));

    let absolute =
        format!("GET http://my.host:81/v1/models?x=1 HTTP/1.1\r\nhost: my.host:81\r\n{key}");
    let got = told(&engine, &gate, &absolute).await;
    assert_eq!((got.path.as_str(), got.query.as_str()), ("/v1/models", "x=1"));
    assert_eq!(host(&got).as_deref(), Some("my.host:81"));

    // Engines speak HTTP/1.1, where a request without a Host is none.
    let old = format!("GET /v1/models HTTP/1.0\r\n{key}");
    let got = told(&engine, &gate, &old).await;
    assert_eq!(host(&got), Some(engine.addr().to_string()));

    let mut call = Call::start(Proto::H2c, gate.proxy, &Request::get("/v1/models?y=2", "a")).await;
    assert_eq!(call.answer().await.status, 200);
    let got = seen(&engine);
    assert_eq!((got.path.as_str(), got.query.as_str()), ("/v1/models", "y=2"));
    assert_eq!(host(&got).as_deref(), Some("gate"));
    assert!(!got.headers.iter().any(|(name, _)| name.starts_with(':')));
}

#[tokio::test]
async fn a_body_is_framed_anew_and_arrives_as_it_was() {
    let (engine, gate) = start().await;
    let padding = "x".repeat(100_000);
    let body = format!(
        r#"{{"model":"sim", "max_tokens":1,"messages":[{{"role":"user","content":"{padding}"}}]}}"#
    );
    let request = Request::post("/v1/chat/completions", "a", body.clone());
    let hash = format!("{:016x}", streamgate_loadtests::engine::body_hash(body.as_bytes()));
    for bytes in [request.bytes(), request.chunked(7_000), request.chunked(1 << 20)] {
        let mut wire = Wire::connect(gate.proxy).await;
        wire.send(&bytes).await;
        assert_eq!(bounded("an answer", wire.answer()).await.status, 200);
        let seen = seen(&engine);
        assert_eq!(seen.header("content-length"), Some(body.len().to_string().as_str()));
        assert_eq!(seen.header("transfer-encoding"), None);
        assert_eq!(seen.body_hash.as_deref(), Some(hash.as_str()));
    }
}
