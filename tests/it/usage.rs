//! Usage is always known, and counted once; what the client gets is what the engine sent, but for
//! the one chunk it did not ask for.

use crate::support::request::Request;
use crate::support::tap::Tap;
use crate::support::wire::Ending;
use crate::support::{Api, Call, Gate, Leave, Metrics, Proto, Setup, eventually};
use serde_json::{Value, json};
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};

const TOKENS: u64 = 5;

struct Rig {
    engine: Engine,
    tap: Tap,
    gate: Gate,
}

impl Rig {
    async fn start() -> Self {
        let engine = Engine::start(EngineConfig::instant(Duration::from_millis(2))).await.unwrap();
        let tap = Tap::start(engine.addr()).await;
        let setup = Setup::new(&[tap.addr]).tenant("a", "max_in_flight: 4");
        let gate = Gate::start(setup.with("timeouts: {upstream_idle: 0s}")).await;
        Self { engine, tap, gate }
    }
}

fn body(api: Api, extra: &[(&str, Value)]) -> String {
    let turns = json!([{"role": "user", "content": "hello"}]);
    let mut body = match api {
        Api::Completions => json!({"model": "sim", "max_tokens": TOKENS, "prompt": "hello"}),
        Api::Chat | Api::Messages => {
            json!({"model": "sim", "max_tokens": TOKENS, "messages": turns})
        }
        Api::Responses => json!({"model": "sim", "max_output_tokens": TOKENS, "input": "hello"}),
    };
    body["stream"] = true.into();
    for (key, value) in extra {
        body[*key] = value.clone();
    }
    body.to_string()
}

/// What a client may say about usage, and what it then gets.
struct Wish {
    options: Option<Value>,
    /// The engine is told something else than the client said.
    changed: bool,
    /// The client gets the extra chunk.
    gets: bool,
    /// Usage is in every chunk.
    continuous: bool,
}

fn wishes() -> Vec<Wish> {
    let wish = |options: Value, changed, gets, continuous| Wish {
        options: Some(options),
        changed,
        gets,
        continuous,
    };
    vec![
        Wish { options: None, changed: true, gets: false, continuous: false },
        wish(Value::Null, true, false, false),
        wish(json!({}), true, false, false),
        wish(json!({"include_usage": false}), true, false, false),
        wish(json!({"include_usage": null}), true, false, false),
        wish(json!({"include_usage": false, "continuous_usage_stats": true}), true, false, false),
        wish(json!({"include_usage": true}), false, true, false),
        wish(json!({"include_usage": true, "continuous_usage_stats": true}), false, true, true),
        wish(json!({"include_usage": true, "continuous_usage_stats": false}), false, true, false),
    ]
}

/// The ways in which an engine may write the same stream.
const FORMS: [&str; 9] = [
    "",
    "one-byte",
    "line-end=crlf",
    "line-end=cr",
    "no-space",
    "comments",
    "split-data",
    "chunk-bytes=7",
    "bom&line-end=crlf&one-byte",
];

fn tokens(metrics: &Metrics, kind: &str) -> f64 {
    metrics.sum_where("streamgate_tokens_total", &[("tenant", "a"), ("kind", kind)])
}

