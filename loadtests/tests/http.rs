//! HTTP/1.1 as uvicorn does it, and the server that replays.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

mod common;

use std::time::{Duration, Instant};

use common::{Client, End, completion, fixture, get, post, request, text};
use streamgate_loadtests::engine::{CloseBy, Engine, EngineConfig};
use streamgate_loadtests::replay::{Ending, Position, Replay, ReplayServer, Split, Transcript};

const COMPLETIONS: &str = "/v1/completions";

async fn start() -> Engine {
    Engine::start(EngineConfig::default()).await.unwrap()
}

#[tokio::test]
async fn bodies_come_by_length_or_chunked_in_any_pieces() {
    let engine = start().await;
    let body = completion(2);
    let (a, b) = body.split_at(7);
    let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunked = format!(
        "{head}{:x};ext=1\r\n{a}\r\n{:x}\r\n{b}\r\n0\r\ntrailer: 1\r\n\r\n",
        a.len(),
        b.len()
    );
    let plain = request("POST", COMPLETIONS, &[], &body);
    let mut client = Client::connect(engine.addr()).await;
    for bytes in [&chunked, &plain] {
        client.send(bytes).await;
        assert_eq!(client.answer().await.0.unwrap().status(), 200);
        for byte in bytes.as_bytes() {
            client.send([*byte]).await;
        }
        assert_eq!(client.answer().await.0.unwrap().status(), 200);
    }
    let seen = engine.requests();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|r| r.body.as_deref() == Some(body.as_bytes()) && r.connection == 1));
}

