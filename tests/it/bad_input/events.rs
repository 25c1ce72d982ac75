//! Event streams that are none, or contradict themselves.

use super::calm;
use crate::support::request::{Request, chat};
use crate::support::scripted::{CHAT_END, STREAM_HEAD, Scripted, chat_event};
use crate::support::wire::{Answer, Ending};
use crate::support::{Api, Call, Gate, Proto, Setup};
use serde_json::Value;

struct Rig {
    engine: Scripted,
    gate: Gate,
    count: usize,
}

impl Rig {
    async fn start() -> Self {
        let engine = Scripted::start().await;
        let setup = Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 1");
        let gate = Gate::start(setup.pool("retries: {max_attempts: 1}")).await;
        Self { engine, gate, count: 0 }
    }

    /// What comes of a chat stream with this body, properly framed.
    async fn chat(&mut self, body: &[u8]) -> (Answer, Value) {
        self.count += 1;
        let id = format!("events-{}", self.count);
        let request = Request::post("/v1/chat/completions", "a", chat(5, true)).id(&id);
        let mut call = Call::start(Proto::H1, self.gate.proxy, &request).await;
        let mut taken = self.engine.next().await;
        let body = body.to_vec();
        // The gate may give up before it has all of it.
        let writing = tokio::spawn(async move {
            let mut bytes = STREAM_HEAD.as_bytes().to_vec();
            for chunk in body.chunks(100_000) {
                bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                bytes.extend(chunk);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
            let _ = tokio::io::AsyncWriteExt::write_all(&mut taken.stream, &bytes).await;
            taken
        });
        let answer = call.answer().await;
        self.gate.settled().await;
        writing.abort();
        (answer, self.gate.line_of(&id).await)
    }
}

/// Events that an engine should not send and that are no reason to stop: they pass as they are.
fn strange() -> Vec<(&'static str, Vec<u8>)> {
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        ("words", text("data: not json\n\n")),
        ("half JSON", text("data: {\"choices\":[{\"delta\":\n\n")),
        ("a field nobody knows", text("nonsense: 1\nmore\n\n")),
        ("no data", text("event: ping\nid: 7\nretry: 10\n\n")),
        ("an empty event", text("data:\n\n")),
        ("blank lines", text("\n\n\n\n\n")),
        ("comments", text(": one\n: two\n\n:\n\n")),
        ("NULs", b"data: \0\0\0{\0}\n\n".to_vec()),
        ("bytes that are no UTF-8", b"data: \xff\xfe\xc3\x28\n\n".to_vec()),
        ("a list", text("data: [1,2,3]\n\n")),
        ("null", text("data: null\n\n")),
        ("a number", text("data: 1e999\n\n")),
        ("deep JSON", text(&format!("data: {}\n\n", "[".repeat(200_000)))),
        ("deep choices", text(&format!("data: {{\"choices\":{}\n\n", "[".repeat(100_000)))),
        ("choices that are none", text("data: {\"choices\":{\"0\":{\"delta\":{}}}}\n\n")),
        ("choices of words", text("data: {\"choices\":[\"x\",1,null,[]]}\n\n")),
        ("a delta of words", text("data: {\"choices\":[{\"delta\":\"x\"}]}\n\n")),
        (
            "a huge index",
            text("data: {\"choices\":[{\"index\":99999999999999999999,\"delta\":{}}]}\n\n"),
        ),
        (
            "a negative index",
            text("data: {\"choices\":[{\"index\":-1,\"delta\":{\"content\":\"x\"}}]}\n\n"),
        ),
        ("usage of words", text("data: {\"choices\":[{\"delta\":{}}],\"usage\":\"much\"}\n\n")),
        (
            "usage beyond reason",
            text(
                "data: {\"choices\":[{\"delta\":{}}],\"usage\":{\"completion_tokens\":-5,\"prompt_tokens\":1e300}}\n\n",
            ),
        ),
        ("no error", text("data: {\"choices\":[],\"error\":null}\n\n")),
        ("a long name", text(&format!("event: {}\ndata: {{}}\n\n", "n".repeat(100_000)))),
        ("the end's name", text("event: [DONE]\ndata: x\n\n")),
        ("the end in a text", text(&chat_event("data: [DONE]"))),
        (
            "ten thousand choices",
            text(&format!(
                "data: {{\"choices\":[{}]}}\n\n",
                vec!["{\"index\":1,\"delta\":{}}"; 10_000].join(",")
            )),
        ),
    ]
}

#[tokio::test]
async fn strange_events_pass_as_they_are() {
    let mut rig = Rig::start().await;
    for (what, event) in strange() {
        let body =
            [chat_event("a").as_bytes(), &event, chat_event("b").as_bytes(), CHAT_END.as_bytes()]
                .concat();
        let (answer, line) = rig.chat(&body).await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{what}: {line}");
        assert!(answer.body == body, "{what}: {}", answer.text());
        assert_eq!(line["outcome"], "complete", "{what}: {line}");
        let tokens = line["completion_tokens"].as_u64().unwrap_or_default();
        assert!((2..=10).contains(&tokens), "{what}: {line}");
    }
    calm(&rig.gate).await;
}

