//! The engine's answers have the form of a real engine's: the captured ones in
//! `tests/fixtures/vllm`, each to the same request.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

mod common;

use std::time::Duration;

use common::json::{self, Json};
use common::{
    BOUND, Client, End, ask, completion, events, fixture, get, post, request, text, whole,
};
use streamgate_loadtests::engine::{
    AbortForm, Engine, EngineConfig, InstantProfile, Profile, ShutdownTimes, StepModel,
};
use streamgate_loadtests::replay::Transcript;

/// Keys whose values differ from answer to answer.
const VARYING: &[&str] = &[
    "id",
    "created",
    "created_at",
    "item_id",
    "text",
    "content",
    "delta",
    "index",
    "sequence_number",
    "system_fingerprint",
    "prompt_tokens",
    "total_tokens",
    "completion_tokens",
    "input_tokens",
    "output_tokens",
    "root",
    "value",
    "loc",
    "param",
];

fn config() -> EngineConfig {
    EngineConfig { model: "tiny".into(), max_model_len: 4096, ..EngineConfig::default() }
}

/// Same status line, same header names in the same order, same values where they can be.
fn same_head(ours: &Transcript, theirs: &Transcript) {
    let line = |t: &Transcript| {
        String::from_utf8_lossy(t.head()).lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(line(ours), line(theirs));
    let fixed = |t: &Transcript| -> Vec<(String, String)> {
        t.headers()
            .iter()
            .map(|(name, value)| match name.as_str() {
                "date" => (name.clone(), "a date".len().to_string()),
                "content-length" => (name.clone(), "a length".into()),
                _ => (name.clone(), value.clone()),
            })
            .collect()
    };
    assert_eq!(fixed(ours), fixed(theirs));
    if let Some(len) = ours.header("content-length").filter(|_| !ours.body().is_empty()) {
        assert_eq!(len, ours.body().len().to_string());
    }
    let date = ours.header("date").unwrap();
    assert_eq!(date.len(), theirs.header("date").unwrap().len());
    assert!(httpdate::parse_http_date(date).is_ok(), "{date}");
}

fn shape(data: &str) -> String {
    if data == "[DONE]" { data.into() } else { json::parse(data).shape(VARYING) }
}

/// The shapes of a stream's events in the order of their first appearance. Tokens merge under
/// load and choices interleave, so numbers of events and turns of choices tell nothing.
fn shapes(transcript: &Transcript) -> Vec<(Option<String>, String)> {
    let mut seen = Vec::new();
    for (name, data) in events(transcript) {
        let event = (name, shape(&data));
        if !seen.contains(&event) {
            seen.push(event);
        }
    }
    seen
}

fn same_stream(ours: &Transcript, theirs: &Transcript) {
    same_head(ours, theirs);
    assert_eq!(shapes(ours), shapes(theirs));
    assert_eq!(ours.is_complete(), theirs.is_complete());
    let spelling = |t: &Transcript| t.chunks().last().map(<[u8]>::to_vec);
    if shape_of_last(ours) == "[DONE]" {
        assert_eq!(spelling(ours), spelling(theirs));
    }
}

fn shape_of_last(t: &Transcript) -> String {
    events(t).last().map(|(_, data)| shape(data)).unwrap_or_default()
}

fn same_plain(ours: &Transcript, theirs: &Transcript) {
    same_head(ours, theirs);
    let shape = |t: &Transcript| {
        let body = text(t);
        if body.is_empty() { body } else { json::parse(&body).shape(VARYING) }
    };
    assert_eq!(shape(ours), shape(theirs));
    let spaces = |t: &Transcript| text(t).contains("\": ");
    assert_eq!(spaces(ours), spaces(theirs), "compact or not");
}

async fn repeat(engine: &Engine, name: &str) -> (Transcript, Transcript) {
    let theirs = fixture(name);
    let asked = theirs.request().unwrap_or_else(|| panic!("{name} has no request"));
    let mut headers: Vec<(&str, &str)> =
        asked.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    headers.push(("accept", "*/*"));
    let mut bytes = request(&asked.method, &asked.path, &headers, &asked.body);
    if asked.http10 {
        bytes = bytes.replace("HTTP/1.1", "HTTP/1.0");
    }
    let mut client = Client::connect(engine.addr()).await;
    client.send(bytes).await;
    (whole(client.answer().await), theirs)
}

#[tokio::test]
async fn streams_have_the_form_of_the_captured_ones() {
    let engine = Engine::start(config()).await.unwrap();
    for name in [
        "chat_stream",
        "chat_stream_connclose",
        "chat_stream_continuous_usage",
        "chat_stream_http10",
        "chat_stream_n2",
        "chat_stream_reqid",
        "chat_stream_usage",
        "completions_stream",
        "completions_stream_continuous_usage",
        "completions_stream_n2",
        "completions_stream_usage",
        "messages_stream",
        "responses_stream",
    ] {
        eprintln!("{name}");
        let (ours, theirs) = repeat(&engine, name).await;
        same_stream(&ours, &theirs);
    }
}

#[tokio::test]
async fn plain_answers_and_errors_have_the_form_of_the_captured_ones() {
    let engine = Engine::start(config()).await.unwrap();
    for name in [
        "chat_nonstream",
        "chat_nonstream_n2",
        "completions_nonstream",
        "messages_nonstream",
        "responses_nonstream",
        "err_bad_field",
        "err_no_messages",
        "err_unknown_model",
        "err_unknown_model_messages",
    ] {
        eprintln!("{name}");
        let (ours, theirs) = repeat(&engine, name).await;
        same_plain(&ours, &theirs);
    }
}

#[tokio::test]
async fn broken_json_is_refused_in_the_captured_form() {
    let engine = Engine::start(config()).await.unwrap();
    let (ours, theirs) = repeat(&engine, "err_bad_json").await;
    same_head(&ours, &theirs);
    let strip = |t: &Transcript| text(t).replace(|c: char| c.is_ascii_digit(), "");
    assert_eq!(strip(&ours), strip(&theirs));
}

#[tokio::test]
async fn an_overlong_prompt_is_refused_in_the_captured_form() {
    // The captured request has one word, which counts fewer tokens here.
    let engine = Engine::start(EngineConfig { max_model_len: 100, ..config() }).await.unwrap();
    for name in ["err_overlong_chat", "err_overlong_completions"] {
        let (ours, theirs) = repeat(&engine, name).await;
        same_head(&ours, &theirs);
        let expected = text(&theirs).replace("4096", "100").replace("4097", "101");
        assert_eq!(text(&ours), expected);
    }
}

#[tokio::test]
async fn other_endpoints_answer_as_captured() {
    let engine = Engine::start(config()).await.unwrap();
    for (method, path, name) in [
        ("GET", "/health", "health"),
        ("GET", "/ping", "ping"),
        ("GET", "/version", "version"),
        ("GET", "/load", "load"),
        ("GET", "/v1/models", "models"),
        ("GET", "/is_sleeping", "is_sleeping"),
        ("GET", "/nowhere", "notfound"),
        ("GET", "/server_info", "server_info"),
        ("GET", "/v1/chat/completions", "method_not_allowed"),
        ("OPTIONS", "/v1/chat/completions", "options"),
    ] {
        eprintln!("{name}");
        let ours = whole(ask(engine.addr(), method, path, &[], "").await);
        same_plain(&ours, &fixture(name));
    }
    let upgrade = [("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c")];
    let ours = whole(ask(engine.addr(), "GET", "/health", &upgrade, "").await);
    same_plain(&ours, &fixture("h2_upgrade"));
}

#[tokio::test]
async fn a_head_request_gets_the_captured_head_and_no_body() {
    let engine = Engine::start(config()).await.unwrap();
    let mut client = Client::connect(engine.addr()).await;
    client.send(request("HEAD", "/health", &[("connection", "close")], "")).await;
    assert_eq!(client.read_to_end().await, End::Fin);
    let ours = String::from_utf8(client.raw).unwrap();
    let lines = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|l| !l.starts_with("date") && *l != "connection: close")
            .map(str::to_owned)
            .collect()
    };
    let theirs = String::from_utf8_lossy(fixture("health_head").raw()).into_owned();
    assert_eq!(lines(&ours), lines(&theirs));
}

