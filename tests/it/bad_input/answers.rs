//! Answers of engines that no client should have to read.

use super::calm;
use crate::support::request::{Request, chat};
use crate::support::scripted::{STREAM_HEAD, Scripted, chat_event};
use crate::support::wire::{Answer, Ending};
use crate::support::{Call, Gate, Proto, Setup};
use serde_json::Value;

async fn start() -> (Scripted, Gate) {
    let engine = Scripted::start().await;
    let setup = Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 1");
    // One attempt: what is tested is what becomes of this answer.
    (engine, Gate::start(setup.pool("retries: {max_attempts: 1}")).await)
}

/// What the client gets when the engine answers these bytes and closes; and the log line.
async fn answered(
    (engine, gate): (&mut Scripted, &Gate),
    request: Request,
    bytes: &[u8],
    id: &str,
) -> (Answer, Value) {
    let mut call = Call::start(Proto::H1, gate.proxy, &request.id(id)).await;
    let mut taken = engine.next().await;
    // The gate may have given up before it has all of it.
    let _ = tokio::io::AsyncWriteExt::write_all(&mut taken.stream, bytes).await;
    drop(taken);
    let answer = call.answer().await;
    gate.settled().await;
    (answer, gate.line_of(id).await)
}

fn head(lines: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{lines}\r\n").into_bytes()
}

/// Heads from which no answer can be made.
fn no_heads() -> Vec<(&'static str, Vec<u8>)> {
    let ok = |lines: &str| [head(lines), b"{}".to_vec()].concat();
    vec![
        ("nothing", vec![]),
        ("words", b"hello, this is an engine\r\n\r\n".to_vec()),
        ("another protocol", b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
        ("HTTP/2 frames", b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80".to_vec()),
        ("half a head", b"HTTP/1.1 200 OK\r\ncontent-le".to_vec()),
        ("no status", b"HTTP/1.1 OK\r\n\r\n".to_vec()),
        ("a status of two digits", b"HTTP/1.1 99 Low\r\ncontent-length: 0\r\n\r\n".to_vec()),
        ("a status of four digits", b"HTTP/1.1 2000 High\r\ncontent-length: 0\r\n\r\n".to_vec()),
        ("HTTP/2.0", b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec()),
        ("a switch", b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n".to_vec()),
        ("no colon", ok("nonsense\r\n")),
        ("a NUL in a value", ok("x: a\0b\r\n")),
        ("two lengths", ok("content-length: 2\r\ncontent-length: 3\r\n")),
        ("a list of two lengths", ok("content-length: 2, 3\r\n")),
        ("300 headers", ok(&(0..300).map(|n| format!("x-{n}: 1\r\n")).collect::<String>())),
        ("a head of 3 MB", ok(&format!("x: {}\r\n", "a".repeat(3 << 20)))),
        ("endless interim answers", "HTTP/1.1 100 Continue\r\n\r\n".repeat(1000).into_bytes()),
    ]
}

#[tokio::test]
async fn an_answer_without_a_head_is_a_502() {
    let (mut engine, gate) = start().await;
    for (number, (what, bytes)) in no_heads().into_iter().enumerate() {
        for plain in [true, false] {
            let request = if plain {
                Request::get("/v1/models", "a")
            } else {
                Request::post("/v1/chat/completions", "a", chat(1, true))
            };
            let id = format!("no-head-{number}-{plain}");
            let (answer, line) = answered((&mut engine, &gate), request, &bytes, &id).await;
            let got = (answer.status, answer.reason(), answer.ending);
            assert_eq!(got, (502, Some("upstream_unreachable"), Ending::Whole), "{what}: {line}");
            assert_eq!(line["outcome"], "upstream_error", "{what}: {line}");
        }
    }
    calm(&gate).await;
}

/// Unusual, and readable.
#[tokio::test]
async fn an_unusual_head_passes() {
    let (mut engine, gate) = start().await;
    let body = b"{\"object\":\"list\"}";
    let ok = |lines: &str| {
        [head(&format!("content-length: {}\r\n{lines}", body.len())), body.to_vec()].concat()
    };
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
    let cases = [
        ("interim answers", [interim.as_bytes(), &ok("")].concat()),
        ("HTTP/1.0", [&b"HTTP/1.0 200 OK\r\n\r\n"[..], body].concat()),
        ("no length", [head(""), body.to_vec()].concat()),
        ("bare line feeds", [&b"HTTP/1.1 200 OK\ncontent-length: 17\n\n"[..], body].concat()),
        ("no reason", [&b"HTTP/1.1 200 \r\ncontent-length: 17\r\n\r\n"[..], body].concat()),
        ("the same length twice", ok("content-length: 17\r\n")),
        ("bytes above ASCII", ok("x-a: \u{e4}\r\n")),
        ("60 headers", ok(&(0..60).map(|n| format!("x-{n}: 1\r\n")).collect::<String>())),
    ];
    for (number, (what, bytes)) in cases.into_iter().enumerate() {
        let id = format!("unusual-{number}");
        let request = Request::get("/v1/models", "a");
        let (answer, line) = answered((&mut engine, &gate), request, &bytes, &id).await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{what}: {line}");
        assert_eq!(answer.body, body, "{what}");
        assert_eq!(line["outcome"], "complete", "{what}: {line}");
    }
    calm(&gate).await;
}

/// A length beside chunks must not frame the client's answer.
#[tokio::test]
async fn chunks_win_over_a_length() {
    let (mut engine, gate) = start().await;
    let lines = "content-length: 3\r\ntransfer-encoding: chunked\r\n";
    let bytes = [&head(lines)[..], b"5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n"].concat();
    for (number, path) in ["/v1/models", "/v1/chat/completions"].into_iter().enumerate() {
        let request = match number {
            0 => Request::get(path, "a"),
            _ => Request::post(path, "a", chat(1, false)),
        };
        let id = format!("both-{number}");
        let (answer, line) = answered((&mut engine, &gate), request, &bytes, &id).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "{\"a\":1}"), "{line}");
        assert_eq!(answer.headers.get("content-length"), None);
        assert_eq!(answer.ending, Ending::Whole);
    }
    calm(&gate).await;
}

/// Broken framing after a good start: the client can tell.
#[tokio::test]
async fn a_body_with_broken_framing_is_no_whole_answer() {
    let (mut engine, gate) = start().await;
    let event = chat_event("one");
    let size = format!("{:x}", event.len());
    for (number, (what, rest)) in [
        ("a size that is none", "zz\r\nabc\r\n".to_owned()),
        ("a negative size", "-5\r\nabcde\r\n".to_owned()),
        ("a size beyond 64 bits", format!("{}\r\nabc\r\n", "f".repeat(17))),
        ("no line end", format!("{size}\r\n{event}{event}")),
        ("plain text", "data: [DONE]\n\n".to_owned()),
        ("a head", format!("{STREAM_HEAD}0\r\n\r\n")),
        ("NULs", "\0\0\0\0\r\n".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        let bytes = format!("{STREAM_HEAD}{size}\r\n{event}\r\n{rest}");
        let request = Request::post("/v1/chat/completions", "a", chat(5, true));
        let id = format!("framing-{number}");
        let (answer, line) = answered((&mut engine, &gate), request, bytes.as_bytes(), &id).await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Cut), "{what}: {line}");
        let text = answer.text();
        assert!(text.starts_with(&event), "{what}: {text}");
        crate::support::Api::Chat.error_event(&text);
        assert_eq!(line["outcome"], "truncated", "{what}: {line}");
    }
    calm(&gate).await;
}