#[tokio::test]
async fn a_client_that_expects_100_gets_it() {
    let engine = start().await;
    let body = completion(1);
    let bytes = request("POST", COMPLETIONS, &[("expect", "100-continue")], &body);
    let head = &bytes[..bytes.len() - body.len()];
    let mut client = Client::connect(engine.addr()).await;
    client.send(head).await;
    client.until(|raw| raw.ends_with(b"\r\n\r\n")).await;
    assert_eq!(client.raw, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.raw.clear();
    client.send(&body).await;
    assert_eq!(client.answer().await.0.unwrap().status(), 200);
}

#[tokio::test]
async fn big_bodies_pass_and_too_big_ones_get_413() {
    let limit = 20 * 1024 * 1024;
    let config =
        EngineConfig { body_limit: limit, max_model_len: 10_000_000, ..EngineConfig::default() };
    let engine = Engine::start(config).await.unwrap();
    let body = |len: usize| format!(r#"{{"max_tokens":1,"prompt":"{}"}}"#, "ab ".repeat(len / 3));
    let answer = post(engine.addr(), COMPLETIONS, &[], &body(limit - 1000)).await;
    assert_eq!(answer.status(), 200, "{}", text(&answer));
    let head = format!("POST {COMPLETIONS} HTTP/1.1\r\ncontent-length: {}\r\n\r\n", limit + 1);
    let mut client = Client::connect(engine.addr()).await;
    client.send(head).await;
    assert_eq!(client.answer().await.0.unwrap().status(), 413);
    assert_eq!(client.read_to_end().await, End::Fin);
}

#[tokio::test]
async fn broken_framing_is_refused() {
    let engine = start().await;
    for head in [
        "POST /v1/completions HTTP/1.1\r\ncontent-length: many\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabcd",
        "NOT HTTP\r\n\r\n",
    ] {
        let mut client = Client::connect(engine.addr()).await;
        client.send(head).await;
        assert_eq!(client.answer().await.0.unwrap().status(), 400, "{head}");
        assert_ne!(client.read_to_end().await, End::Silent, "{head}");
    }
}

#[tokio::test]
async fn idle_connections_are_closed_after_their_time_and_fresh_ones_are_not() {
    let keep_alive = Duration::from_millis(150);
    let config = EngineConfig { keep_alive, ..EngineConfig::default() };
    let engine = Engine::start(config).await.unwrap();
    let mut fresh = Client::connect(engine.addr()).await;
    let mut used = Client::connect(engine.addr()).await;
    for _ in 0..2 {
        used.send(request("GET", "/health", &[], "")).await;
        used.answer().await;
    }
    let idle_since = Instant::now();
    assert_eq!(used.read_to_end().await, End::Fin);
    let idle = idle_since.elapsed();
    assert!((140..3000).contains(&idle.as_millis()), "{idle:?}");
    assert_eq!(fresh.read(keep_alive).await, Some(End::Silent));
    fresh.send(request("GET", "/health", &[], "")).await;
    assert_eq!(fresh.answer().await.0.unwrap().status(), 200);
}

#[tokio::test]
async fn connections_close_where_the_client_asks() {
    let engine = start().await;
    for (method, path, body) in
        [("POST", COMPLETIONS, completion(1)), ("GET", "/health", "".into())]
    {
        let mut client = Client::connect(engine.addr()).await;
        client.send(request(method, path, &[("connection", "close")], &body)).await;
        let (answer, _) = client.answer().await;
        assert_eq!(answer.unwrap().header("connection"), Some("close"));
        assert_eq!(client.read_to_end().await, End::Fin);
    }
}

#[tokio::test]
async fn embeddings_are_answered() {
    let engine = start().await;
    let answer =
        post(engine.addr(), "/v1/embeddings", &[], r#"{"input":["one two","three"]}"#).await;
    let body: serde_json::Value = serde_json::from_slice(&answer.body()).unwrap();
    assert_eq!(body["data"].as_array().unwrap().len(), 2);
    assert_eq!(body["usage"]["prompt_tokens"], 3);
    assert_eq!(engine.stats().completed, 1);
}

const CHAT: &str = "/v1/chat/completions";

async fn replayed(replay: Replay) -> (Client, End) {
    let server = ReplayServer::start().await.unwrap();
    server.serve(CHAT, replay);
    let mut client = Client::connect(server.addr()).await;
    client.send(request("POST", CHAT, &[], "{}")).await;
    let end = client.read_to_end().await;
    (client, end)
}

#[tokio::test]
async fn a_transcript_is_replayed_byte_for_byte_on_a_kept_connection() {
    let transcript = fixture("chat_stream_usage");
    let asked = transcript.request().unwrap().clone();
    let server = ReplayServer::start().await.unwrap();
    for split in [Split::Whole, Split::EveryByte, Split::Chunks, Split::At(Position::Body(300))] {
        server.serve(&asked.path, Replay { split, ..Replay::whole(transcript.clone()) });
        let mut client = Client::connect(server.addr()).await;
        for _ in 0..2 {
            client.send(request(&asked.method, &asked.path, &[], &asked.body)).await;
            let (answer, end) = client.answer().await;
            assert_eq!(end, End::Complete);
            assert_eq!(answer.unwrap().raw(), transcript.raw());
        }
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 8);
    assert_eq!(requests[7].body.as_deref(), Some(asked.body.as_bytes()));
    assert_eq!(get(server.addr(), "/other").await.status(), 404);
}

#[tokio::test]
async fn a_transcript_is_cut_at_any_byte() {
    let transcript = fixture("chat_stream_usage");
    for (position, by, end) in [
        (Position::Body(0), CloseBy::Fin, End::Fin),
        (Position::Body(257), CloseBy::Rst, End::Reset),
        (Position::Body(700), CloseBy::Fin, End::Fin),
        (Position::Raw(10), CloseBy::Rst, End::Reset),
        (Position::Raw(500), CloseBy::Fin, End::Fin),
    ] {
        let replay = Replay {
            until: Some(position),
            ending: Ending::Close(by),
            ..Replay::whole(transcript.clone())
        };
        let (client, seen) = replayed(replay).await;
        assert_eq!(seen, end, "{position:?}");
        assert_eq!(client.raw, transcript.raw()[..transcript.raw_offset(position)]);
        if let Position::Body(n) = position {
            assert_eq!(Transcript::from_bytes(client.raw).unwrap().body().len(), n);
        }
    }
}

#[tokio::test]
async fn a_cut_transcript_ends_or_falls_silent_as_told() {
    let transcript = fixture("cut_midstream_responses_stream");
    let (client, end) = replayed(Replay::whole(transcript.clone())).await;
    assert_eq!((client.raw.len(), end), (transcript.raw().len(), End::Fin));
    let silent = Replay { ending: Ending::Silence, ..Replay::whole(transcript.clone()) };
    let server = ReplayServer::start().await.unwrap();
    server.serve(CHAT, silent);
    let mut client = Client::connect(server.addr()).await;
    client.send(request("POST", CHAT, &[], "{}")).await;
    client.until(|raw| raw.len() == transcript.raw().len()).await;
    assert_eq!(client.read(Duration::from_millis(100)).await, Some(End::Silent));
}

#[tokio::test]
async fn parts_arrive_apart() {
    let transcript = fixture("chat_stream_usage");
    let replay = Replay {
        split: Split::At(Position::Raw(400)),
        pause: Duration::from_millis(50),
        ending: Ending::Close(CloseBy::Fin),
        ..Replay::whole(transcript.clone())
    };
    let (client, _) = replayed(replay).await;
    let lengths: Vec<usize> = client.reads.iter().map(|(_, n)| *n).collect();
    assert_eq!(lengths, [400, transcript.raw().len() - 400]);
    assert!(client.reads[1].0 - client.reads[0].0 >= Duration::from_millis(45));
}

#[tokio::test]
async fn every_captured_answer_can_be_replayed() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/vllm");
    let mut count = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.extension().is_none_or(|e| e != "raw") || name == "h2_prior_knowledge" {
            continue;
        }
        let transcript = Transcript::load(&path).unwrap();
        let cut = ["cut_midstream_completions_timeout_expired", "cut_midstream_responses_stream"];
        // The answer to HEAD names the length of a body it does not have.
        let complete = !cut.contains(&name.as_str()) && name != "health_head";
        assert_eq!(transcript.is_complete(), complete, "{name}");
        count += 1;
    }
    assert!(count > 40, "{count}");
}