#[tokio::test]
async fn bytes_that_are_not_http1_are_refused_and_the_connection_closed() {
    let engine = Engine::start(config()).await.unwrap();
    let mut client = Client::connect(engine.addr()).await;
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert_eq!(client.read_to_end().await, End::Fin);
    let answer = Transcript::from_bytes(client.raw).unwrap();
    assert_eq!((answer.status(), answer.header("connection")), (400, Some("close")));
}

#[tokio::test]
async fn a_drain_answers_500_without_notice_of_the_close() {
    let engine = Engine::start(config()).await.unwrap();
    engine.begin_shutdown(Duration::from_secs(30));
    for (body, name) in [
        (common::plain_completion(1), "err_500_post_during_drain"),
        (completion(1), "err_500_post_stream_during_drain"),
    ] {
        let mut client = Client::connect(engine.addr()).await;
        client.send(request("POST", "/v1/completions", &[], &body)).await;
        let (ours, _) = client.answer().await;
        let theirs = fixture(name);
        same_head(ours.as_ref().unwrap(), &theirs);
        assert_eq!(ours.unwrap().body(), theirs.body());
        assert_eq!(client.read_to_end().await, End::Fin);
    }
    assert_eq!(get(engine.addr(), "/health").await.status(), 200);
}

fn one_at_a_time(interval: Duration) -> Profile {
    Profile::Instant(InstantProfile {
        token_interval: interval,
        max_running: Some(1),
        ..InstantProfile::default()
    })
}

