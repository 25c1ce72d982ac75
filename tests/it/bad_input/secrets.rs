//! Nothing that a client or an engine says, and no key, is ever written to a log, a record or a
//! metric, at any level.

use super::told;
use crate::support::call::{Call, Proto, ask};
use crate::support::h2::H2;
use crate::support::request::Request;
use crate::support::scripted::{STREAM_HEAD, Scripted, chat_event};
use crate::support::{Gate, Setup, eventually};
use serde_json::json;
use tokio::io::AsyncWriteExt;

/// In everything that must not be told.
const CANARY: &str = "canary";
/// The key of tenant `zebra`, as the rig makes keys.
const KEY: &str = "key-zebra";

/// Requests that reach the engine.
fn passing() -> Vec<Request> {
    let body = json!({
        "model": "canary-model", "stream": true, "user": "canary-user", "max_tokens": 3,
        "messages": [{"role": "user", "content": "canary-prompt"}], "metadata": {"x": "canary"},
    });
    let whole = |path: &str| Request::post(path, "zebra", body.to_string());
    let headers = [
        ("cookie", "session=canary"),
        ("x-custom", "canary"),
        ("proxy-authorization", "Basic canary"),
        ("x-canary-name", "1"),
        ("traceparent", "canary"),
        ("user-agent", "canary/1.0"),
        ("x-stainless-retry-count", "canary"),
    ];
    let dressed = |request: Request| {
        headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    };
    vec![
        dressed(whole("/v1/chat/completions?api_key=canary-query&key=canary")),
        dressed(whole("/v1/messages")),
        dressed(whole("/canary/path")),
        Request::get("/v1/files/canary", "zebra"),
        whole("/v1/chat/completions").header("x-request-id", "canary with spaces"),
    ]
}

/// Requests that the gate refuses.
fn refused() -> Vec<Request> {
    let whole = |body: &str| Request::post("/v1/chat/completions", "zebra", body);
    let mut all = vec![whole("canary").header("x-api-key", "canary-key")];
    for wrong in ["Bearer canary-key", "Basic canary", "canary", "Bearer canary canary"] {
        all.push(whole("canary").without_key().header("authorization", wrong));
    }
    for body in ["{canary", "{\"model\":\"sim\",\"stream\":\"canary\"}", "{\"model\":[\"canary\"]}"]
    {
        all.push(whole(body));
    }
    all
}

/// Bytes that are no request.
fn rubbish() -> Vec<Vec<u8>> {
    let post = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: gate\r\nauthorization: Bearer {KEY}\r\n"
    );
    let lines = |lines: &str| format!("{post}{lines}\r\n").into_bytes();
    vec![
        b"canary canary canary\r\n\r\n".to_vec(),
        b"GET /canary HTTP/9.9\r\ncanary: canary\r\n\r\n".to_vec(),
        format!("GET /canary HTTP/1.1\r\nauthorization: Bearer {KEY}\r\n\r\n").into_bytes(),
        lines("x: canary\0canary\r\n"),
        lines("canary canary: canary\r\n"),
        lines("content-length: canary\r\n"),
        lines("content-length: -5\r\n"),
        lines("transfer-encoding: canary\r\n"),
        lines("host: canary\r\n"),
        lines(&format!("x: {}\r\n", "canary ".repeat(20_000))),
        [lines("transfer-encoding: chunked\r\n"), b"canary\r\ncanary\r\n".to_vec()].concat(),
        [
            lines("transfer-encoding: chunked\r\n"),
            b"1;canary\r\nx\r\n0\r\ncanary: canary\r\n\r\n".to_vec(),
        ]
        .concat(),
        b"GET http://canary@gate/ HTTP/1.1\r\nhost: gate\r\n\r\n".to_vec(),
        b"GET http://gate/ HTTP/1.1\r\nhost: canary\r\n\r\n".to_vec(),
        b"CONNECT canary:443 HTTP/1.1\r\nhost: canary\r\n\r\n".to_vec(),
    ]
}

