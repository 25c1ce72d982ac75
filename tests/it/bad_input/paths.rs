//! Models nobody serves, and other spellings of paths that are understood.

use super::{Rig, assert_refused, post};
use crate::support::request::Request;
use crate::support::scripted::{CHAT_END, STREAM_HEAD, Scripted, chat_event};
use crate::support::wire::Ending;
use crate::support::{Call, Gate, Proto, Setup};
use serde_json::json;
use streamgate_loadtests::engine::{Engine, EngineConfig};

fn chat_with(model: &str) -> String {
    json!({"model": model, "messages": [{"role": "user", "content": "x"}]}).to_string()
}

#[tokio::test]
async fn a_model_is_unknown_or_forbidden_before_a_slot_is_taken() {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let setup = Setup::new(&[engine.addr()])
        .model("sim\", \"other")
        .tenant("a", "max_in_flight: 1")
        .tenant("b", "max_in_flight: 1\nmodels: [\"other\"]");
    let gate = Gate::start(setup).await;
    let long = "m".repeat(512);
    for model in ["nope", "SIM", " sim", "sim ", "sim/../sim", "*", &long, "ſim", "модель"] {
        for path in ["/v1/chat/completions", "/v1/embeddings"] {
            let request = Request::post(path, "a", chat_with(model));
            let answer = gate.answer(&request).await;
            assert_refused(&answer, 404, "unknown_model", model);
            assert_eq!(answer.json()["error"]["param"], "model");
        }
        let anthropic = gate.answer(&Request::post("/v1/messages", "a", chat_with(model))).await;
        assert_eq!((anthropic.status, anthropic.reason()), (404, Some("unknown_model")));
        assert_eq!(anthropic.json()["error"]["type"], "not_found_error");
    }
    let forbidden = Request::post("/v1/chat/completions", "b", chat_with("sim"));
    let answer = gate.answer(&forbidden).await;
    assert_refused(&answer, 403, "forbidden_model", "not of this tenant");
    let anthropic = gate.answer(&Request::post("/v1/messages", "b", chat_with("sim"))).await;
    assert_eq!(anthropic.json()["error"]["type"], "permission_error");
    // A body whose model cannot be told could name any.
    for body in ["{\"model\":\"other\",\"model\":\"sim\"}", "not json", "{\"model\":", "\u{feff}{}"]
    {
        let answer = gate.answer(&Request::post("/v1/embeddings", "b", body)).await;
        assert_refused(&answer, 403, "forbidden_model", body);
    }
    let asked = engine.requests().iter().filter(|seen| seen.path != "/health").count();
    assert_eq!(asked, 0);
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("failed"), 0.0);
    assert_eq!(metrics.outcome("rejected"), metrics.sum("streamgate_arrivals_total"));
}

/// Everything under `/v1/messages` is Anthropic's, whether it is understood or not: its refusals
/// have that shape, in every stage.
#[tokio::test]
async fn refusals_below_messages_have_their_shape() {
    let mut engine = Scripted::start().await;
    let setup = Setup::new(&[engine.addr])
        .model("sim")
        .tenant("a", "max_in_flight: 1")
        .pool("health: {interval: 1h}")
        .with("limits: {body: 4KiB, header: 16KiB}");
    let gate = Gate::start(setup).await;
    let mut running = Call::start(Proto::H1, gate.proxy, &post(chat_with("sim"))).await;
    let mut taken = engine.next().await;
    let known = chat_with("sim");
    for path in ["/v1/messages", "/v1/messages/count_tokens", "/v1//messages/%62atches?limit=1"] {
        let request = |body: &str| Request::post(path, "a", body);
        let cases = [
            (request(&known).without_key(), 401, "authentication_error"),
            (request(&chat_with("nope")), 404, "not_found_error"),
            (request(&"x".repeat(5000)), 413, "request_too_large"),
            (request(&known).header("x-long", &"y".repeat(20_000)), 431, "invalid_request_error"),
            (request(&known), 429, "rate_limit_error"),
        ];
        for (request, status, kind) in cases {
            for proto in Proto::ALL {
                let answer = crate::support::ask(proto, gate.proxy, &request).await;
                if proto == Proto::H2c && status == 431 && answer.headers.is_empty() {
                    continue;
                }
                let (at, body) = (format!("{path}, {proto:?}, {status}"), answer.json());
                assert_eq!((answer.status, &body["type"]), (status, &json!("error")), "{at}");
                assert_eq!(body["error"]["type"], kind, "{at}");
                assert_eq!(body["request_id"], *answer.headers["x-request-id"], "{at}");
            }
        }
    }
    let last = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    taken.write(last).await;
    assert_eq!(running.answer().await.status, 200);
    drop(taken);
    // The engine goes without a word.
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        let mut call = Call::start(Proto::H1, gate.proxy, &Request::post(path, "a", &*known)).await;
        drop(engine.next().await);
        let answer = call.answer().await;
        assert_eq!((answer.status, &answer.json()["error"]["type"]), (502, &json!("api_error")));
    }
}

