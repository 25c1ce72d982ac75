//! Every fault does what the table says, seen from the wire.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

mod common;

use std::time::{Duration, Instant};

use common::{
    BOUND, Client, End, ask, completion, event_count, events, get, plain_completion, post, request,
    text,
};
use streamgate_loadtests::engine::{CloseBy, Cut, Engine, EngineConfig, FaultRule, Faults};
use streamgate_loadtests::replay::Transcript;

const COMPLETIONS: &str = "/v1/completions";

async fn start() -> Engine {
    Engine::start(EngineConfig::default()).await.unwrap()
}

/// A completion with faults: what came, and how it ended when read to the end.
async fn faulty(engine: &Engine, faults: &str, body: &str) -> (Vec<u8>, End) {
    engine.set_fault(Faults::parse(faults).unwrap());
    let mut client = Client::connect(engine.addr()).await;
    client.send(request("POST", COMPLETIONS, &[], body)).await;
    let end = client.read_to_end().await;
    (client.raw, end)
}

async fn faulty_answer(engine: &Engine, path: &str, faults: &str, body: &str) -> Transcript {
    engine.set_fault(Faults::parse(faults).unwrap());
    let answer = post(engine.addr(), path, &[], body).await;
    engine.wait_stats(|s| s.in_flight == 0, BOUND).await.unwrap();
    answer
}

#[tokio::test]
async fn cuts_leave_exactly_what_they_say() {
    let engine = start().await;
    for (by, end) in [("fin", End::Fin), ("rst", End::Reset)] {
        let with = |cut: &str| format!("cut={cut}&cut-by={by}");
        let body = completion(5);
        assert_eq!(faulty(&engine, &with("before-head"), &body).await, (Vec::new(), end));

        let (raw, seen) = faulty(&engine, &with("after-head"), &body).await;
        assert_eq!(seen, end);
        assert!(raw.ends_with(b"\r\n\r\n") && raw.starts_with(b"HTTP/1.1 200"));

        let (raw, seen) = faulty(&engine, &with("events:3"), &body).await;
        let answer = Transcript::from_bytes(raw).unwrap();
        assert_eq!((seen, answer.is_complete(), events(&answer).len()), (end, false, 3));

        for at in [1, 100, 239] {
            let (raw, seen) = faulty(&engine, &with(&format!("bytes:{at}")), &body).await;
            let answer = Transcript::from_bytes(raw).unwrap();
            assert_eq!((seen, answer.is_complete(), answer.body().len()), (end, false, at));
        }
    }
    let stats = engine.stats();
    assert_eq!((stats.in_flight, stats.completed, stats.aborts), (0, 0, 0));
}

#[tokio::test]
async fn plain_answers_can_be_cut_too() {
    let engine = start().await;
    let body = plain_completion(5);
    let (raw, end) = faulty(&engine, "cut=after-head", &body).await;
    assert!(raw.ends_with(b"\r\n\r\n"));
    assert_eq!(end, End::Fin);
    let (raw, end) = faulty(&engine, "cut=bytes:17&cut-by=rst", &body).await;
    let answer = Transcript::from_bytes(raw).unwrap();
    assert_eq!((answer.body().len(), answer.is_complete(), end), (17, false, End::Reset));
    assert_eq!(faulty(&engine, "cut=before-head", &body).await, (Vec::new(), End::Fin));
}

#[tokio::test]
async fn a_stream_can_end_properly_without_its_terminal_event() {
    let engine = start().await;
    let answer = faulty_answer(&engine, COMPLETIONS, "end-after=2", &completion(5)).await;
    assert_eq!(events(&answer).len(), 2);
    assert!(!text(&answer).contains("[DONE]"));
    let answer = faulty_answer(&engine, COMPLETIONS, "end-after=0", &completion(5)).await;
    assert_eq!(answer.body(), b"");
}

