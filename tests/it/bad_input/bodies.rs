//! Bodies whose framing lies, breaks off or is too large.

use super::{CAP, Rig, assert_refused, calm, post, told};
use crate::support::call::{Call, Proto};
use crate::support::h2::H2;
use crate::support::request::{Request, chat};
use crate::support::wire::{Ending, Wire};
use crate::support::{Setup, eventually};
use bytes::Bytes;
use serde_json::json;

fn chunked(chunks: &str) -> Vec<u8> {
    [post("").head("transfer-encoding: chunked\r\n"), chunks.as_bytes().to_vec()].concat()
}

/// Chunk framing that is none: status 400.
fn broken_chunks() -> Vec<(&'static str, String)> {
    let body = chat(1, false);
    let size = format!("{:x}", body.len());
    vec![
        ("no size", format!("zz\r\n{body}\r\n0\r\n\r\n")),
        ("a negative size", format!("-{size}\r\n{body}\r\n0\r\n\r\n")),
        ("a signed size", format!("+{size}\r\n{body}\r\n0\r\n\r\n")),
        ("a size in C", format!("0x{size}\r\n{body}\r\n0\r\n\r\n")),
        ("an empty size", format!("\r\n{body}\r\n0\r\n\r\n")),
        ("a size beyond 64 bits", format!("ffffffffffffffffff\r\n{body}\r\n0\r\n\r\n")),
        ("the largest size", "ffffffffffffffff\r\nx\r\n0\r\n\r\n".to_owned()),
        ("a size that is too small", format!("5\r\n{body}\r\n0\r\n\r\n")),
        ("no line end after the data", format!("{size}\r\n{body}0\r\n\r\n")),
        (
            "an extension of 100 kB",
            format!("{size};a={}\r\n{body}\r\n0\r\n\r\n", "b".repeat(100_000)),
        ),
        (
            "a trailer of 100 kB",
            format!("{size}\r\n{body}\r\n0\r\nx: {}\r\n\r\n", "b".repeat(100_000)),
        ),
    ]
}

#[tokio::test]
async fn broken_chunks_are_a_400() {
    let rig = Rig::start().await;
    for (what, chunks) in broken_chunks() {
        let answer = told(rig.gate.proxy, &chunked(&chunks)).await;
        let answer = answer.unwrap_or_else(|| panic!("{what}: closed without an answer"));
        assert_refused(&answer, 400, "bad_request", what);
    }
    assert_eq!(rig.asked(), 0, "nothing of it may reach an engine");
    rig.unharmed().await;
}

#[tokio::test]
async fn unusual_chunks_are_served() {
    let rig = Rig::start().await;
    let body = chat(1, false);
    let size = format!("{:x}", body.len());
    let one_by_one: String = body.chars().map(|c| format!("1\r\n{c}\r\n")).collect();
    for (what, chunks) in [
        ("an extension", format!("{size};name=\"value\"\r\n{body}\r\n0;last\r\n\r\n")),
        ("zeros before", format!("0000{size}\r\n{body}\r\n000\r\n\r\n")),
        ("capitals", format!("{}\r\n{body}\r\n0\r\n\r\n", size.to_uppercase())),
        ("a trailer", format!("{size}\r\n{body}\r\n0\r\nauthorization: Bearer key-b\r\n\r\n")),
        ("one byte a chunk", format!("{one_by_one}0\r\n\r\n")),
    ] {
        rig.engine.reset_stats();
        let answer = told(rig.gate.proxy, &chunked(&chunks)).await.expect("an answer");
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        let requests = rig.engine.requests();
        let seen = requests.iter().find(|seen| seen.method == "POST").unwrap();
        assert_eq!(seen.body.as_deref(), Some(body.as_bytes()), "{what}");
        assert!(!seen.headers.iter().any(|(_, value)| value.contains("key-")), "{what}");
    }
    rig.unharmed().await;
}