#[tokio::test]
async fn a_full_queue_answers_503() {
    let model = StepModel { max_running: 1, ..StepModel::default() };
    for profile in [one_at_a_time(Duration::from_secs(1)), Profile::Calibrated(model)] {
        full_queue(profile).await;
    }
}

async fn full_queue(profile: Profile) {
    let engine =
        Engine::start(EngineConfig { profile, max_num_queued: Some(1), ..config() }).await.unwrap();
    let mut waiting = Vec::new();
    for n in 1..=2 {
        let mut client = Client::connect(engine.addr()).await;
        client.send(request("POST", "/v1/completions", &[], &completion(100))).await;
        engine.wait_stats(|s| s.running + s.waiting == n, BOUND).await.unwrap();
        waiting.push(client);
    }
    let ours = post(engine.addr(), "/v1/completions", &[], &completion(1)).await;
    let theirs = fixture("err_503_max_num_queued_reqs");
    same_plain(&ours, &theirs);
    assert_eq!(ours.body(), theirs.body());
    assert!(text(&get(engine.addr(), "/metrics").await).contains(
        r#"admission_rejections_total{model_name="tiny",reason="max_num_queued_reqs"} 1.0"#
    ));
}

#[tokio::test]
async fn keep_alive_comments_come_while_a_stream_waits() {
    let profile = one_at_a_time(Duration::from_millis(40));
    let engine = Engine::start(EngineConfig {
        profile,
        sse_keep_alive: Some(Duration::from_millis(30)),
        ..config()
    })
    .await
    .unwrap();
    let mut first = Client::connect(engine.addr()).await;
    first.send(request("POST", "/v1/completions", &[], &completion(4))).await;
    engine.wait_stats(|s| s.running == 1, BOUND).await.unwrap();
    let body = r#"{"model":"tiny","prompt":"hello","max_tokens":3,"stream":true}"#;
    let ours = post(engine.addr(), "/v1/completions", &[], body).await;
    let theirs = fixture("completions_stream_sse_keep_alive_queued");
    same_stream(&ours, &theirs);
    let comments = |t: &Transcript| t.chunks().filter(|c| *c == b": keep-alive\n\n").count();
    assert!(comments(&ours) >= 2, "{}", text(&ours));
    assert!(comments(&theirs) >= 2);
    assert!(text(&ours).starts_with(": keep-alive"), "before the first event");
}