/// The stream without its extra usage event, which must be there exactly once.
fn without_usage(stream: &[u8], what: &str) -> Vec<u8> {
    let text = std::str::from_utf8(stream).unwrap();
    let end = ["\r\n\r\n", "\n\n", "\r\r"].into_iter().find(|end| text.contains(end)).unwrap();
    let events: Vec<_> = text.split_inclusive(end).collect();
    let squeeze = |event: &str| event.replace(['\r', '\n', ' '], "").replace("data:", "");
    let (extra, kept): (Vec<&str>, Vec<&str>) =
        events.into_iter().partition(|event| squeeze(event).contains(r#""choices":[],"usage":{"#));
    assert_eq!(extra.len(), 1, "{what}: {text}");
    kept.concat().into_bytes()
}

async fn one_wish(rig: &Rig, api: Api, wish: &Wish, n: u64, form: &str) {
    let options = wish.options.iter().map(|options| ("stream_options", options.clone()));
    let extra: Vec<_> = options.chain((n > 1).then(|| ("n", n.into()))).collect();
    let (sent, what) = (body(api, &extra), format!("{api:?} {extra:?} {form:?}"));
    let before = rig.gate.settled().await;
    let request = Request::post(api.path(), "a", sent.clone()).fault(form).id("usage");
    let answer = rig.gate.answer(&request).await;
    assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{what}");
    let after = rig.gate.settled().await;
    let exchange = rig.tap.take();

    let asked: Value = serde_json::from_slice(exchange.asked()).unwrap();
    assert_eq!(asked["stream_options"]["include_usage"], true, "{what}");
    assert_eq!(exchange.asked() != sent.as_bytes(), wish.changed, "{what}");
    let (mut left, mut right) = (asked, serde_json::from_str::<Value>(&sent).unwrap());
    for body in [&mut left, &mut right] {
        body.as_object_mut().unwrap().remove("stream_options");
    }
    assert_eq!(left, right, "{what}: nothing else may change");

    let engine = exchange.answered();
    let must = if wish.gets { engine.clone() } else { without_usage(&engine, &what) };
    assert!(answer.body == must, "{what}: {}", answer.text());
    let squeezed = answer.text().replace(['\r', '\n', ' '], "").replace("data:", "");
    let seen = squeezed.matches(r#""usage":{"#).count();
    match (wish.gets, wish.continuous) {
        (false, _) => assert_eq!(seen, 0, "{what}"),
        (true, false) => assert_eq!(seen, 1, "{what}"),
        (true, true) => assert!(seen > 1, "{what}"),
    }

    let completion = tokens(&after, "completion") - tokens(&before, "completion");
    assert_eq!(completion, (TOKENS * n) as f64, "{what}: counted once");
    let prompt = tokens(&after, "prompt") - tokens(&before, "prompt");
    let line = eventually("its log line", || {
        let mut lines = rig.gate.take_output().into_iter();
        std::future::ready(lines.find(|line| line.contains(r#""request_id":"usage""#)))
    });
    let line: Value = serde_json::from_str(&line.await).unwrap();
    assert_eq!(line["completion_tokens"], TOKENS * n, "{what}");
    assert_eq!(line["prompt_tokens"].as_f64(), Some(prompt), "{what}");
    assert_eq!(line["tokens_estimated"], false, "{what}");
    assert!(prompt > 0.0, "{what}");
}

#[tokio::test]
async fn usage_is_asked_for_and_the_extra_chunk_taken_out_again() {
    let rig = Rig::start().await;
    for api in [Api::Completions, Api::Chat] {
        for wish in wishes() {
            for n in [1, 3] {
                one_wish(&rig, api, &wish, n, "").await;
            }
        }
    }
}

#[tokio::test]
async fn whatever_the_form_of_the_stream() {
    let rig = Rig::start().await;
    let hidden = Wish { options: None, changed: true, gets: false, continuous: false };
    for api in [Api::Completions, Api::Chat] {
        for form in FORMS {
            one_wish(&rig, api, &hidden, 1, form).await;
        }
    }
}

#[tokio::test]
async fn responses_and_messages_are_left_alone() {
    let rig = Rig::start().await;
    for api in [Api::Responses, Api::Messages] {
        for form in FORMS {
            let before = rig.gate.settled().await;
            let sent = body(api, &[]);
            let request = Request::post(api.path(), "a", sent.clone()).fault(form);
            let answer = rig.gate.answer(&request).await;
            let what = format!("{api:?} {form:?}: {}", answer.text());
            assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{what}");
            let after = rig.gate.settled().await;
            let exchange = rig.tap.take();
            assert!(exchange.asked() == sent.as_bytes(), "{what}");
            assert!(exchange.answered() == answer.body, "{what}");
            let counted = tokens(&after, "completion") - tokens(&before, "completion");
            assert_eq!(counted, TOKENS as f64, "{what}");
            assert!(tokens(&after, "prompt") > tokens(&before, "prompt"), "{what}");
        }
    }
}

#[tokio::test]
async fn plain_requests_are_left_alone_and_counted() {
    let rig = Rig::start().await;
    for api in Api::ALL {
        let before = rig.gate.settled().await;
        let request = api.plain(4);
        let answer = rig.gate.answer(&request).await;
        assert_eq!(answer.status, 200, "{api:?}: {}", answer.text());
        let exchange = rig.tap.take();
        assert!(exchange.asked() == request.body(), "{api:?}");
        assert!(exchange.answer.ends_with(&answer.body), "{api:?}");
        let after = rig.gate.settled().await;
        let counted = tokens(&after, "completion") - tokens(&before, "completion");
        assert_eq!(counted, 4.0, "{api:?}");
    }
}

#[tokio::test]
async fn what_was_delivered_before_a_client_left_is_charged() {
    let rig = Rig::start().await;
    for api in Api::ALL {
        for leave in [Leave::Close, Leave::Reset, Leave::StreamReset] {
            rig.engine.reset_stats();
            let before = rig.gate.settled().await;
            let id = format!("left-{}-{leave:?}", api.name());
            let stalled =
                api.stream(500).fault(&format!("stall-after={}", api.opening_events() + 7));
            let mut call = Call::start(leave.proto(), rig.gate.proxy, &stalled.id(&id)).await;
            assert_eq!(call.head().await.map(|(status, _)| status), Some(200), "{id}");
            let mut text = String::new();
            let has_content =
                |line: &&str| line.starts_with("data:") && line.contains(api.content_mark());
            while text.lines().filter(has_content).count() < 3 {
                let piece = call.piece().await.unwrap().expect("the stream goes on");
                text.push_str(&String::from_utf8_lossy(&piece));
            }
            call.leave(leave).await;
            let after = rig.gate.settled().await;
            let charged = tokens(&after, "completion") - tokens(&before, "completion");
            let generated = rig.engine.stats().tokens_generated as f64;
            assert!((3.0..=generated).contains(&charged), "{id}: {charged} of {generated}");
            let line = rig.gate.line_of(&id).await;
            assert_eq!(line["outcome"], "client_cancelled", "{line}");
            assert_eq!(line["completion_tokens"].as_f64(), Some(charged), "{line}");
            assert_eq!(line["tokens_estimated"], true, "{line}");
            assert!(line["bytes_sent"].as_u64().unwrap() >= text.len() as u64, "{line}");
            let (tokens, ttft) = (&line["completion_tokens"], &line["ttft_seconds"]);
            assert!(tokens.is_u64() && ttft.is_f64(), "{line}");
        }
    }
}

/// Over both protocols the bytes are the same.
#[tokio::test]
async fn a_hidden_chunk_is_hidden_over_http2_too() {
    let rig = Rig::start().await;
    for api in [Api::Completions, Api::Chat] {
        let request = Request::post(api.path(), "a", body(api, &[]));
        let mut call = Call::start(Proto::H2c, rig.gate.proxy, &request).await;
        let answer = call.answer().await;
        assert_eq!(answer.ending, Ending::Whole);
        rig.gate.settled().await;
        let must = without_usage(&rig.tap.take().answered(), "h2");
        assert!(answer.body == must, "{}", answer.text());
    }
}
