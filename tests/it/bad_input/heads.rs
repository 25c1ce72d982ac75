//! Heads that are none, or that two servers could read differently.

use super::{Rig, assert_refused, told};
use crate::support::call::{Call, Proto};
use crate::support::request::Request;
use crate::support::wire::Wire;

const KEY: &str = "authorization: Bearer key-a\r\n";
const BODY: &str = r#"{"model":"sim","max_tokens":1,"messages":[{"role":"user","content":"x"}]}"#;

/// `GET /v1/models` with these further header lines.
fn get(lines: &str) -> Vec<u8> {
    format!("GET /v1/models HTTP/1.1\r\nhost: gate\r\n{KEY}{lines}\r\n").into_bytes()
}

/// A chat request framed by these header lines.
fn framed(lines: &str, body: &str) -> Vec<u8> {
    format!("POST /v1/chat/completions HTTP/1.1\r\nhost: gate\r\n{KEY}{lines}\r\n{body}")
        .into_bytes()
}

fn line(line: &str) -> Vec<u8> {
    format!("{line}\r\nhost: gate\r\n{KEY}\r\n").into_bytes()
}

/// Heads that are refused with status 400.
fn malformed() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("words", b"hello there, are you a server?\r\n\r\n".to_vec()),
        ("one word", b"GET\r\n\r\n".to_vec()),
        ("no version", b"GET /v1/models\r\n\r\n".to_vec()),
        ("HTTP/0.9", line("GET /v1/models HTTP/0.9")),
        ("HTTP/1.2", line("GET /v1/models HTTP/1.2")),
        ("HTTP/2.0 as text", line("GET /v1/models HTTP/2.0")),
        ("HTTP/3", line("GET /v1/models HTTP/3")),
        ("lower-case version", line("GET /v1/models http/1.1")),
        ("a preface that is none", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec()),
        ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec()),
        ("zeros", [&[0; 64][..], b"\r\n\r\n"].concat()),
        ("a method with a space", line("GE T /v1/models HTTP/1.1")),
        ("a method with a colon", line("G:T /v1/models HTTP/1.1")),
        ("no method", line(" /v1/models HTTP/1.1")),
        ("no target", line("GET  HTTP/1.1")),
        ("no slash", line("GET v1/models HTTP/1.1")),
        ("a query alone", line("GET ?a=b HTTP/1.1")),
        ("a star", line("GET * HTTP/1.1")),
        ("another scheme", line("GET ftp://gate/v1/models HTTP/1.1")),
        ("a user in the target", line("GET http://me@gate/v1/models HTTP/1.1")),
        ("no authority", line("GET http:///v1/models HTTP/1.1")),
        ("another host", line("GET http://other/v1/models HTTP/1.1")),
        ("a backslash in the authority", line("GET http://gate\\other/v1/models HTTP/1.1")),
        ("no host", format!("GET /v1/models HTTP/1.1\r\n{KEY}\r\n").into_bytes()),
        ("two hosts", get("host: other\r\n")),
        ("the same host twice", get("host: gate\r\n")),
        ("a user in the host", line("GET /v1/models HTTP/1.1").replace_host("me@gate")),
        ("no colon", get("nonsense\r\n")),
        ("no name", get(": value\r\n")),
        ("a space in a name", get("x a: b\r\n")),
        ("a space before the colon", get("x-a : b\r\n")),
        ("a name beyond ASCII", get("x-ä: b\r\n")),
        ("a folded line", get("x-a: b\r\n c\r\n")),
        ("a folded line by a tab", get("x-a: b\r\n\tc\r\n")),
        ("a line that begins with a space", line("GET /v1/models HTTP/1.1").indented()),
        ("a NUL in a value", get("x-a: b\0c\r\n")),
        ("a NUL in a name", get("x\0a: b\r\n")),
        ("a lone CR in a value", get("x-a: b\rc: d\r\n")),
        ("a control character in a value", get("x-a: b\x01\r\n")),
        ("a NUL in the method", line("G\0T /v1/models HTTP/1.1")),
    ]
}

trait Edit {
    fn replace_host(self, host: &str) -> Vec<u8>;
    fn indented(self) -> Vec<u8>;
}

impl Edit for Vec<u8> {
    fn replace_host(self, host: &str) -> Vec<u8> {
        let text = String::from_utf8(self).unwrap();
        text.replace("host: gate", &format!("host: {host}")).into_bytes()
    }

    fn indented(self) -> Vec<u8> {
        let text = String::from_utf8(self).unwrap();
        text.replace("\r\nhost", "\r\n host").into_bytes()
    }
}