/// Spellings that servers behind the gate read as `/v1/chat/completions`.
const SPELLINGS: [&str; 12] = [
    "/v1/chat/completions",
    "/v1/chat/completions?api-version=1",
    "/v1/chat%2Fcompletions",
    "/v1/chat%2fcompletions",
    "/%76%31/chat/completions",
    "/v1/chat/completion%73",
    "%2Fv1/chat/completions",
    "//v1/chat/completions",
    "/v1//chat///completions",
    "/v1/./chat/completions",
    "/v1/x/../chat/completions",
    "/v1/%2e/chat/%2E%2e/chat/completions",
];

/// Any spelling is a chat: its stream is watched for its end, its usage asked for and counted.
#[tokio::test]
async fn no_spelling_of_a_path_escapes_the_rules() {
    let mut engine = Scripted::start().await;
    let gate = Gate::start(Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 1")).await;
    let body = r#"{"model":"sim","stream":true,"messages":[]}"#;
    for (number, path) in SPELLINGS.into_iter().enumerate() {
        // `%2Fv1/…` is no path in HTTP/1; in absolute form it is.
        let target = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        for whole in [true, false] {
            let id = format!("spelling-{number}-{whole}");
            let request = Request::post(&target, "a", body).id(&id);
            let mut call = Call::start(Proto::H1, gate.proxy, &request).await;
            let mut taken = engine.next().await;
            let line = taken.head.lines().next().unwrap().to_owned();
            assert_eq!(line, format!("POST {target} HTTP/1.1"), "the target goes as it came");
            let asked = String::from_utf8(taken.body.clone()).unwrap();
            assert!(asked.contains(r#""include_usage":true"#), "{path}: {asked}");
            taken.write(STREAM_HEAD).await;
            taken.chunk(chat_event("one")).await;
            if whole {
                taken.chunk(CHAT_END).await;
                taken.end().await;
            } else {
                taken.end().await;
            }
            let answer = call.answer().await;
            let ending = if whole { Ending::Whole } else { Ending::Cut };
            assert_eq!((answer.status, answer.ending), (200, ending), "{path}: {}", answer.text());
            let line = gate.line_of(&id).await;
            assert_eq!(line["api"], "chat", "{path}: {line}");
            assert_eq!(line["outcome"], if whole { "complete" } else { "truncated" }, "{path}");
        }
        // A body that a chat may not have is refused.
        let answer = gate.answer(&Request::post(&target, "a", "{}")).await;
        assert_refused(&answer, 400, "bad_request", path);
    }
}

/// Paths that look like an understood one and are none go to the engine as they are.
#[tokio::test]
async fn what_is_not_understood_is_passed_on() {
    let rig = Rig::start().await;
    for path in [
        "/v1/chat/completions/",
        "/V1/chat/completions",
        "/v1/chat/completionsx",
        "/v1/chat%252Fcompletions",
        "/v1/chat/completions;v=1",
        "/v1/chat\\completions",
        "/",
        "/%ff%fe",
        "/%zz",
        "/a%00b",
        "/../etc/passwd",
        "/sub/v1/chat/completions",
    ] {
        rig.engine.reset_stats();
        let answer = rig.gate.answer(&Request::post(path, "a", "{}")).await;
        assert_eq!((answer.status, answer.reason()), (404, None), "{path}: {}", answer.text());
        let requests = rig.engine.requests();
        let seen = requests.iter().find(|seen| seen.method == "POST").unwrap();
        assert_eq!(seen.path, path, "the target goes as it came");
    }
    assert_eq!(rig.gate.answer(&post("{}")).await.status, 400);
    rig.unharmed().await;
}