/// Errors in whatever shape end the stream, and nothing of them or after them passes.
#[tokio::test]
async fn an_error_in_any_shape_is_an_error() {
    let mut rig = Rig::start().await;
    for error in [
        "data: {\"error\":{\"message\":\"canary\",\"code\":500}}\n\n",
        "data: {\"error\":{\"error\":{\"error\":{\"message\":\"canary\"}}}}\n\n",
        "data: {\"error\":\"canary\"}\n\n",
        "data: {\"error\":[1,\"canary\"]}\n\n",
        "data: {\"error\":true}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"canary\"}}],\"error\":{\"code\":1}}\n\n",
        "data: {\"object\":\"error\",\"message\":\"canary\"}\n\n",
        "event: error\ndata: canary\n\n",
        "event: error\ndata: {\"choices\":[]}\n\n",
        "event: error\ndata:\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"error\"}]}\n\n",
        "data: {\"error\":{\"message\":\"canary\"}}\r\r",
    ] {
        let body = [&chat_event("a"), error, &chat_event("canary"), CHAT_END].concat();
        let (answer, line) = rig.chat(body.as_bytes()).await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Cut), "{error}: {line}");
        let text = answer.text();
        assert!(text.starts_with(&chat_event("a")), "{error}: {text}");
        Api::Chat.error_event(&text);
        assert!(!text.contains("canary"), "{error}: {text}");
        assert_eq!(line["outcome"], "upstream_error", "{error}: {line}");
    }
    calm(&rig.gate).await;
}

/// The first word decides: what comes after the end, or after the abort, changes nothing.
#[tokio::test]
async fn a_stream_that_contradicts_itself_has_one_outcome() {
    let mut rig = Rig::start().await;
    let finish = |reason: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n"
        )
    };
    let done = "data: [DONE]\n\n";
    let error = "data: {\"error\":{\"message\":\"late\"}}\n\n";
    let (a, b) = (chat_event("a"), chat_event("b"));
    for (what, body, outcome) in [
        ("an error after the end", [&a, CHAT_END, error].concat(), "complete"),
        ("two ends", [&a, CHAT_END, done].concat(), "complete"),
        ("content after the end", [&a, CHAT_END, &b].concat(), "complete"),
        ("content after the finish", [&a, &finish("stop"), &b, done].concat(), "complete"),
        ("no finish", [&a, done].concat(), "truncated"),
        ("two finishes", [&a, &finish("stop"), &finish("length"), done].concat(), "complete"),
        ("abort after stop", [&a, &finish("stop"), &finish("abort"), done].concat(), "truncated"),
        ("stop after abort", [&a, &finish("abort"), &finish("stop"), done].concat(), "truncated"),
        (
            "an error after the finish",
            [&a, &finish("stop"), error, done].concat(),
            "upstream_error",
        ),
        ("no end", format!("{a}{}", finish("stop")), "truncated"),
        ("half an end", [&a, &finish("stop"), "data: [DON"].concat(), "truncated"),
        ("the end with more", [&a, &finish("stop"), "data: [DONE] \n\n"].concat(), "complete"),
        ("the end in lower case", [&a, &finish("stop"), "data: [done]\n\n"].concat(), "truncated"),
    ] {
        let (answer, line) = rig.chat(body.as_bytes()).await;
        let ending = if outcome == "complete" { Ending::Whole } else { Ending::Cut };
        assert_eq!((answer.status, answer.ending), (200, ending), "{what}: {line}");
        assert_eq!(line["outcome"], outcome, "{what}: {line}");
        if outcome != "complete" {
            Api::Chat.error_event(&answer.text());
        }
    }
    calm(&rig.gate).await;
}

/// A stream that never says anything is answered with an honest status.
#[tokio::test]
async fn a_stream_without_a_word_is_a_502() {
    let mut rig = Rig::start().await;
    let role = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n";
    for body in [
        "",
        "\n",
        ": keep-alive\n\n",
        role,
        "data: [DONE]\n\n",
        &[role, "data: [DONE]\n\n"].concat(),
    ] {
        let (answer, line) = rig.chat(body.as_bytes()).await;
        let got = (answer.status, answer.reason());
        assert_eq!(got, (502, Some("upstream_unreachable")), "{body:?}: {line}");
        assert_eq!(line["outcome"], "upstream_error", "{body:?}: {line}");
    }
    calm(&rig.gate).await;
}

/// Resident memory of the process, in MiB.
fn resident(gate: &Gate) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gate.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn a_huge_event_passes_and_an_endless_one_is_not_kept() {
    let mut rig = Rig::start().await;
    let huge = chat_event(&"x".repeat(10 << 20));
    let body = [&chat_event("a"), &huge, CHAT_END].concat();
    let (answer, line) = rig.chat(body.as_bytes()).await;
    assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{line}");
    assert!(answer.body == body.as_bytes());
    assert_eq!(line["outcome"], "complete", "{line}");

    let before = resident(&rig.gate);
    let endless =
        [chat_event("a").into_bytes(), b"data: ".to_vec(), vec![b'x'; 100 << 20]].concat();
    let (answer, line) = rig.chat(&endless).await;
    assert_eq!((answer.status, answer.ending), (200, Ending::Cut), "{line}");
    assert_eq!(line["outcome"], "truncated", "{line}");
    assert!(endless.starts_with(&answer.body), "no error event may run into the line");
    let grown = resident(&rig.gate).saturating_sub(before);
    assert!(grown < 50, "{grown} MiB for a line of 100 MiB");
    calm(&rig.gate).await;
}