/// Starts a stream with enough tokens never to end, and waits for its first event.
async fn endless(engine: &Engine, path: &str, body: &str) -> Client {
    let mut client = Client::connect(engine.addr()).await;
    client.send(request("POST", path, &[], body)).await;
    let end = client.until(|raw| raw.windows(2).filter(|w| w == b"\n\n").count() > 3).await;
    assert_eq!(end, End::Complete);
    client
}

const CHAT: &str =
    r#"{"messages":[{"role":"user","content":"hi"}],"max_tokens":3000,"stream":true}"#;
const PLAIN_CHAT: &str = r#"{"messages":[{"role":"user","content":"hi"}],"max_tokens":3000}"#;
const RESPONSES: &str =
    r#"{"input":"hi","max_output_tokens":3500,"stream":true,"temperature":0.0}"#;

fn slow() -> EngineConfig {
    EngineConfig {
        profile: Profile::Instant(InstantProfile {
            token_interval: Duration::from_millis(2),
            ..InstantProfile::default()
        }),
        ..config()
    }
}

#[tokio::test]
async fn the_death_of_the_engine_looks_as_captured() {
    let engine = Engine::start(slow()).await.unwrap();
    let mut chat = endless(&engine, "/v1/chat/completions", CHAT).await;
    let mut messages = endless(&engine, "/v1/messages", CHAT).await;
    let mut responses = endless(&engine, "/v1/responses", RESPONSES).await;
    let mut plain = Client::connect(engine.addr()).await;
    plain.send(request("POST", "/v1/chat/completions", &[], PLAIN_CHAT)).await;
    engine.wait_stats(|s| s.in_flight == 4, BOUND).await.unwrap();
    assert!(engine.engine_death());

    let (ours, end) = chat.answer().await;
    assert_eq!(end, End::Complete);
    same_stream(&ours.unwrap(), &fixture("error_midstream_chat_stream_engine_dead"));
    let (ours, end) = messages.answer().await;
    assert_eq!(end, End::Complete);
    same_stream(&ours.unwrap(), &fixture("error_midstream_messages_stream_engine_dead"));
    assert_eq!(responses.read_to_end().await, End::Fin);
    let ours = Transcript::from_bytes(responses.raw).unwrap();
    same_cut_stream(&ours, &fixture("cut_midstream_responses_stream"));
    let (ours, _) = plain.answer().await;
    same_plain(&ours.unwrap(), &fixture("error_500_chat_nonstream_engine_dead"));
    assert_eq!(get(engine.addr(), "/health").await.status(), 503);
}

fn same_cut_stream(ours: &Transcript, theirs: &Transcript) {
    same_stream(ours, theirs);
    assert!(!ours.is_complete());
    let ends_after_a_chunk = |t: &Transcript| t.raw().ends_with(b"\n\n\r\n");
    assert!(ends_after_a_chunk(ours) && ends_after_a_chunk(theirs));
}

