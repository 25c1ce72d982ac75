//! Bytes on their way: request bodies arrive as they were sent, streams as they were written.

use crate::support::h2::H2;
use crate::support::request::Request;
use crate::support::scripted::{CHAT_END, STREAM_HEAD, Scripted, chat_event};
use crate::support::wire::{Ending, Wire};
use crate::support::{Api, Call, Gate, Proto, Setup, ask, timeless};
use bytes::Bytes;
use serde_json::json;
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig, body_hash};
use tokio::io::AsyncReadExt;

const LIMIT: usize = 2 << 20;

async fn rig() -> (Engine, Gate) {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(2))).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 4");
    (engine, Gate::start(setup.with("limits: {body: 2MiB}")).await)
}

/// Bytes that repeat nowhere within a read.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect()
}

fn arrived(engine: &Engine) -> (Option<usize>, Option<String>) {
    let last = engine.requests().into_iter().rev().find(|request| request.method == "POST");
    let last = last.expect("a request at the engine");
    (last.body_len, last.body_hash)
}

fn expected(body: &[u8]) -> (Option<usize>, Option<String>) {
    (Some(body.len()), Some(format!("{:016x}", body_hash(body))))
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Length,
    Chunks(usize),
    Http2 { length: bool },
}

/// Send the request in this framing; the status of its answer.
async fn upload(gate: &Gate, request: &Request, framing: Framing) -> u16 {
    match framing {
        Framing::Length => gate.answer(request).await.status,
        Framing::Chunks(size) => {
            let mut wire = Wire::connect(gate.proxy).await;
            let bytes = request.chunked(size);
            wire.duplex(&bytes).await.status
        }
        Framing::Http2 { length } => {
            let mut connection = H2::connect(gate.proxy).await;
            let size = request.body().len().to_string();
            let request = if length {
                request.clone().header("content-length", &size)
            } else {
                request.clone()
            };
            let mut call = connection.send(&request).await;
            let status = call.head().await.unwrap().0;
            // Whoever leaves before the end has cancelled.
            while let Ok(Some(_)) = call.piece().await {}
            status
        }
    }
}

const FRAMINGS: [Framing; 5] = [
    Framing::Length,
    Framing::Chunks(700),
    Framing::Chunks(100_000),
    Framing::Http2 { length: true },
    Framing::Http2 { length: false },
];

#[tokio::test]
async fn bodies_of_all_sizes_arrive_unchanged() {
    let (engine, gate) = rig().await;
    for size in [0, 1, 1000, 16_384, 65_535, 65_536, 65_537, 1 << 20, LIMIT - 1, LIMIT] {
        let body = pattern(size);
        // Not understood, so passed on untouched; the engine finds fault with it afterwards.
        let request = Request::post("/v1/embeddings", "a", body.clone());
        for framing in FRAMINGS {
            assert_eq!(upload(&gate, &request, framing).await, 400, "{size}, {framing:?}");
            assert_eq!(arrived(&engine), expected(&body), "{size}, {framing:?}");
        }
    }
    gate.settled().await;
}

