//! A stream that breaks after its client has seen bytes says so: an error event in the API's own
//! form, no terminal event, no clean end.

use crate::support::h2::H2;
use crate::support::request::Request;
use crate::support::scripted::Scripted;
use crate::support::wire::Ending;
use crate::support::{Api, Call, Gate, Proto, Setup, ask, bounded, timeless};
use serde_json::{Value, json};
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};

/// Slow enough that events are seen before what breaks the stream.
const SLOW: Duration = Duration::from_millis(10);

async fn rig(extra: &str) -> (Engine, Gate) {
    let engine = Engine::start(EngineConfig::instant(SLOW)).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 200").with(extra);
    (engine, Gate::start(setup).await)
}

/// What an engine does, and what the client and the log are told.
struct Case {
    fault: &'static str,
    outcome: &'static str,
    error: &'static str,
}

const fn case(fault: &'static str, outcome: &'static str, error: &'static str) -> Case {
    Case { fault, outcome, error }
}

const TRUNCATED: &str = "upstream_truncated";

/// `#` stands for the number of events after which it happens.
fn cases(api: Api) -> Vec<Case> {
    // vLLM's responses API ends its body in the middle when the engine fails; its messages API
    // writes an error for an abort.
    let (error, abort) = match api {
        Api::Completions | Api::Chat => {
            (("upstream_error", "upstream_error"), ("truncated", "upstream_abort"))
        }
        Api::Messages => {
            (("upstream_error", "upstream_error"), ("upstream_error", "upstream_error"))
        }
        Api::Responses => (("truncated", TRUNCATED), ("truncated", TRUNCATED)),
    };
    vec![
        case("cut=events:#", "truncated", TRUNCATED),
        case("cut=events:#&cut-by=rst", "truncated", TRUNCATED),
        case("end-after=#", "truncated", TRUNCATED),
        case("stall-after=#", "timed_out", "stream_idle_timeout"),
        case("error-after=#", error.0, error.1),
        case("abort-after=#", abort.0, abort.1),
    ]
}

/// The error code is in the event, except in Anthropic's form.
fn assert_told(api: Api, data: &Value, code: &str) {
    if let Some(told) = api.error_code(data) {
        assert_eq!(told, code, "{api:?}");
    }
}

async fn breaks_honestly(proto: Proto) {
    let (_engine, gate) = rig("timeouts: {stream_idle: 2s}").await;
    for api in Api::ALL {
        for (n, case) in cases(api).iter().enumerate() {
            let id = format!("{}-{n}", api.name());
            let fault = case.fault.replace('#', &(api.opening_events() + 3).to_string());
            let request = api.stream(100).fault(&fault).id(&id);
            let answer = ask(proto, gate.proxy, &request).await;
            let (text, at) = (answer.text(), format!("{api:?} {fault}"));
            assert_eq!(answer.status, 200, "{at}: {text}");
            let broken = if proto == Proto::H1 { Ending::Cut } else { Ending::Reset };
            assert_eq!(answer.ending, broken, "{at}: {text}");
            assert_told(api, &api.error_event(&text), case.error);
            assert!(text.contains(api.content_mark()), "{at}: what came before is kept:\n{text}");
            let line = gate.line_of(&id).await;
            assert_eq!(line["outcome"], case.outcome, "{at}: {line}");
            assert_eq!(line["error"], case.error, "{at}: {line}");
            assert_eq!(line["status"], 200, "{at}");
            assert!(line["bytes_sent"].as_u64() > Some(0), "{at}: {line}");
        }
    }
    let metrics = gate.settled().await;
    for (outcome, count) in [("truncated", 16.0), ("timed_out", 4.0), ("upstream_error", 4.0)] {
        assert_eq!(metrics.outcome(outcome), count, "{outcome}");
    }
}

#[tokio::test]
async fn a_broken_stream_says_so_over_http1() {
    breaks_honestly(Proto::H1).await;
}

#[tokio::test]
async fn a_broken_stream_says_so_over_http2() {
    breaks_honestly(Proto::H2c).await;
}