/// What the engine answers, one after the other: to pass, to refuse, to break.
fn answers() -> Vec<Vec<u8>> {
    let head = |status: &str, lines: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{lines}\r\n{body}", body.len())
    };
    let event = chat_event("canary-answer");
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let error =
        "data: {\"error\":{\"message\":\"canary\",\"type\":\"canary\",\"code\":\"canary\"}}\n\n";
    [
        head(
            "200 canary",
            "set-cookie: canary\r\ncontent-type: application/json\r\n",
            "{\"x\":\"canary\"}",
        ),
        head("500 canary", "x-canary: canary\r\n", "{\"error\":{\"message\":\"canary\"}}"),
        head("400 canary", "", "{\"error\":{\"message\":\"canary\",\"param\":\"canary\"}}"),
        "HTTP/1.1 200 OK\r\ncanary canary canary\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: canary\r\n\r\n".to_owned(),
        "canary".to_owned(),
        format!("{STREAM_HEAD}{}", chunk(error)),
        format!("{STREAM_HEAD}{}{}0\r\n\r\n", chunk(&event), chunk(error)),
        format!("{STREAM_HEAD}{}canary", chunk(&event)),
        format!("{STREAM_HEAD}{}{}", chunk(&event), chunk("event: canary\ndata: canary\n\n")),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// Every answer to every request, over both protocols.
async fn everything(gate: &Gate, mut engine: Scripted) {
    let answering = tokio::spawn(async move {
        for answer in answers().into_iter().cycle() {
            let _ = engine.next().await.stream.write_all(&answer).await;
        }
    });
    // One more request than answers, so that each answer meets each request.
    let asked = passing().into_iter().cycle().take(answers().len() * (passing().len() + 1));
    for (request, proto) in asked.zip(Proto::ALL.into_iter().cycle()) {
        ask(proto, gate.proxy, &request).await;
    }
    for request in refused() {
        for proto in Proto::ALL {
            ask(proto, gate.proxy, &request).await;
        }
    }
    for bytes in rubbish() {
        told(gate.proxy, &bytes).await;
    }
    let mut h2 = H2::connect(gate.proxy).await;
    let mut call = h2.open(&passing()[0], false).await;
    call.write("canary".into(), false);
    call.reset();
    let mut gone = Call::start(Proto::H1, gate.proxy, &passing()[0]).await;
    let _ = gone.head().await;
    drop(gone);
    answering.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_said_is_written_down() {
    for (format, level) in
        [("json", "trace"), ("text", "trace"), ("json", "info"), ("text", "debug")]
    {
        let (engine, directory) = (Scripted::start().await, tempfile::tempdir().unwrap());
        let records = directory.path().join("records.jsonl");
        let log = format!("log: {{format: {format}, level: {level}}}");
        let setup = Setup::new(&[engine.addr])
            .tenant("zebra", "max_in_flight: 8")
            .pool("api_key_env: POOL_KEY\nretries: {max_attempts: 1}")
            .env("POOL_KEY", "canary-pool-key")
            .env("RUST_LOG", "trace")
            .env("STREAMGATE_LOG", level)
            .with(&format!("{log}\nrecords: {{path: {records:?}}}"))
            .with("drain: {propagation: 0s, cut_margin: 1s, deadline: 2s}");
        let mut gate = Gate::start(setup).await;
        everything(&gate, engine).await;
        gate.settled().await;
        let mut pages = String::new();
        for path in ["/metrics", "/api/v1/state", "/api/v1/holders"] {
            pages += &reqwest::get(gate.admin_url(path)).await.unwrap().text().await.unwrap();
        }
        gate.signal("TERM");
        gate.exit_code().await;
        let output = eventually("the last line", || {
            let output = gate.output().join("\n");
            std::future::ready(output.contains("told to stop").then_some(output))
        })
        .await;
        let records = std::fs::read_to_string(&records).unwrap();
        assert!(records.lines().count() > 50, "{} records", records.lines().count());
        for (what, text) in [("output", &output), ("records", &records), ("pages", &pages)] {
            for secret in [CANARY, KEY] {
                let told: Vec<_> = text.lines().filter(|line| line.contains(secret)).collect();
                assert!(told.is_empty(), "{format} {level}, {secret} in {what}: {:#?}", told[0]);
            }
            assert!(!text.contains("panicked"), "{format} {level}: {text}");
        }
    }
}