/// Of a streamed body one option is changed, at any size and in any framing.
#[tokio::test]
async fn a_streamed_body_gains_its_option_and_nothing_else() {
    let (engine, gate) = rig().await;
    for size in [1, 60_000, 70_000, LIMIT - 200] {
        let rest = format!(
            r#""model": "none", "stream" :true, "n":1, "prompt": "é\u0041 {}"}}"#,
            "x".repeat(size)
        );
        let body = format!("{{ {rest}");
        let injected = format!(r#"{{"stream_options":{{"include_usage":true}}, {rest}"#);
        let request = Request::post("/v1/completions", "a", body);
        for framing in FRAMINGS {
            assert_eq!(upload(&gate, &request, framing).await, 404, "{size}, {framing:?}");
            assert_eq!(arrived(&engine), expected(injected.as_bytes()), "{size}, {framing:?}");
        }
    }
}

/// Larger than allowed: refused before the body is read where its length is announced, and in any
/// case before an engine hears of it.
#[tokio::test]
async fn too_large_is_refused_unread() {
    let (engine, gate) = rig().await;
    let large = Request::post("/v1/embeddings", "a", pattern(LIMIT + 1));
    for framing in FRAMINGS {
        assert_eq!(upload(&gate, &large, framing).await, 413, "{framing:?}");
    }
    let small = Request::post("/v1/embeddings", "a", "");
    for expect in ["", "expect: 100-continue\r\n"] {
        let mut wire = Wire::connect(gate.proxy).await;
        let announced = format!("{expect}content-length: {}\r\n", LIMIT + 1);
        wire.send(&small.head(&announced)).await;
        let (raw, ending) = wire.raw_rest().await;
        let raw = String::from_utf8(raw).unwrap();
        assert!(raw.starts_with("HTTP/1.1 413 "), "no 100 and no wait: {raw}");
        assert!(raw.to_ascii_lowercase().contains("connection: close\r\n"), "{raw}");
        assert!(raw.contains("payload_too_large"), "{raw}");
        assert_eq!(ending, Ending::Cut, "closed properly");
    }
    assert_eq!(gate.settled().await.outcome("rejected"), 7.0);
    assert_eq!(engine.stats().requests, 0);
}

#[tokio::test]
async fn expect_100_continue_gets_its_100() {
    let (engine, gate) = rig().await;
    let request = Api::Chat.plain(3);
    let length = request.body().len();
    let head = request.head(&format!("expect: 100-continue\r\ncontent-length: {length}\r\n"));
    let mut wire = Wire::connect(gate.proxy).await;
    for _ in 0..3 {
        wire.send(&head).await;
        let mut interim = [0; 25];
        wire.stream.read_exact(&mut interim).await.unwrap();
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        wire.send(request.body()).await;
        let answer = wire.answer().await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{}", answer.text());
        assert_eq!(answer.headers["connection"], "keep-alive");
    }
    assert!(engine.requests().iter().all(|request| request.header("expect").is_none()));

    // Who is not let in is not asked for a body.
    let stranger = Request::post(Api::Chat.path(), "nobody", "");
    let mut wire = Wire::connect(gate.proxy).await;
    wire.send(&stranger.head("expect: 100-continue\r\ncontent-length: 100\r\n")).await;
    let (raw, ending) = wire.raw_rest().await;
    let raw = String::from_utf8(raw).unwrap();
    assert!(raw.starts_with("HTTP/1.1 401 "), "{raw}");
    assert!(raw.to_ascii_lowercase().contains("connection: close\r\n"), "{raw}");
    assert_eq!(ending, Ending::Cut);
}

#[tokio::test]
async fn a_body_that_does_not_come_whole_reaches_no_engine() {
    let (engine, gate) = rig().await;
    let request = Request::post(Api::Chat.path(), "a", "");
    let halves: [&[u8]; 2] = [b"content-length: 100\r\n", b"transfer-encoding: chunked\r\n"];
    for half in halves {
        let mut wire = Wire::connect(gate.proxy).await;
        wire.send(&request.head(std::str::from_utf8(half).unwrap())).await;
        wire.send(b"5\r\nhello\r\n").await;
        wire.half_close().await;
        assert!(wire.closed().await);
    }
    let mut connection = H2::connect(gate.proxy).await;
    let mut call = connection.open(&request, false).await;
    call.write(Bytes::from_static(b"half"), false);
    call.reset();
    let count = |metrics: &crate::support::Metrics| metrics.outcome("client_cancelled");
    gate.metrics_when("three are gone", |metrics| count(metrics) == 3.0).await;

    // Not gone, but wrong: it is told so.
    for chunks in ["zz\r\nhello\r\n0\r\n\r\n", "5\r\nhelloXX0\r\n\r\n"] {
        let mut wire = Wire::connect(gate.proxy).await;
        wire.send(&request.head("transfer-encoding: chunked\r\n")).await;
        wire.send(chunks.as_bytes()).await;
        let answer = wire.answer().await;
        assert_eq!((answer.status, answer.reason()), (400, Some("bad_request")), "{chunks:?}");
    }
    assert_eq!(engine.stats().requests, 0);
    gate.settled().await;
}

/// An engine that refuses an upload while it still comes: its answer, or an honest error; soon.
#[tokio::test]
async fn an_engine_may_refuse_before_it_has_read() {
    let config = EngineConfig { body_limit: 100_000, ..EngineConfig::default() };
    let engine = Engine::start(config).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 1");
    let gate = Gate::start(setup.with("limits: {body: 16MiB}")).await;
    for size in [100_001, 1 << 20, 12 << 20] {
        let request = Request::post("/v1/embeddings", "a", pattern(size));
        for framing in FRAMINGS {
            let status = upload(&gate, &request, framing).await;
            assert!(matches!(status, 413 | 502), "{size}, {framing:?}: {status}");
        }
    }
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("upstream_error"), 15.0);
    gate.all_slots_free(1, &engine).await;
}