/// A client that announces more than it sends, and goes.
#[tokio::test]
async fn half_a_body_reaches_nobody() {
    let rig = Rig::start().await;
    let request = post(chat(1, false));
    for bytes in [request.bytes(), request.chunked(16)] {
        for cut in [10, 40] {
            let mut wire = Wire::connect(rig.gate.proxy).await;
            wire.send(&bytes[..bytes.len() - cut]).await;
            wire.half_close().await;
            assert_eq!(wire.raw_rest().await.0, b"", "no answer is due");
        }
    }
    let metrics = eventually("all four are counted", || async {
        let metrics = rig.gate.settled().await;
        (metrics.outcome("client_cancelled") == 4.0).then_some(metrics)
    })
    .await;
    assert_eq!(metrics.sum("streamgate_arrivals_total"), 4.0);
    assert_eq!(rig.asked(), 0);
    rig.unharmed().await;
}

/// More bytes than announced are the next request, and that is none.
#[tokio::test]
async fn more_than_announced_is_not_part_of_the_body() {
    let rig = Rig::start().await;
    let request = post(chat(1, false));
    let mut wire = Wire::connect(rig.gate.proxy).await;
    wire.send(&[request.bytes(), b"and more\r\n\r\n".to_vec()].concat()).await;
    let answer = wire.answer().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_refused(&wire.answer().await, 400, "bad_request", "the rest");
    assert!(wire.closed().await);
    let requests = rig.engine.requests();
    let seen = requests.iter().find(|seen| seen.method == "POST").unwrap();
    assert_eq!(seen.body.as_ref(), Some(request.body()));
    rig.unharmed().await;
}

const LIMIT: usize = 64 * 1024;

fn small(setup: Setup) -> Setup {
    setup.with("limits: {body: 64KiB}")
}