#[tokio::test]
async fn sigterm_without_a_timeout_looks_as_captured() {
    let engine = Engine::start(slow()).await.unwrap();
    let body = completion(3000);
    let mut stream = endless(&engine, "/v1/completions", &body).await;
    let mut responses = endless(&engine, "/v1/responses", RESPONSES).await;
    let mut messages = endless(&engine, "/v1/messages", CHAT).await;
    assert!(engine.begin_shutdown(Duration::ZERO));
    let (ours, end) = stream.answer().await;
    assert_eq!(end, End::Complete);
    let ours = ours.unwrap();
    same_stream(&ours, &fixture("abort_midstream_completions_sigterm_default"));
    assert_eq!(responses.read_to_end().await, End::Fin);
    let (messages, _) = messages.answer().await;
    let last = events(&messages.unwrap()).pop().unwrap();
    assert_eq!(last.0.as_deref(), Some("error"));
    let usage = json::parse(&events(&ours).iter().rev().nth(1).unwrap().1);
    let Json::Object(fields) = usage else { panic!("{usage:?}") };
    let tokens = events(&ours).len() - 3;
    let expected = format!(r#""completion_tokens":{tokens}}}"#);
    assert!(text(&ours).contains(&expected), "{expected} not in {fields:?}");
}

#[tokio::test]
async fn sigterm_can_also_end_streams_with_an_error() {
    let shutdown = ShutdownTimes { abort_form: AbortForm::Error, ..ShutdownTimes::default() };
    let engine = Engine::start(EngineConfig { shutdown, ..slow() }).await.unwrap();
    let mut chat = endless(&engine, "/v1/chat/completions", CHAT).await;
    engine.begin_shutdown(Duration::ZERO);
    let (ours, _) = chat.answer().await;
    same_stream(&ours.unwrap(), &fixture("error_midstream_chat_stream_engine_dead"));
}

#[tokio::test]
async fn streams_longer_than_the_timeout_freeze_as_captured() {
    let engine = Engine::start(slow()).await.unwrap();
    let body = r#"{"prompt":"hello","max_tokens":4000,"stream":true}"#;
    let mut client = endless(&engine, "/v1/completions", body).await;
    engine.begin_shutdown(Duration::from_millis(50));
    engine.wait_stats(|s| s.phase == "frozen" && s.in_flight == 0, BOUND).await.unwrap();
    while client.read(Duration::from_millis(200)).await.is_none() {}
    let ours = Transcript::from_bytes(client.raw.clone()).unwrap();
    same_cut_stream(&ours, &fixture("cut_midstream_completions_timeout_expired"));
    assert_eq!(client.read(Duration::from_millis(100)).await, Some(End::Silent), "no close either");
}

#[tokio::test]
async fn metrics_have_real_names_types_and_labels() {
    let engine = Engine::start(config()).await.unwrap();
    post(engine.addr(), "/v1/completions", &[], &completion(7)).await;
    let page = get(engine.addr(), "/metrics").await;
    let theirs = fixture("metrics");
    same_head(&page, &theirs);
    let families = |text: &str| -> Vec<String> {
        text.lines().filter_map(|l| l.strip_prefix("# TYPE ")).map(str::to_owned).collect()
    };
    // Names of series with the keys of their labels, in order.
    let series = |text: &str| -> std::collections::BTreeSet<String> {
        let keys = |labels: &str| -> Vec<String> {
            labels.split("\",").filter_map(|l| Some(l.split_once('=')?.0.to_owned())).collect()
        };
        text.lines()
            .filter(|l| !l.starts_with('#') && !l.contains("cache_config_info"))
            .filter_map(|l| l.rsplit_once(' '))
            .map(|(name, _)| match name.split_once('{') {
                Some((name, labels)) => format!("{name} {:?}", keys(labels)),
                None => name.to_owned(),
            })
            .collect()
    };
    let (ours, real) = (text(&page), text(&theirs));
    let known = families(&real);
    for family in families(&ours) {
        assert!(known.contains(&family), "{family} is unknown");
    }
    let known = series(&real);
    for one in series(&ours) {
        assert!(known.contains(&one), "{one} is unknown");
    }
    for line in [
        r#"vllm:num_requests_running{engine="0",model_name="tiny"} 0.0"#,
        r#"vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0"#,
        r#"vllm:generation_tokens_total{engine="0",model_name="tiny"} 7.0"#,
        r#"vllm:prompt_tokens_total{engine="0",model_name="tiny"} 2.0"#,
        r#"vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 1.0"#,
        r#"vllm:inter_token_latency_seconds_count{engine="0",model_name="tiny"} 6.0"#,
        r#"http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 1.0"#,
    ] {
        assert!(ours.lines().any(|l| l == line), "{line} missing in {ours}");
    }
    let bounds = |text: &str, name: &str| -> Vec<String> {
        text.lines()
            .filter(|l| l.starts_with(&format!("vllm:{name}_bucket")))
            .filter_map(|l| Some(l.split_once("le=\"")?.1.split_once('"')?.0.to_owned()))
            .collect()
    };
    for name in ["time_to_first_token_seconds", "e2e_request_latency_seconds", "request_params_n"] {
        assert_eq!(bounds(&ours, name), bounds(&real, name));
    }
}