/// Case 30: an event is at the client before the engine writes the next one, in the engine's own
/// pieces; a proxy that waited for more would wait for ever.
#[tokio::test]
async fn every_event_arrives_before_the_next_is_written() {
    let mut engine = Scripted::start().await;
    let gate = Gate::start(Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 4")).await;
    for proto in Proto::ALL {
        let mut call = Call::start(proto, gate.proxy, &Api::Chat.stream(99)).await;
        let mut taken = engine.next().await;
        taken.write(STREAM_HEAD).await;
        for n in 0..60 {
            // Large ones too: more than a TCP segment, less than what is joined.
            let event = chat_event(&format!("{n} {}", "x".repeat(n * 150)));
            taken.chunk(&event).await;
            if n == 0 {
                assert_eq!(call.head().await.unwrap().0, 200);
            }
            let mut piece = call.piece().await.unwrap().unwrap();
            // HTTP/2 may cut a piece in frames.
            while proto == Proto::H2c && piece.len() < event.len() {
                piece.extend(call.piece().await.unwrap().unwrap());
            }
            assert_eq!(String::from_utf8(piece).unwrap(), event, "{proto:?}");
        }
        taken.chunk(CHAT_END).await;
        taken.end().await;
        assert_eq!(call.rest().await, (CHAT_END.to_owned(), Ending::Whole));
    }
}

/// Without what is random in an answer of the responses API.
fn anonymous(text: &str) -> String {
    let mut text = timeless(text);
    for prefix in ["resp_", "msg_"] {
        let mut parts = text.split(prefix);
        let first = parts.next().unwrap_or_default().to_owned();
        text = parts.fold(first, |joined, part| joined + prefix + part.get(16..).unwrap_or(part));
    }
    text
}

/// Case 22: however the engine cuts and spells its stream, the client has the engine's bytes and
/// the stream is understood.
#[tokio::test]
async fn odd_forms_pass_and_are_understood() {
    let (engine, gate) = rig().await;
    let forms = [
        "one-byte",
        "chunk-bytes=7",
        "line-end=crlf",
        "line-end=cr",
        "line-end=crlf&one-byte",
        "no-space",
        "comments",
        "split-data",
        "bom",
        "split-data&comments&line-end=crlf&chunk-bytes=3",
        "keep-alive=1ms",
        "big-event=200000",
        "tokens-per-event=4",
    ];
    for (n, form) in forms.into_iter().enumerate() {
        for api in Api::ALL {
            let id = format!("form-{n}-{}", api.name());
            let usage = json!({"stream_options": {"include_usage": true}});
            let request = match api {
                Api::Completions | Api::Chat => api.stream_with(8, usage),
                Api::Responses | Api::Messages => api.stream(8),
            };
            let request = request.fault(form).id(&id);
            let direct = ask(Proto::H1, engine.addr(), &request).await;
            let answer = ask(Proto::ALL[n % 2], gate.proxy, &request).await;
            assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{api:?} {form}");
            // How often it says that it is alive depends on time.
            if !form.starts_with("keep-alive") {
                let (own, engines) = (anonymous(&answer.text()), anonymous(&direct.text()));
                assert_eq!(own, engines, "{api:?} {form}");
            }
            let line = gate.line_of(&id).await;
            assert_eq!(line["outcome"], "complete", "{api:?} {form}: {line}");
            assert_eq!(line["completion_tokens"], 8, "{api:?} {form}: {line}");
        }
    }
}

/// Case 16: usage is asked for and taken out again; the rest is what the engine wrote.
#[tokio::test]
async fn only_the_usage_chunk_is_taken_out() {
    let (engine, gate) = rig().await;
    for (n, api) in [Api::Completions, Api::Chat].into_iter().enumerate() {
        let usage = json!({"stream_options": {"include_usage": true}});
        let asked = api.stream_with(9, usage).id("same");
        let direct = ask(Proto::H1, engine.addr(), &asked).await.text();
        let chunks = direct.split_inclusive("\n\n");
        let (extra, kept): (Vec<_>, Vec<_>) = chunks.partition(|c| c.contains(r#""choices":[]"#));
        assert_eq!(extra.len(), 1, "{direct}");
        let answer = ask(Proto::ALL[n], gate.proxy, &api.stream(9).id("same")).await;
        assert_eq!(timeless(&answer.text()), timeless(&kept.concat()));
        let own = ask(Proto::ALL[n], gate.proxy, &asked).await;
        assert_eq!(timeless(&own.text()), timeless(&direct), "who asks for it gets it");
    }
    let metrics = gate.settled().await;
    let counted = metrics.sum_where("streamgate_tokens_total", &[("kind", "completion")]);
    assert_eq!(counted, 36.0);
}

/// Answers without a body, without a length, and of any size.
#[tokio::test]
async fn plain_answers_pass_in_every_framing() {
    let mut engine = Scripted::start().await;
    let gate = Gate::start(Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 4")).await;
    let large = String::from_utf8(vec![b'z'; 6_000_000]).unwrap();
    let answers = [
        ("204 No Content", "", "", ""),
        ("304 Not Modified", "etag: \"x\"\r\n", "", ""),
        ("200 OK", "content-length: 0\r\n", "", ""),
        ("200 OK", "content-length: 5\r\n", "hello", "hello"),
        ("200 OK", "transfer-encoding: chunked\r\n", "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", "hello"),
        ("200 OK", "transfer-encoding: chunked\r\n", "0\r\n\r\n", ""),
        ("200 OK", "connection: close\r\n", "to the end", "to the end"),
        ("200 OK", "content-length: 6000000\r\n", &large, &large),
        ("201 Created", "connection: close\r\n", &large, &large),
    ];
    for (status, headers, body, whole) in answers {
        for request in [Request::post("/v1/other", "a", "{}"), Api::Chat.plain(3)] {
            for proto in Proto::ALL {
                let at = format!("{status}, {headers:?}, {proto:?}, {request:?}");
                let mut call = Call::start(proto, gate.proxy, &request).await;
                let mut taken = engine.next().await;
                let write = async {
                    taken.write(format!("HTTP/1.1 {status}\r\n{headers}\r\n{body}")).await;
                    drop(taken);
                };
                let ((), answer) = tokio::join!(write, call.answer());
                assert_eq!(answer.ending, Ending::Whole, "{at}");
                assert!(status.starts_with(&answer.status.to_string()), "{at}");
                assert!(answer.body == whole.as_bytes(), "{at}: {} bytes", answer.body.len());
            }
        }
    }
    assert_eq!(gate.settled().await.outcome("complete"), 36.0);
}

/// An engine that announces the length of its stream: what is taken out or added changes it.
#[tokio::test]
async fn a_streams_length_is_not_the_engines_to_announce() {
    let mut engine = Scripted::start().await;
    let gate = Gate::start(Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 4")).await;
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n";
    let (kept, end) = (chat_event("one"), CHAT_END);
    let (last, done) = end.split_at(end.find("data: [DONE]").unwrap());
    let body = format!("{kept}{last}{usage}{done}");
    for proto in Proto::ALL {
        for whole in [true, false] {
            let mut call = Call::start(proto, gate.proxy, &Api::Chat.stream(9)).await;
            let mut taken = engine.next().await;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length";
            let sent = if whole { &body } else { &kept };
            taken.write(format!("{head}: {}\r\n\r\n{sent}", body.len())).await;
            drop(taken);
            assert_eq!(call.head().await.unwrap().0, 200);
            let (text, ending) = call.rest().await;
            if whole {
                assert_eq!((text, ending), (format!("{kept}{end}"), Ending::Whole));
            } else {
                assert_ne!(ending, Ending::Whole);
                Api::Chat.error_event(&text);
            }
        }
    }
}

/// Neither a head nor the first bytes of a body wait for what the engine has not written yet.
#[tokio::test]
async fn a_head_does_not_wait_for_its_body() {
    let mut engine = Scripted::start().await;
    let gate = Gate::start(Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 4")).await;
    for framing in ["content-length: 8", "transfer-encoding: chunked"] {
        let chunked = framing.ends_with("chunked");
        for kind in ["application/json", "text/event-stream"] {
            let mut wire = Wire::connect(gate.proxy).await;
            wire.send(&Request::get("/v1/other", "a").bytes()).await;
            let mut taken = engine.next().await;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{framing}\r\n\r\n");
            taken.write(head).await;
            let head = wire.head().await.expect("the head, while the body is not there");
            assert_eq!((head.0, head.1["content-type"].as_str()), (200, kind));
            taken.write(if chunked { "4\r\nhalf\r\n" } else { "half" }).await;
            wire.more().await.expect("half of it, while the rest is not there");
            taken.write(if chunked { "4\r\nrest\r\n0\r\n\r\n" } else { "rest" }).await;
            let answer = wire.rest_of(head).await;
            assert_eq!((answer.text().as_str(), answer.ending), ("halfrest", Ending::Whole));
        }
    }
    assert_eq!(gate.settled().await.outcome("complete"), 4.0);
}