/// A body of exactly `length` bytes.
fn padded(length: usize) -> Vec<u8> {
    let body = chat(1, false);
    let padding = length - body.len() - r#","x":"""#.len();
    let end = format!(r#","x":"{}"}}"#, "p".repeat(padding));
    [&body.as_bytes()[..body.len() - 1], end.as_bytes()].concat()
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413_and_one_at_the_limit_is_served() {
    let rig = Rig::with(small).await;
    for (length, status) in [(LIMIT - 1, 200), (LIMIT, 200), (LIMIT + 1, 413), (40 * LIMIT, 413)] {
        let request = post(padded(length));
        for bytes in [request.bytes(), request.chunked(10_000), request.chunked(1)] {
            if length > 2 * LIMIT && bytes.len() > 3 * length {
                continue;
            }
            let what = format!("{length} bytes");
            let answer = told(rig.gate.proxy, &bytes).await;
            let answer = answer.unwrap_or_else(|| panic!("{what}: closed without an answer"));
            match status {
                413 => assert_refused(&answer, 413, "payload_too_large", &what),
                _ => assert_eq!(answer.status, status, "{what}: {}", answer.text()),
            }
        }
        for proto in Proto::ALL {
            let answer = Call::start(proto, rig.gate.proxy, &request).await.answer().await;
            assert_eq!(answer.status, status, "{proto:?} {length}: {}", answer.text());
        }
    }
    rig.unharmed().await;
}

/// An honest length that is too large is refused before a byte of it is sent.
#[tokio::test]
async fn a_length_over_the_limit_is_refused_before_it_comes() {
    let rig = Rig::with(small).await;
    for expect in ["", "expect: 100-continue\r\n"] {
        let head = post("").head(&format!("{expect}content-length: {}\r\n", 1_u64 << 40));
        let mut wire = Wire::connect(rig.gate.proxy).await;
        wire.send(&head).await;
        let answer = wire.answer().await;
        assert_refused(&answer, 413, "payload_too_large", expect);
    }
    rig.unharmed().await;
}

#[tokio::test]
async fn a_compressed_body_is_told_to_come_plain() {
    let rig = Rig::start().await;
    // gzip of `{}`.
    let zipped =
        [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xab, 0xae, 5, 0, 0x43, 0xbf, 0xa6, 0xa3, 2, 0, 0, 0];
    for header in ["content-encoding", "x-other"] {
        let request = post(zipped).header(header, "gzip");
        let answer = rig.gate.answer(&request).await;
        assert_refused(&answer, 400, "bad_request", header);
        let body = answer.json();
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains("uncompressed"), "{message}");
    }
    // Where nothing is understood, the engine decides.
    let request = Request::post("/v1/audio/x", "a", zipped).header("content-encoding", "gzip");
    assert_eq!(rig.gate.answer(&request).await.status, 404);
    assert_eq!(rig.asked(), 1);
    rig.unharmed().await;
}

/// HTTP/2 carries no framing of its own that could lie; a length may.
#[tokio::test]
async fn an_http2_length_that_lies_is_refused() {
    let rig = Rig::start().await;
    let body = Bytes::from(chat(1, false));
    for length in [body.len() - 1, body.len() + 1] {
        let mut connection = H2::connect(rig.gate.proxy).await;
        let id = format!("length-{length}");
        let request = post(body.clone()).header("content-length", &length.to_string()).id(&id);
        let mut call = connection.open(&request, false).await;
        call.write(body.clone(), true);
        if let Some((status, _)) = call.head().await {
            assert!((400..500).contains(&status), "{length}: {status}");
        }
        let line = rig.gate.line_of(&id).await;
        assert_eq!(
            (&line["outcome"], &line["reason"]),
            (&json!("rejected"), &json!("bad_request"))
        );
        // The connection, or at least the port, goes on.
        let mut next = H2::connect(rig.gate.proxy).await;
        let mut call = next.send(&post(body.clone())).await;
        assert_eq!(call.head().await.map(|(status, _)| status), Some(200));
    }
    calm(&rig.gate).await;
    let posts = rig.engine.requests().iter().filter(|seen| seen.method == "POST").count();
    assert_eq!(posts, 2, "the two honest ones");
    rig.gate.all_slots_free(CAP, &rig.engine).await;
}

/// A client that resets its stream in the middle of the body has left, whatever it announced.
#[tokio::test]
async fn half_an_http2_body_and_a_reset_is_a_client_that_left() {
    let rig = Rig::start().await;
    let body = Bytes::from(chat(1, false));
    for announced in [false, true] {
        let id = format!("left-{announced}");
        let mut request = post(body.clone()).id(&id);
        if announced {
            request = request.header("content-length", &body.len().to_string());
        }
        let mut connection = H2::connect(rig.gate.proxy).await;
        let mut call = connection.open(&request, false).await;
        call.write(body.slice(..10), false);
        call.reset();
        assert_eq!(rig.gate.line_of(&id).await["outcome"], "client_cancelled");
    }
    assert_eq!(rig.asked(), 0);
}

/// A body nobody has read does not become a request.
#[tokio::test]
async fn a_refused_body_is_not_read_as_a_request() {
    let rig = Rig::start().await;
    let hidden = "GET /smuggled HTTP/1.1\r\nhost: gate\r\nauthorization: Bearer key-a\r\n\r\n";
    let wrong = Request::post("/v1/chat/completions", "nobody", hidden);
    let mut wire = Wire::connect(rig.gate.proxy).await;
    wire.send(&wrong.bytes()).await;
    let refusal = wire.answer().await;
    assert_refused(&refusal, 401, "unauthenticated", "a wrong key");
    if refusal.headers.get("connection").is_some_and(|value| value == "close") {
        assert!(wire.closed().await, "a second answer");
    } else {
        let answer = wire.call(&post(chat(1, false))).await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Whole));
    }
    rig.gate.settled().await;
    assert!(!rig.engine.requests().iter().any(|seen| seen.path == "/smuggled"));
    rig.unharmed().await;
}