/// What an engine sends after its answer belongs to nobody.
#[tokio::test]
async fn one_answer_is_not_the_next_requests() {
    let (mut engine, gate) = start().await;
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    let second = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nnot yours";
    for number in 0..10 {
        let mut call = Call::start(Proto::H1, gate.proxy, &Request::get("/v1/models", "a")).await;
        let mut taken = engine.next().await;
        taken.write(format!("{answer}{second}")).await;
        let got = call.answer().await;
        assert_eq!((got.status, got.text().as_str()), (200, "{}"), "{number}");
        // The connection must not be used again: it has an answer to no request.
        taken.closed().await;
    }
    calm(&gate).await;
}

/// A plain body of 200 that says error is an error.
#[tokio::test]
async fn a_plain_error_with_status_200_is_not_complete() {
    let (mut engine, gate) = start().await;
    let cases = [
        ("/v1/chat/completions", r#"{"error":{"message":"m","code":500}}"#),
        ("/v1/completions", r#"{"object":"error","message":"m","code":400}"#),
        ("/v1/messages", r#"{"type":"error","error":{"type":"api_error","message":"m"}}"#),
        ("/v1/responses", r#"{"status":"failed","error":{"code":"server_error","message":"m"}}"#),
    ];
    for (path, body) in cases {
        let bytes = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let request = Request::post(path, "a", r#"{"model":"sim"}"#);
        let (answer, line) =
            answered((&mut engine, &gate), request, bytes.as_bytes(), &path.replace('/', "."))
                .await;
        assert_eq!((answer.status, answer.text().as_str()), (200, body), "{path}");
        assert_eq!(line["outcome"], "upstream_error", "{path}: {line}");
        assert_ne!(line["good"], true, "{path}: {line}");
    }
    calm(&gate).await;
}