/// Lengths that cannot be told, or that two servers could read differently: status 400.
fn ambiguous_lengths() -> Vec<(&'static str, Vec<u8>)> {
    let length = |value: &str| framed(&format!("content-length: {value}\r\n"), BODY);
    let coded = |value: &str| {
        let chunk = format!("{:x}\r\n{BODY}\r\n0\r\n\r\n", BODY.len());
        framed(&format!("transfer-encoding: {value}\r\n"), &chunk)
    };
    vec![
        ("a sign", length("+70")),
        ("a negative length", length("-1")),
        ("a hexadecimal length", length("0x46")),
        ("a length with a point", length("70.0")),
        ("no length", length("")),
        ("words", length("seventy")),
        ("a list of two", length("70, 71")),
        ("a length beyond 64 bits", length("99999999999999999999999")),
        ("two lengths", framed("content-length: 70\r\ncontent-length: 71\r\n", BODY)),
        ("chunked before another", coded("chunked, identity")),
        ("no chunks", coded("identity")),
        ("an unknown coding", coded("xchunked")),
        ("chunked in quotes", coded("\"chunked\"")),
        ("an empty coding", coded("")),
        (
            "chunked first",
            framed("transfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n", BODY),
        ),
        (
            "chunks in HTTP/1.0",
            String::from_utf8(coded("chunked")).unwrap().replace("HTTP/1.1", "HTTP/1.0").into(),
        ),
    ]
}

