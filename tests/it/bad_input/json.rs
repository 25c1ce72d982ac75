//! Bodies that are not the JSON they should be.

use super::{Rig, assert_refused};
use crate::support::Api;
use crate::support::request::Request;

/// A body of this API with these further members.
fn with(api: Api, members: &str) -> String {
    let content = match api {
        Api::Completions => r#""prompt":"x""#,
        Api::Chat | Api::Messages => r#""messages":[{"role":"user","content":"x"}]"#,
        Api::Responses => r#""input":"x""#,
    };
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{"model":"sim",{content}{comma}{members}}}"#)
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("{}{}", open.repeat(depth), close.repeat(depth))
}

/// Bodies that are refused whatever the API, and a word of what the client is told.
#[expect(clippy::too_many_lines, reason = "a table")]
fn never(api: Api) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let whole = with(api, "");
    let bytes = |text: &str| text.as_bytes().to_vec();
    let joined = |parts: &[&[u8]]| parts.concat();
    vec![
        ("nothing", vec![], "empty"),
        ("white space", bytes(" \r\n\t "), "empty"),
        ("a string", bytes("\"model\""), "object"),
        ("a list", bytes("[]"), "object"),
        ("null", bytes("null"), "object"),
        ("a number", bytes("1"), "object"),
        ("an empty object", bytes("{}"), "model"),
        ("a form", bytes("model=sim&stream=true"), "JSON"),
        ("XML", bytes("<model>sim</model>"), "JSON"),
        ("half", bytes(&whole[..whole.len() - 1]), "JSON"),
        ("half a string", bytes(&whole[..10]), "JSON"),
        ("more after it", joined(&[whole.as_bytes(), b"{}"]), "more data"),
        ("a NUL after it", joined(&[whole.as_bytes(), b"\0"]), "more data"),
        ("two of it", bytes(&whole.repeat(2)), "more data"),
        ("a byte order mark", joined(&[b"\xef\xbb\xbf", whole.as_bytes()]), "byte order mark"),
        ("UTF-16", whole.encode_utf16().flat_map(u16::to_le_bytes).collect(), ""),
        ("UTF-16 with its mark", joined(&[b"\xff\xfe", b"{\0}\0"]), "UTF-8"),
        ("Latin-1", bytes(&with(api, r#""x":"XX""#)).latin1(), "UTF-8"),
        ("a single quote", bytes("{'model':'sim'}"), "double quotes"),
        ("a comment", bytes("{/* hello */\"model\":\"sim\"}"), "JSON"),
        ("a comma at the end", bytes(&whole.replace('}', ",}")), "JSON"),
        ("no colon", bytes("{\"model\" \"sim\"}"), "':'"),
        ("a raw line feed in a string", bytes("{\"model\":\"s\nim\"}"), "control character"),
        ("a NUL in a string", bytes("{\"model\":\"s\0im\"}"), "control character"),
        ("an unknown escape", bytes("{\"model\":\"\\x41\"}"), "escape"),
        ("half a surrogate", bytes("{\"model\":\"sim\",\"x\":\"\\ud800\"}"), "surrogate"),
        ("NaN", bytes(&with(api, r#""temperature":NaN"#)), "NaN"),
        ("Infinity", bytes(&with(api, r#""x":[Infinity]"#)), "Infinity"),
        ("minus Infinity", bytes(&with(api, r#""x":-Infinity"#)), "Infinity"),
        ("a leading zero", bytes(&with(api, r#""x":01"#)), "number"),
        ("a plus", bytes(&with(api, r#""x":+1"#)), "JSON"),
        ("True", bytes(&with(api, r#""x":True"#)), "JSON"),
        ("deep lists", bytes(&with(api, &format!(r#""x":{}"#, nested("[", "]", 200)))), "nested"),
        (
            "very deep objects",
            bytes(&with(
                api,
                &format!(r#""x":{}1{}"#, r#"{"a":"#.repeat(100_000), "}".repeat(100_000)),
            )),
            "nested",
        ),
        (
            "deep and never closed",
            bytes(&with(api, &format!(r#""x":{}"#, "[".repeat(300_000)))),
            "nested",
        ),
        ("model twice", bytes(&with(api, r#""model":"other""#)), "more than once"),
        ("model twice, escaped", bytes(&with(api, r#""m\u006fdel":"other""#)), "more than once"),
        ("stream twice", bytes(&with(api, r#""stream":true,"stream":false"#)), "more than once"),
        ("model as number", bytes(&whole.replace(r#""sim""#, "7")), "model"),
        ("model as list", bytes(&whole.replace(r#""sim""#, r#"["sim"]"#)), "model"),
        ("an empty model", bytes(&whole.replace(r#""sim""#, r#""""#)), "model"),
        ("no model", bytes(&whole.replace(r#""sim""#, "null")), "model"),
        ("a control character", bytes(&whole.replace("sim", "s\\u0000im")), "model"),
        ("a huge model", bytes(&whole.replace("sim", &"m".repeat(10_000))), "model"),
        ("stream as string", bytes(&with(api, r#""stream":"true""#)), "stream"),
        ("stream as number", bytes(&with(api, r#""stream":1"#)), "stream"),
        ("stream as list", bytes(&with(api, r#""stream":[true]"#)), "stream"),
    ]
}

trait Latin1 {
    fn latin1(self) -> Vec<u8>;
}

impl Latin1 for Vec<u8> {
    /// `XX` becomes an `ä` as Latin-1 has it.
    fn latin1(self) -> Vec<u8> {
        let at = memchr::memmem::find(&self, b"XX").unwrap();
        [&self[..at], b"\xe4", &self[at + 2..]].concat()
    }
}

/// The key that bounds the output of this API.
fn bound(api: Api) -> &'static str {
    if api == Api::Responses { "max_output_tokens" } else { "max_tokens" }
}

const NOT_COUNTS: [&str; 10] =
    ["\"3\"", "-1", "3.5", "1e400", "9007199254740993", "true", "[3]", "{}", "1e-1", "\"\""];

fn assert_told(api: Api, answer: &crate::support::wire::Answer, what: &str, word: &str) {
    if api == Api::Messages {
        assert_eq!((answer.status, answer.reason()), (400, Some("bad_request")), "{what}");
        assert_eq!(answer.json()["error"]["type"], "invalid_request_error", "{what}");
    } else {
        assert_refused(answer, 400, "bad_request", what);
    }
    let body = answer.json();
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains(word), "{api:?} {what}: {message}");
    assert!(message.len() < 400, "{what}: {message}");
    let strange = |c: char| c.is_control() || c == '\u{202e}';
    assert!(!message.chars().any(strange), "{what}: {message:?}");
}

#[tokio::test]
async fn what_is_not_a_request_is_a_400_that_says_why() {
    let rig = Rig::start().await;
    let mut count = 0.0;
    for api in Api::ALL {
        for (what, body, word) in never(api) {
            let answer = rig.gate.answer(&Request::post(api.path(), "a", body)).await;
            assert_told(api, &answer, what, word);
            count += 1.0;
        }
    }
    assert_eq!(rig.asked(), 0, "refused before a slot is taken");
    let metrics = rig.gate.settled().await;
    let refused = [("tenant", "a"), ("reason", "bad_request")];
    assert_eq!(metrics.sum_where("streamgate_rejections_total", &refused), count);
    rig.unharmed().await;
}

#[tokio::test]
async fn a_count_that_is_none_is_named() {
    let rig = Rig::start().await;
    for api in Api::ALL {
        let mut keys = vec![bound(api)];
        match api {
            Api::Completions => keys.extend(["n", "best_of"]),
            Api::Chat => keys.extend(["n", "max_completion_tokens"]),
            Api::Responses | Api::Messages => {}
        }
        for key in keys {
            for value in NOT_COUNTS {
                let body = with(api, &format!(r#""{key}":{value}"#));
                let answer = rig.gate.answer(&Request::post(api.path(), "a", body)).await;
                assert_told(api, &answer, &format!("{key}: {value}"), key);
                if api != Api::Messages {
                    assert_eq!(answer.json()["error"]["param"], key);
                }
            }
        }
    }
    for (key, value) in [("n", "0"), ("n", "16385"), ("best_of", "0")] {
        let body = with(Api::Completions, &format!(r#""{key}":{value}"#));
        let answer = rig.gate.answer(&Request::post("/v1/completions", "a", body)).await;
        assert_told(Api::Completions, &answer, key, key);
    }
    assert_eq!(rig.asked(), 0);
    rig.unharmed().await;
}

#[tokio::test]
async fn stream_options_are_read_as_strictly() {
    let rig = Rig::start().await;
    for options in [
        "1",
        "\"include_usage\"",
        "[]",
        "true",
        r#"{"include_usage":"true"}"#,
        r#"{"include_usage":1}"#,
        r#"{"include_usage":{}}"#,
        r#"{"include_usage":true,"include_usage":false}"#,
        r#"{"continuous_usage_stats":"yes"}"#,
        r#"{"include_usage":true"#,
    ] {
        for api in [Api::Completions, Api::Chat] {
            let body = with(api, &format!(r#""stream":true,"stream_options":{options}"#));
            let answer = rig.gate.answer(&Request::post(api.path(), "a", body)).await;
            assert_told(api, &answer, options, "");
        }
    }
    assert_eq!(rig.asked(), 0);
    rig.unharmed().await;
}

/// What is only unusual, or not for the gate to judge, reaches the engine as it is.
#[tokio::test]
async fn what_is_only_unusual_is_served() {
    let rig = Rig::start().await;
    for api in Api::ALL {
        let whole = with(api, "");
        let bound = bound(api);
        for (what, body) in [
            ("white space around", format!("\r\n {whole}\t\n")),
            ("escaped keys", whole.replace("model", "m\\u006fdel")),
            ("a point in a whole number", with(api, &format!(r#""{bound}":3.0"#))),
            ("an exponent", with(api, &format!(r#""{bound}":2e0"#))),
            ("null for a default", with(api, &format!(r#""{bound}":null,"stream":null"#))),
            ("keys nobody knows, twice", with(api, r#""x":1,"x":[{"model":7}]"#)),
            ("astral text", with(api, r#""x":"\ud83d\ude00 😀 \u0000""#)),
            ("lists within the bound", with(api, &format!(r#""x":{}"#, nested("[", "]", 100)))),
            ("a long string", with(api, &format!(r#""x":"{}""#, "y".repeat(1 << 20)))),
        ] {
            // The engine of these tests has its own idea of numbers.
            let answer = rig.gate.answer(&Request::post(api.path(), "a", body)).await;
            assert_ne!(answer.reason(), Some("bad_request"), "{api:?} {what}: {}", answer.text());
            assert!([200, 400].contains(&answer.status), "{api:?} {what}: {}", answer.text());
        }
    }
    assert_eq!(rig.asked(), 36);
    rig.unharmed().await;
}