/// Under load, on one connection and on many: the event always arrives before the reset.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_delivers_the_event_before_the_reset_every_time() {
    let (_engine, gate) = rig("").await;
    let to = gate.proxy;
    let noise: Vec<_> = (0..20)
        .map(|n| {
            tokio::spawn(async move {
                for _ in 0..10 {
                    let proto = Proto::ALL[n % 2];
                    let answer = ask(proto, to, &Api::Chat.stream(30).fault("interval=1ms")).await;
                    assert_eq!(answer.ending, Ending::Whole);
                }
            })
        })
        .collect();
    let mut shared = H2::connect(to).await;
    for n in 0..50 {
        let api = Api::ALL[n % 4];
        let fault = format!("cut=events:{}", api.opening_events() + 2 + n as u64 % 7);
        let request = api.stream(100).fault(&fault);
        let mut alone = Call::start(Proto::H2c, to, &request).await;
        let mut beside = shared.send(&request).await;
        assert_eq!(beside.head().await.unwrap().0, 200);
        let mut text = String::new();
        let ending = loop {
            match beside.piece().await {
                Ok(Some(piece)) => text.push_str(&String::from_utf8_lossy(&piece)),
                Ok(None) => break Ending::Whole,
                Err(ending) => break ending,
            }
        };
        assert_eq!(ending, Ending::Reset, "stream {n}: {text}");
        api.error_event(&text);
        let answer = alone.answer().await;
        assert_eq!(answer.ending, Ending::Reset, "stream {n}: {}", answer.text());
        api.error_event(&answer.text());
    }
    for task in noise {
        task.await.unwrap();
    }
    assert_eq!(gate.settled().await.outcome("truncated"), 100.0);
}