#[tokio::test]
async fn a_malformed_head_is_a_400_and_nothing_else() {
    let rig = Rig::start().await;
    let all: Vec<_> = malformed().into_iter().chain(ambiguous_lengths()).collect();
    for (what, bytes) in &all {
        let answer = told(rig.gate.proxy, bytes).await;
        let answer = answer.unwrap_or_else(|| panic!("{what}: closed without an answer"));
        assert_refused(&answer, 400, "bad_request", what);
    }
    let metrics = rig.gate.settled().await;
    assert_eq!(rig.asked(), 0, "no engine may hear of it");
    assert_eq!(metrics.sum("streamgate_arrivals_total"), all.len() as f64);
    let reason = [("reason", "bad_request")];
    assert_eq!(metrics.sum_where("streamgate_rejections_total", &reason), all.len() as f64);
    rig.unharmed().await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_a_431() {
    let rig = Rig::start().await;
    let many: String = (0..10_000).map(|n| format!("x-{n}: 1\r\n")).collect();
    let some: String = (0..300).map(|n| format!("x-{n}: 1\r\n")).collect();
    for (what, bytes) in [
        ("a long value", get(&format!("x-a: {}\r\n", "a".repeat(70_000)))),
        ("a long name", get(&format!("{}: 1\r\n", "a".repeat(65_500)))),
        ("a long target", line(&format!("GET /v1/models?{} HTTP/1.1", "a".repeat(65_500)))),
        ("many headers", get(&some)),
        ("very many headers", get(&many)),
        ("a huge head", get(&format!("x-a: {}\r\n", "a".repeat(3 << 20)))),
        ("a huge head without an end", get(&"x-a: aaaaaaaaaaaaaaaaaaaaaaaa\r\n".repeat(90_000))),
    ] {
        let answer = told(rig.gate.proxy, &bytes).await;
        let answer = answer.unwrap_or_else(|| panic!("{what}: closed without an answer"));
        assert_refused(&answer, 431, "bad_request", what);
        assert_eq!(answer.headers["x-should-retry"], "false", "{what}");
    }
    assert_eq!(rig.asked(), 0);
    rig.unharmed().await;
}

/// What is only unusual is served.
#[tokio::test]
async fn an_unusual_head_is_served() {
    let rig = Rig::start().await;
    let bare_line_feeds = String::from_utf8(get("")).unwrap().replace("\r\n", "\n").into_bytes();
    let chunk = format!("{:x}\r\n{BODY}\r\n0\r\n\r\n", BODY.len());
    let length = BODY.len();
    for (what, bytes) in [
        ("bare line feeds", bare_line_feeds),
        ("an empty line before", [b"\r\n".to_vec(), get("")].concat()),
        ("two empty lines before", [b"\r\n\r\n".to_vec(), get("")].concat()),
        ("no space after the colon", get("x-a:b\r\n")),
        ("an empty value", get("x-a:\r\n")),
        ("bytes above ASCII in a value", get("x-a: ä€\r\n")),
        ("a tab in a value", get("x-a: b\tc\r\n")),
        ("two equal lengths", framed(&format!("content-length: {length}\r\n").repeat(2), BODY)),
        ("chunks in capitals", framed("Transfer-Encoding: CHUNKED\r\n", &chunk)),
        ("old with a host", line("GET /v1/models HTTP/1.0")),
        ("60 headers", get(&(0..60).map(|n| format!("x-{n}: 1\r\n")).collect::<String>())),
        ("an expectation nobody knows", get("expect: a-miracle\r\n")),
    ] {
        let answer = told(rig.gate.proxy, &bytes).await;
        let answer = answer.unwrap_or_else(|| panic!("{what}: closed without an answer"));
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
    }
    rig.unharmed().await;
}

/// A length and chunks together: chunks win, the connection ends, and what follows is no request.
#[tokio::test]
async fn a_request_cannot_be_smuggled() {
    let rig = Rig::start().await;
    let chunk = format!("{:x}\r\n{BODY}\r\n0\r\n\r\n", BODY.len());
    let hidden = format!("GET /smuggled HTTP/1.1\r\nhost: gate\r\n{KEY}\r\n");
    let length = format!("content-length: {}\r\n", BODY.len());
    for (what, lines) in [
        ("length first", format!("{length}transfer-encoding: chunked\r\n")),
        ("chunks first", format!("transfer-encoding: chunked\r\n{length}")),
        ("no length in truth", "content-length: 0\r\ntransfer-encoding: chunked\r\n".to_owned()),
        ("two lengths", format!("{length}content-length: 3\r\ntransfer-encoding: chunked\r\n")),
    ] {
        rig.engine.reset_stats();
        let mut wire = Wire::connect(rig.gate.proxy).await;
        wire.send(&framed(&lines, &format!("{chunk}{hidden}"))).await;
        let answer = wire.answer().await;
        assert!([200, 400].contains(&answer.status), "{what}: {}", answer.text());
        if answer.status == 200 {
            assert_eq!(answer.headers["connection"], "close", "{what}");
        }
        assert!(wire.closed().await, "{what}: a second answer");
        rig.gate.settled().await;
        let requests = rig.engine.requests();
        assert!(!requests.iter().any(|seen| seen.path == "/smuggled"), "{what}");
        let mut posts = requests.iter().filter(|seen| seen.method == "POST");
        assert!(posts.all(|seen| seen.header("content-length").is_some()), "{what}");
    }
    rig.unharmed().await;
}

#[tokio::test]
async fn methods_that_a_proxy_must_not_pass_are_a_405() {
    let rig = Rig::start().await;
    for target in ["CONNECT gate:443", "CONNECT gate", "TRACE /v1/models", "TRACK /v1/models"] {
        let answer = told(rig.gate.proxy, &line(&format!("{target} HTTP/1.1"))).await;
        let answer = answer.unwrap_or_else(|| panic!("{target}: closed without an answer"));
        // A target that is no CONNECT target at all is a malformed head.
        assert!([400, 405].contains(&answer.status), "{target}: {}", answer.text());
        assert_refused(&answer, answer.status, "bad_request", target);
    }
    let mut trace = Call::start(Proto::H2c, rig.gate.proxy, &Request::new("TRACE", "/", "a")).await;
    assert_eq!(trace.answer().await.status, 405);
    assert_eq!(rig.asked(), 0);
    // Others are the engine's business.
    for method in ["BREW", "get", "PROPFIND", "DELETE", "PATCH"] {
        let bytes = line(&format!("{method} /v1/chat/completions HTTP/1.1"));
        let answer = told(rig.gate.proxy, &bytes).await.expect("an answer");
        assert_eq!((answer.status, answer.reason()), (405, None), "{method}");
    }
    rig.unharmed().await;
}

/// Connections that say nothing, or not enough, are not requests.
#[tokio::test]
async fn half_a_head_is_nothing() {
    let rig = Rig::start().await;
    let whole = get("");
    let halves: Vec<&[u8]> = vec![
        b"",
        b"P",
        b"PRI",
        b"PRI * HTTP/2.0\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnot a frame of any kind",
        b"\r\n",
        b"GET",
        &whole[..whole.len() - 1],
        &whole[..20],
    ];
    for half in halves {
        let mut wire = Wire::connect(rig.gate.proxy).await;
        wire.send(half).await;
        wire.half_close().await;
        let (rest, _) = wire.raw_rest().await;
        let rest = String::from_utf8_lossy(&rest);
        assert!(!rest.starts_with("HTTP/1.1 2"), "{half:?}: {rest}");
    }
    assert_eq!(rig.asked(), 0);
    rig.unharmed().await;
}

#[tokio::test]
async fn rubbish_after_a_request_ends_the_connection_only() {
    let rig = Rig::start().await;
    let mut wire = Wire::connect(rig.gate.proxy).await;
    wire.send(&[get(""), b"rubbish\r\n\r\n".to_vec()].concat()).await;
    assert_eq!(wire.answer().await.status, 200);
    let second = wire.answer().await;
    assert_refused(&second, 400, "bad_request", "the second");
    assert!(wire.closed().await);
    rig.unharmed().await;
}