#[tokio::test]
async fn errors_and_aborts_have_each_apis_form() {
    let engine = start().await;
    let chat = r#"{"messages":[{"role":"user","content":"hi"}],"max_tokens":9,"stream":true}"#;
    let last_two = |answer: &Transcript| {
        let mut all = events(answer);
        let last = all.pop().unwrap();
        (all.pop().unwrap(), last)
    };
    for (path, body) in [(COMPLETIONS, completion(9)), ("/v1/chat/completions", chat.to_owned())] {
        let answer = faulty_answer(&engine, path, "error-after=3", &body).await;
        assert_eq!(events(&answer).len(), 5, "three, the error and [DONE]");
        let (error, done) = last_two(&answer);
        assert!(error.1.starts_with(r#"{"error": {"message": "#), "{error:?}");
        assert_eq!(done.1, "[DONE]");

        let answer = faulty_answer(&engine, path, "abort-after=3", &body).await;
        assert!(text(&answer).contains(r#""finish_reason":"abort""#));
        assert_eq!(last_two(&answer).1.1, "[DONE]");
    }
    for fault in ["error-after=3", "abort-after=3"] {
        let answer = faulty_answer(&engine, "/v1/messages", fault, chat).await;
        let (_, error) = last_two(&answer);
        assert_eq!((events(&answer).len(), error.0.as_deref()), (4, Some("error")));
        engine.set_fault(Faults::parse(fault).unwrap());
        let body = r#"{"input":"hi","max_output_tokens":9,"stream":true}"#;
        let (answer, end) = ask(engine.addr(), "POST", "/v1/responses", &[], body).await;
        let answer = answer.unwrap();
        assert_eq!((events(&answer).len(), answer.is_complete(), end), (3, false, End::Fin));
    }
    let usage = faulty_answer(&engine, COMPLETIONS, "abort-after=3", &completion(9)).await;
    assert!(text(&usage).contains(r#""completion_tokens":3}"#), "usage of an aborted stream");
}

#[tokio::test]
async fn plain_answers_fail_as_streams_do() {
    let engine = start().await;
    let body = plain_completion(4);
    let answer = faulty_answer(&engine, COMPLETIONS, "error-after=0", &body).await;
    assert_eq!(answer.status(), 500);
    assert!(text(&answer).contains("EngineCore encountered an issue"));
    let answer = faulty_answer(&engine, COMPLETIONS, "abort-after=0", &body).await;
    assert_eq!(answer.status(), 200);
    assert!(text(&answer).contains(r#""finish_reason":"abort""#));
    let answer = faulty_answer(&engine, COMPLETIONS, "stop-after=2", &body).await;
    assert!(text(&answer).contains(r#""finish_reason":"stop""#));
    assert!(text(&answer).contains(r#""completion_tokens":2,"#));
}

#[tokio::test]
async fn a_stalled_stream_is_silent_until_the_client_goes() {
    let engine = start().await;
    for (faults, body, events_before) in [
        ("stall-after=2", completion(5), Some(2)),
        ("stall-after=0", completion(5), Some(0)),
        ("stall-after=0", plain_completion(5), None),
    ] {
        engine.reset_stats();
        engine.set_fault(Faults::parse(faults).unwrap());
        let mut client = Client::connect(engine.addr()).await;
        client.send(request("POST", COMPLETIONS, &[], &body)).await;
        client.falls_silent(|raw| event_count(raw) == events_before).await;
        if events_before.is_none() {
            assert_eq!(client.raw, b"");
        }
        engine.wait_stats(|s| s.in_flight == 1, BOUND).await.unwrap();
        assert_eq!(engine.stats().in_flight, 1);
        drop(client);
        engine.wait_stats(|s| s.in_flight == 0 && s.aborts == 1, BOUND).await.unwrap();
    }
}

#[tokio::test]
async fn opening_events_then_silence() {
    let engine = start().await;
    let chat = r#"{"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"stream":true}"#;
    let responses = r#"{"input":"hi","max_output_tokens":3,"stream":true}"#;
    for (path, body, opening) in [
        ("/v1/chat/completions", chat, 1),
        ("/v1/messages", chat, 2),
        ("/v1/responses", responses, 4),
    ] {
        engine.set_fault(Faults::parse("opening-silence=400ms").unwrap());
        let mut client = Client::connect(engine.addr()).await;
        client.send(request("POST", path, &[], body)).await;
        let (answer, end) = client.answer().await;
        assert_eq!(end, End::Complete);
        let longest = client.reads.windows(2).map(|w| w[1].0 - w[0].0).max().unwrap();
        assert!(longest >= Duration::from_millis(390), "{longest:?}");
        let before: usize =
            client.reads.windows(2).take_while(|w| w[1].0 - w[0].0 < longest).count() + 1;
        let bytes: usize = client.reads[..before].iter().map(|(_, n)| n).sum();
        let answer = answer.unwrap();
        let part = Transcript::from_bytes(answer.raw()[..bytes].to_vec()).unwrap();
        assert_eq!(events(&part).len(), opening, "{path}");
    }
    {
        engine.set_fault(Faults::parse("opening-silence=forever").unwrap());
        let mut client = Client::connect(engine.addr()).await;
        client.send(request("POST", "/v1/chat/completions", &[], chat)).await;
        client.falls_silent(|raw| event_count(raw) == Some(1)).await;
    }
}

#[tokio::test]
async fn delays_come_where_they_are_asked_for() {
    let engine = start().await;
    let delay = Duration::from_millis(150);
    for body in [completion(2), plain_completion(2)] {
        engine.set_fault(Faults { delay_head: Some(delay), ..Faults::default() });
        let mut client = Client::connect(engine.addr()).await;
        let start = Instant::now();
        client.send(request("POST", COMPLETIONS, &[], &body)).await;
        client.answer().await;
        assert!(client.reads[0].0 - start >= delay);

        engine.set_fault(Faults { delay_first: Some(delay), ..Faults::default() });
        let mut client = Client::connect(engine.addr()).await;
        client.send(request("POST", COMPLETIONS, &[], &body)).await;
        client.answer().await;
        assert!(client.reads[1].0 - client.reads[0].0 >= delay - Duration::from_millis(20));
    }
}

#[tokio::test]
async fn statuses_are_answered_in_the_apis_form() {
    let engine = start().await;
    for status in [429, 500, 502, 503, 404] {
        let fault = format!("status={status}&retry-after=7");
        let answer = faulty_answer(&engine, COMPLETIONS, &fault, &completion(1)).await;
        assert_eq!((answer.status(), answer.header("retry-after")), (status, Some("7")));
        assert!(text(&answer).starts_with(r#"{"error":{"message":"#));
        assert!(text(&answer).ends_with(&format!(r#""code":{status}}}}}"#)));
    }
    let body = r#"{"messages":[{"role":"user","content":"hi"}],"max_tokens":3}"#;
    let answer = faulty_answer(&engine, "/v1/messages", "status=503", body).await;
    assert!(text(&answer).starts_with(r#"{"type":"error","error":{"type":"#));
    let (raw, end) = faulty(&engine, "drain-500", &completion(1)).await;
    let answer = Transcript::from_bytes(raw).unwrap();
    assert_eq!((answer.status(), answer.header("connection"), end), (500, None, End::Fin));
    assert!(text(&answer).contains("cannot schedule new futures after shutdown"));
}

#[tokio::test]
async fn refusals_give_no_byte() {
    let engine = start().await;
    // The next connection, whatever it brings.
    engine.set_fault(Faults { refuse: true, ..Faults::default() });
    let mut client = Client::connect(engine.addr()).await;
    assert_eq!((client.read_to_end().await, client.raw.len()), (End::Fin, 0));
    assert_eq!(get(engine.addr(), "/health").await.status(), 200);
    // By header, and on a connection that already exists.
    let mut client = Client::connect(engine.addr()).await;
    client.send(request("POST", COMPLETIONS, &[], &completion(1))).await;
    assert_eq!(client.answer().await.1, End::Complete);
    let headers = [("x-sim-refuse", "1"), ("x-sim-cut-by", "rst")];
    client.send(request("POST", COMPLETIONS, &headers, &completion(1))).await;
    assert_eq!((client.read_to_end().await, client.raw.len()), (End::Reset, 0));
}

#[tokio::test]
async fn forms_of_the_stream_keep_its_content() {
    let engine = start().await;
    let plain = post(engine.addr(), COMPLETIONS, &[], &completion(6)).await;
    let content = |t: &Transcript| -> Vec<String> {
        text(t).split("\"text\":\"").skip(1).map(|s| s[..5].to_owned()).collect()
    };
    assert_eq!(content(&plain).len(), 6);
    for fault in [
        "one-byte",
        "chunk-bytes=7",
        "line-end=crlf",
        "line-end=cr",
        "no-space",
        "comments",
        "split-data",
        "bom",
        "no-space&line-end=crlf&comments&bom&chunk-bytes=3",
    ] {
        let answer = faulty_answer(&engine, COMPLETIONS, fault, &completion(6)).await;
        assert_eq!(content(&answer), content(&plain), "{fault}");
        assert_ne!(answer.body(), plain.body(), "{fault}");
    }
}

#[tokio::test]
async fn one_byte_writes_arrive_in_many_reads() {
    let engine = start().await;
    engine.set_fault(Faults::parse("one-byte").unwrap());
    let mut client = Client::connect(engine.addr()).await;
    client.send(request("POST", COMPLETIONS, &[], &completion(2))).await;
    let (answer, _) = client.answer().await;
    let bytes = answer.unwrap().raw().len();
    assert!(client.reads.len() > bytes / 4, "{} reads of {bytes} bytes", client.reads.len());
}

#[tokio::test]
async fn usage_can_be_missing() {
    let engine = start().await;
    let chat = r#"{"messages":[{"role":"user","content":"hi"}],"max_tokens":2,"stream":true,
        "stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#;
    let responses = r#"{"input":"hi","max_output_tokens":2,"stream":true}"#;
    for (path, body) in [
        (COMPLETIONS, completion(2)),
        (COMPLETIONS, plain_completion(2)),
        ("/v1/chat/completions", chat.into()),
        ("/v1/messages", chat.into()),
        ("/v1/responses", responses.into()),
    ] {
        assert!(text(&post(engine.addr(), path, &[], &body).await).contains("_tokens\":2"));
        let answer = faulty_answer(&engine, path, "no-usage", &body).await;
        let rest = text(&answer).replace("max_output_tokens\":2", "");
        assert!(!rest.contains("_tokens\":2"), "{rest}");
    }
}

#[tokio::test]
async fn events_can_be_big_hold_many_tokens_or_stop_early() {
    let engine = start().await;
    let big = faulty_answer(&engine, COMPLETIONS, "big-event=300000", &completion(3)).await;
    let sizes: Vec<usize> = big.chunks().map(<[u8]>::len).collect();
    assert!(sizes[0] > 300_000 && sizes[1] < 1000, "{sizes:?}");
    let merged = faulty_answer(&engine, COMPLETIONS, "tokens-per-event=4", &completion(10)).await;
    assert_eq!(events(&merged).len(), 3 + 2, "4 + 4 + 2 tokens, usage, [DONE]");
    assert!(text(&merged).contains(r#""completion_tokens":10}"#));
    let stopped = faulty_answer(&engine, COMPLETIONS, "stop-after=3", &completion(10)).await;
    assert!(text(&stopped).contains(r#""finish_reason":"stop""#));
    assert!(text(&stopped).contains(r#""completion_tokens":3}"#));
}

#[tokio::test]
async fn comments_come_by_header_while_a_stream_is_silent() {
    let engine = start().await;
    let headers = [("x-sim-keep-alive", "20ms"), ("x-sim-interval", "100ms")];
    let answer = post(engine.addr(), COMPLETIONS, &headers, &completion(3)).await;
    let comments = answer.chunks().filter(|c| *c == b": keep-alive\n\n").count();
    assert!((2..=20).contains(&comments), "{comments} in 200 ms");
}

#[tokio::test]
async fn faults_can_be_queued_over_http_for_paths_and_numbers_of_requests() {
    let engine = start().await;
    let addr = engine.addr();
    let next = |query: &str| format!("/sim/next?{query}");
    let ok = post(addr, &next("status=503&times=2"), &[], "").await;
    assert_eq!(ok.status(), 200);
    post(addr, &next("for=/health&status=500&times=all"), &[], "").await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(post(addr, COMPLETIONS, &[], &completion(1)).await.status());
        assert_eq!(get(addr, "/health").await.status(), 500);
    }
    assert_eq!(seen, [503, 503, 200]);
    post(addr, "/sim/reset", &[], "").await;
    assert_eq!(get(addr, "/health").await.status(), 200);
    let bad = post(addr, &next("cut=sometime"), &[], "").await;
    assert_eq!(bad.status(), 400);
    assert!(text(&bad).contains("give before-head, after-head, events:N or bytes:N"));
    let bad = post(addr, COMPLETIONS, &[("x-sim-bom", "maybe")], &completion(1)).await;
    assert_eq!(bad.status(), 400);
    assert!(text(&bad).contains("fault bom=maybe: give 1 or 0"));
}

#[tokio::test]
async fn a_rule_set_in_process_lasts_until_cleared() {
    let engine = start().await;
    let cut = Faults { cut: Some(Cut::Events(1)), cut_by: CloseBy::Rst, ..Faults::default() };
    engine.set_fault(FaultRule::always(cut));
    for _ in 0..3 {
        assert_eq!(
            ask(engine.addr(), "POST", COMPLETIONS, &[], &completion(3)).await.1,
            End::Reset
        );
    }
    engine.clear_faults();
    post(engine.addr(), COMPLETIONS, &[], &completion(3)).await;
}