#[tokio::test]
async fn an_engines_abort_passes_if_that_is_wanted() {
    let (engine, gate) = rig("streams: {on_engine_abort: pass}").await;
    for api in [Api::Completions, Api::Chat] {
        for (n, stream) in [true, false].into_iter().enumerate() {
            let id = format!("{}-{n}", api.name());
            let usage = json!({"stream_options": {"include_usage": true}});
            let request = if stream { api.stream_with(50, usage) } else { api.plain(3) };
            let request =
                request.fault(&format!("abort-after={}", api.opening_events() + 3)).id(&id);
            let direct = ask(Proto::H1, engine.addr(), &request).await;
            for proto in Proto::ALL {
                let answer = ask(proto, gate.proxy, &request).await;
                let text = answer.text();
                assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{text}");
                assert!(text.contains(r#""abort""#), "{text}");
                assert!(!text.contains("event: error"), "{text}");
                assert_eq!(timeless(&text), timeless(&direct.text()));
            }
            let line = gate.line_of(&id).await;
            assert_eq!(line["outcome"], "truncated", "{line}");
        }
    }
    assert_eq!(gate.settled().await.outcome("truncated"), 8.0);
}

#[tokio::test]
async fn a_plain_answer_that_the_engine_gave_up_is_an_error() {
    let (_engine, gate) = rig("").await;
    for api in [Api::Completions, Api::Chat] {
        for proto in Proto::ALL {
            let answer = ask(proto, gate.proxy, &api.plain(3).fault("abort-after=0")).await;
            assert_eq!((answer.status, answer.ending), (502, Ending::Whole), "{}", answer.text());
            assert_eq!(answer.reason(), Some("upstream_unreachable"));
        }
    }
    assert_eq!(gate.settled().await.outcome("upstream_error"), 4.0);
}

/// Bytes and the close arrive together: none of it may be taken for the end of the answer.
#[tokio::test]
async fn a_plain_answer_that_breaks_is_never_whole() {
    let mut engine = Scripted::start().await;
    let setup = Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 4");
    let gate = Gate::start(setup).await;
    let answers = [
        ("content-length: 100", "half of it".to_owned()),
        ("transfer-encoding: chunked", "a\r\nhalf of it\r\n".to_owned()),
        ("transfer-encoding: chunked", "64\r\nhalf of a chunk".to_owned()),
        ("content-length: 9000000", "x".repeat(5_000_000)),
    ];
    let mut asked = 0.0;
    for status in ["200 OK", "404 Not Found", "500 Internal Server Error"] {
        for (framing, body) in &answers {
            for proto in Proto::ALL {
                let id = format!("broken-{asked}");
                let request = Request::post("/v1/other", "a", "{}").id(&id);
                let mut call = Call::start(proto, gate.proxy, &request).await;
                let mut taken = engine.next().await;
                let bytes = format!("HTTP/1.1 {status}\r\n{framing}\r\n\r\n{body}");
                let write = async {
                    taken.write(bytes).await;
                    drop(taken);
                };
                let ((), answer) = tokio::join!(write, call.answer());
                let at = format!("{status}, {framing}, {proto:?}: {}", answer.status);
                if answer.status == 502 {
                    assert_eq!(answer.reason(), Some("upstream_unreachable"), "{at}");
                } else {
                    assert_ne!(answer.ending, Ending::Whole, "{at}");
                }
                let line = gate.line_of(&id).await;
                let broken = line["outcome"] == "truncated" || line["outcome"] == "upstream_error";
                assert!(broken, "{at}: {line}");
                asked += 1.0;
            }
        }
    }
}

#[tokio::test]
async fn an_understood_plain_answer_that_breaks_is_an_honest_error() {
    let (_engine, gate) = rig("").await;
    for api in Api::ALL {
        for proto in Proto::ALL {
            let request = api.plain(20).fault("cut=bytes:40");
            let answer = ask(proto, gate.proxy, &request).await;
            assert_eq!((answer.status, answer.ending), (502, Ending::Whole), "{}", answer.text());
            assert_eq!(answer.reason(), Some("upstream_unreachable"));
        }
    }
    assert_eq!(gate.settled().await.outcome("upstream_error"), 8.0);
}

#[tokio::test]
async fn an_operators_cut_is_told() {
    let (engine, gate) = rig("").await;
    for (n, proto) in Proto::ALL.into_iter().enumerate() {
        let api = Api::ALL[n];
        let id = format!("cut-{n}");
        let mut call = Call::start(proto, gate.proxy, &api.stream(100_000).id(&id)).await;
        assert_eq!(call.head().await.unwrap().0, 200);
        let mut text = call.until(api.content_mark()).await;
        let url = gate.admin_url(&format!("/api/v1/holders/{id}"));
        let answer = reqwest::Client::new().delete(url).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
        let (rest, ending) = call.rest().await;
        text.push_str(&rest);
        assert_ne!(ending, Ending::Whole);
        assert_told(api, &api.error_event(&text), "cut_by_operator");
        assert_eq!(gate.line_of(&id).await["outcome"], "truncated");
    }
    let metrics = gate.settled().await;
    assert_eq!(metrics.sum("streamgate_streams_cut_total"), 2.0);
    let idle = engine.wait_stats(|stats| stats.in_flight == 0, Duration::from_secs(5));
    bounded("the engine is idle", idle).await.unwrap();
}

/// Before its head a cut is an honest answer of its own, which asks for no retry: that would bring
/// back what the operator has ended.
#[tokio::test]
async fn an_operators_cut_before_the_head_is_told() {
    let (engine, gate) = rig("").await;
    for (n, proto) in Proto::ALL.into_iter().enumerate() {
        for (request, api) in [
            (Api::Chat.stream(5).fault("delay-head=5m"), Api::Chat),
            (Api::Messages.stream(5).fault("opening-silence=forever"), Api::Messages),
            (Api::Chat.plain(100_000), Api::Chat),
        ] {
            let id = format!("early-cut-{n}-{}", request.body().len());
            let mut call = Call::start(proto, gate.proxy, &request.id(&id)).await;
            let busy = engine.wait_stats(|stats| stats.in_flight == 1, Duration::from_secs(20));
            busy.await.unwrap();
            let url = gate.admin_url(&format!("/api/v1/holders/{id}"));
            let told = reqwest::Client::new().delete(url).send().await.unwrap();
            assert!(told.status().is_success(), "{}", told.status());
            let answer = call.answer().await;
            assert_eq!((answer.status, answer.reason()), (503, Some("cut_by_operator")));
            assert_eq!(answer.headers["x-should-retry"], "false");
            assert!(!answer.headers.contains_key("retry-after"));
            let kind = if api == Api::Messages { "overloaded_error" } else { "server_error" };
            assert_eq!(answer.json()["error"]["type"], kind);
            let line = gate.line_of(&id).await;
            assert_eq!(
                (&line["outcome"], &line["reason"]),
                (&json!("truncated"), &json!("cut_by_operator"))
            );
            engine.wait_stats(|stats| stats.in_flight == 0, Duration::from_secs(5)).await.unwrap();
        }
    }
    let metrics = gate.settled().await;
    assert_eq!(metrics.sum_where("streamgate_streams_cut_total", &[("cause", "operator")]), 6.0);
}
