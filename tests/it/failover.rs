//! A request moves to another engine while its client has seen nothing and no engine can have
//! begun it, or is known to have lost it.

use crate::support::request::Request;
use crate::support::scripted::{CHAT_END, STREAM_HEAD, Scripted, chat_event};
use crate::support::wire::Ending;
use crate::support::{Api, BOUND, Call, Gate, Proto, Setup, ask, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig, FaultRule, Faults};

const SLOW: Duration = Duration::from_millis(10);

async fn engine() -> Engine {
    Engine::start(EngineConfig::instant(SLOW)).await.unwrap()
}

async fn gate(engines: &[&Engine], pool: &str) -> Gate {
    let addresses: Vec<_> = engines.iter().map(|engine| engine.addr()).collect();
    Gate::start(Setup::new(&addresses).tenant("a", "max_in_flight: 100").pool(pool)).await
}

fn always(engine: &Engine, faults: &str) {
    engine.set_fault(FaultRule::always(Faults::parse(faults).unwrap()));
}

async fn endpoint(gate: &Gate, engine: &Engine) -> serde_json::Value {
    let state = gate.state().await;
    let endpoints = state["pools"][0]["endpoints"].as_array().unwrap();
    let addr = engine.addr().to_string();
    endpoints.iter().find(|endpoint| endpoint["endpoint"] == *addr).unwrap().clone()
}

async fn in_state(gate: &Gate, engine: &Engine, state: &str) {
    eventually(state, || async { (endpoint(gate, engine).await["state"] == state).then_some(()) })
        .await;
}

/// `count` requests in a row, all complete; half of them over HTTP/2.
async fn all_complete(gate: &Gate, api: Api, count: usize) {
    for n in 0..count {
        let answer = ask(Proto::ALL[n % 2], gate.proxy, &api.stream(3)).await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_refused_connection_moves_the_request() {
    let (gone, stays) = (engine().await, engine().await);
    let gate = gate(&[&gone, &stays], "health: {interval: 1h}").await;
    gone.set_listening(false);
    eventually("the port is closed", || async {
        tokio::net::TcpStream::connect(gone.addr()).await.is_err().then_some(())
    })
    .await;
    all_complete(&gate, Api::Chat, 8).await;
    assert_eq!(stays.stats().completed, 8);
    assert_eq!(gate.settled().await.outcome("complete"), 8.0);
}

#[tokio::test]
async fn a_drain_answer_moves_the_request_and_marks_the_endpoint() {
    for (api, plain) in [(Api::Chat, false), (Api::Messages, true)] {
        let (leaving, stays) = (engine().await, engine().await);
        let gate = gate(&[&leaving, &stays], "").await;
        always(&leaving, "drain-500");
        for _ in 0..12 {
            let request = if plain { api.plain(3) } else { api.stream(3) };
            assert_eq!(gate.answer(&request).await.status, 200);
        }
        assert_eq!(endpoint(&gate, &leaving).await["state"], "draining");
        assert_eq!(leaving.stats().requests, 1, "asked once, then never again");
        assert_eq!(stays.stats().completed, 12);
        assert_eq!(gate.settled().await.outcome("complete"), 12.0);
    }
}

#[tokio::test]
async fn a_full_engine_moves_the_request_and_is_not_marked() {
    let config = EngineConfig {
        max_num_queued: Some(0),
        profile: streamgate_loadtests::engine::Profile::Instant(
            streamgate_loadtests::engine::InstantProfile {
                token_interval: SLOW,
                max_running: Some(1),
                ..Default::default()
            },
        ),
        ..EngineConfig::default()
    };
    let full = Engine::start(config.clone()).await.unwrap();
    // Fill it from beside the gate.
    let mut beside = Call::start(Proto::H1, full.addr(), &Api::Chat.stream(100_000)).await;
    beside.head().await.unwrap();
    let free = engine().await;
    let both = gate(&[&full, &free], "").await;
    all_complete(&both, Api::Chat, 8).await;
    assert_eq!(free.stats().completed, 8);
    assert_eq!(endpoint(&both, &full).await["state"], "ready");

    let alone = gate(&[&full], "").await;
    let answer = ask(Proto::H1, alone.proxy, &Api::Chat.stream(3)).await;
    assert_eq!(
        (answer.status, answer.reason()),
        (503, Some("pool_saturated")),
        "{}",
        answer.text()
    );
    assert!(answer.headers.contains_key("retry-after"));
}

/// An answer that no other engine would mend is the engine's own, to the byte.
#[tokio::test]
async fn other_errors_pass_unchanged() {
    let mut engine = Scripted::start().await;
    let gate = Gate::start(Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 4")).await;
    // The last is larger than anything that is read to be judged.
    let bodies = [
        "{\"error\":{\"message\":\"boom\"}}".to_owned(),
        String::new(),
        "<html>bad gateway</html>".to_owned(),
        "y".repeat(300_000),
    ];
    for status in ["500 Internal Server Error", "502 Bad Gateway", "400 Bad Request", "429 Slow"] {
        for (n, body) in bodies.iter().enumerate() {
            for proto in Proto::ALL {
                let mut call = Call::start(proto, gate.proxy, &Api::ALL[n].stream(3)).await;
                let mut taken = engine.next().await;
                let length = body.len();
                taken
                    .write(format!(
                        "HTTP/1.1 {status}\r\nx-own: yes\r\nretry-after: 7\r\n\
                         content-length: {length}\r\n\r\n{body}"
                    ))
                    .await;
                let answer = call.answer().await;
                assert!(status.starts_with(&answer.status.to_string()), "{}", answer.status);
                assert_eq!(answer.ending, Ending::Whole, "{status}, {length}, {proto:?}");
                assert!(answer.body == body.as_bytes(), "{status}, {length}, {proto:?}");
                assert_eq!(answer.headers["x-own"], "yes");
                assert_eq!(answer.headers["retry-after"], "7");
                assert!(engine.try_next().is_none(), "asked once");
            }
        }
    }
    assert_eq!(gate.settled().await.outcome("upstream_error"), 32.0);
}

/// A pooled connection that the engine closes or resets costs a stream nothing. (A plain answer:
/// `early::what_a_reused_connection_may_have_begun_is_not_done_twice`.)
#[tokio::test]
async fn a_stale_connection_is_not_the_requests_fault() {
    let mut engine = Scripted::start().await;
    let setup = Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 4");
    let gate = Gate::start(setup.pool("health: {interval: 1h}\nretries: {max_attempts: 1}")).await;
    for (n, api) in Api::ALL.into_iter().enumerate() {
        for request in [Api::Chat.stream(3), api.stream(3)] {
            let mut call = Call::start(Proto::H1, gate.proxy, &Request::get("/v1/x", "a")).await;
            let mut taken = engine.next().await;
            taken.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            assert_eq!(call.answer().await.body, b"ok");
            // The next request is taken and the connection ends without a byte of answer.
            let mut call = Call::start(Proto::ALL[n % 2], gate.proxy, &request).await;
            let stale = taken.again().await.expect("the connection is used again");
            if n >= 2 {
                socket2::SockRef::from(&stale.stream).set_linger(Some(Duration::ZERO)).unwrap();
            }
            drop(stale);
            let mut taken = engine.next().await;
            taken
                .write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
                .await;
            assert_eq!((call.answer().await.status), 200);
        }
    }
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("complete"), 16.0);
}

/// A fresh connection that ends without an answer: a stream is asked once more, elsewhere; a plain
/// answer may be finished work and is not.
#[tokio::test]
async fn what_may_be_finished_work_is_not_done_twice() {
    let (dies, stays) = (engine().await, engine().await);
    let gate = gate(&[&dies, &stays], "health: {interval: 1h}").await;
    always(&dies, "cut=before-head&cut-by=rst");
    always(&stays, "cut=before-head&cut-by=rst");
    let answer = gate.answer(&Api::Chat.plain(3)).await;
    assert_eq!((answer.status, answer.reason()), (502, Some("upstream_unreachable")));
    assert_eq!(dies.stats().requests + stays.stats().requests, 1);
    let answer = gate.answer(&Api::Chat.stream(3)).await;
    assert_eq!((answer.status, answer.reason()), (502, Some("upstream_unreachable")));
    assert_eq!(dies.stats().requests + stays.stats().requests, 3, "a stream: twice, not more");
    assert_eq!(gate.settled().await.outcome("upstream_error"), 2.0);
}

/// An engine that dies of a stream closes a reused connection as if it had been idle: the repeat
/// that follows is the only one.
#[tokio::test]
async fn a_stream_that_kills_engines_is_asked_twice_of_a_warm_pool() {
    let mut engines = Vec::new();
    for _ in 0..3 {
        engines.push(Scripted::start().await);
    }
    let addresses: Vec<_> = engines.iter().map(|engine| engine.addr).collect();
    let setup = Setup::new(&addresses).tenant("a", "max_in_flight: 4");
    let gate = Gate::start(setup.pool("health: {interval: 1h}\nretries: {max_attempts: 9}")).await;
    let mut calls = Vec::new();
    for _ in 0..3 {
        calls.push(Call::start(Proto::H1, gate.proxy, &Request::get("/v1/x", "a")).await);
    }
    let asked = Arc::new(AtomicUsize::new(0));
    for mut engine in engines {
        let mut taken = engine.next().await;
        taken.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        let asked = asked.clone();
        tokio::spawn(async move {
            let mut next = taken.again().await;
            while let Some(taken) = next {
                asked.fetch_add(1, Ordering::SeqCst);
                drop(taken);
                next = Some(engine.next().await);
            }
        });
    }
    for call in &mut calls {
        assert_eq!(call.answer().await.body, b"ok");
    }
    let answer = gate.answer(&Api::Chat.stream(3)).await;
    assert_eq!((answer.status, answer.reason()), (502, Some("upstream_unreachable")));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(gate.settled().await.outcome("upstream_error"), 1.0);
}

/// A 503 of words that do not prove that nothing was begun: a plain request gets it, a stream moves
/// once.
#[tokio::test]
async fn an_unknown_503_moves_a_stream_once_and_a_plain_request_never() {
    let engines = [engine().await, engine().await, engine().await];
    let pool = "health: {interval: 1h}\nretries: {max_attempts: 9}";
    let gate = gate(&[&engines[0], &engines[1], &engines[2]], pool).await;
    engines.iter().for_each(|engine| always(engine, "status=503"));
    let asked = || engines.iter().map(|engine| engine.stats().requests).sum::<u64>();
    for (request, total) in [(Api::Chat.plain(3), 1), (Api::Chat.stream(3), 3)] {
        let answer = gate.answer(&request).await;
        assert_eq!((answer.status, answer.reason()), (503, None), "{}", answer.text());
        assert_eq!(asked(), total);
    }
    assert_eq!(gate.settled().await.outcome("upstream_error"), 2.0);
}

/// Nothing is asked twice once a byte of content has reached the client.
#[tokio::test]
async fn nothing_moves_after_the_first_token() {
    let (one, two) = (engine().await, engine().await);
    let gate = gate(&[&one, &two], "").await;
    for proto in Proto::ALL {
        for api in Api::ALL {
            let fault = format!("cut=events:{}", api.opening_events() + 1);
            let answer = ask(proto, gate.proxy, &api.stream(9).fault(&fault)).await;
            assert_eq!(answer.status, 200);
            api.error_event(&answer.text());
        }
    }
    assert_eq!(one.stats().requests + two.stats().requests, 8);
}

#[tokio::test]
async fn the_budget_bounds_the_retries() {
    let (bad, good) = (engine().await, engine().await);
    let retries = "health: {interval: 1h}\nretries: {budget_percent: 0, min_per_second: 1}";
    let gate = gate(&[&bad, &good], retries).await;
    // Not marked by this: the endpoint is chosen again and again.
    always(&bad, "status=503");
    always(&good, "status=503");
    for _ in 0..30 {
        assert_eq!(gate.answer(&Api::Chat.stream(2)).await.status, 503);
    }
    let asked = bad.stats().requests + good.stats().requests;
    // Ten in ten seconds; a slow run may have begun a second window.
    assert!((40..=50).contains(&asked), "30 requests, {asked} attempts");
}

/// Kill one of two engines while its requests wait for their first token.
async fn killed_before_the_first_token(proto: Proto, api: Api) {
    let (dies, stays) = (engine().await, engine().await);
    let gate = gate(&[&dies, &stays], "health: {interval: 100ms}").await;
    // All requests go to one engine while the other is away.
    stays.set_listening(false);
    in_state(&gate, &stays, "down").await;
    always(&dies, "opening-silence=forever");
    let mut calls = Vec::new();
    for _ in 0..20 {
        calls.push(Call::start(proto, gate.proxy, &api.stream(5)).await);
    }
    dies.wait_stats(|stats| stats.in_flight == 20, BOUND).await.unwrap();
    stays.set_listening(true);
    in_state(&gate, &stays, "ready").await;
    dies.kill();
    for (n, call) in calls.iter_mut().enumerate() {
        let answer = call.answer().await;
        let text = answer.text();
        assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{n}: {text}");
        assert!(api.has_terminal(&text), "{n}: {text}");
        assert!(!text.contains("event: error"), "{n}: {text}");
    }
    assert_eq!(stays.stats().completed, 20);
    assert_eq!(gate.settled().await.outcome("complete"), 20.0);
}

#[tokio::test]
async fn an_engine_killed_before_the_first_token_is_unseen_completions() {
    for proto in Proto::ALL {
        killed_before_the_first_token(proto, Api::Completions).await;
    }
}

#[tokio::test]
async fn an_engine_killed_before_the_first_token_is_unseen_chat() {
    for proto in Proto::ALL {
        killed_before_the_first_token(proto, Api::Chat).await;
    }
}

#[tokio::test]
async fn an_engine_killed_before_the_first_token_is_unseen_responses() {
    for proto in Proto::ALL {
        killed_before_the_first_token(proto, Api::Responses).await;
    }
}

#[tokio::test]
async fn an_engine_killed_before_the_first_token_is_unseen_messages() {
    for proto in Proto::ALL {
        killed_before_the_first_token(proto, Api::Messages).await;
    }
}

/// Kill the only engine while 20 streams run: 20 explicit errors.
async fn killed_after_first_tokens(proto: Proto) {
    let engine = engine().await;
    let gate = gate(&[&engine], "").await;
    let mut calls = Vec::new();
    for n in 0..20 {
        let api = Api::ALL[n % 4];
        let mut call = Call::start(proto, gate.proxy, &api.stream(100_000)).await;
        assert_eq!(call.head().await.unwrap().0, 200);
        let text = call.until(api.content_mark()).await;
        calls.push((api, call, text));
    }
    engine.kill();
    for (api, mut call, mut text) in calls {
        let (rest, ending) = call.rest().await;
        text.push_str(&rest);
        assert_ne!(ending, Ending::Whole);
        api.error_event(&text);
    }
    assert_eq!(gate.settled().await.outcome("truncated"), 20.0);
}

#[tokio::test]
async fn an_engine_killed_after_first_tokens_is_told_over_http1() {
    killed_after_first_tokens(Proto::H1).await;
}

#[tokio::test]
async fn an_engine_killed_after_first_tokens_is_told_over_http2() {
    killed_after_first_tokens(Proto::H2c).await;
}

/// The engine's process dies under its API server: an error event is its first word.
#[tokio::test]
async fn an_early_error_event_moves_the_request() {
    let (dies, stays) = (engine().await, engine().await);
    let gate = gate(&[&dies, &stays], "health: {interval: 1h}").await;
    always(&dies, "error-after=0");
    for api in [Api::Completions, Api::Chat, Api::Messages] {
        all_complete(&gate, api, 4).await;
    }
    assert_eq!(gate.settled().await.outcome("complete"), 12.0);
}

/// Case 15: an engine that restarts under the same address starts at zero.
#[tokio::test]
async fn a_restarted_engine_starts_with_a_clean_count() {
    let mut engine = engine().await;
    let gate = gate(&[&engine], "health: {interval: 100ms}").await;
    let mut calls = Vec::new();
    for _ in 0..5 {
        let mut call = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(100_000)).await;
        call.head().await.unwrap();
        calls.push(call);
    }
    assert_eq!(endpoint(&gate, &engine).await["in_flight"], 5);
    engine.kill();
    for mut call in calls {
        assert_ne!(call.rest().await.1, Ending::Whole);
    }
    assert_eq!(gate.settled().await.sum("streamgate_endpoint_in_flight"), 0.0);
    engine.restart().await.unwrap();
    let mut call = eventually("the engine serves again", || async {
        let mut call = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(100_000)).await;
        (call.head().await?.0 == 200).then_some(call)
    })
    .await;
    call.until(Api::Chat.content_mark()).await;
    assert_eq!(endpoint(&gate, &engine).await["in_flight"], 1);
    drop(call);
    gate.settled().await;
    assert_eq!(endpoint(&gate, &engine).await["in_flight"], 0);
}

/// An attempt that is lost after its head is given up, and its engine's work with it.
#[tokio::test]
async fn the_lost_attempt_is_closed_before_the_next() {
    let (mut first, mut second) = (Scripted::start().await, Scripted::start().await);
    let setup = Setup::new(&[first.addr, second.addr]).tenant("a", "max_in_flight: 1");
    let gate = Gate::start(setup).await;
    let mut call = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(3)).await;
    let (mut lost, other) = tokio::select! {
        taken = first.next() => (taken, &mut second),
        taken = second.next() => (taken, &mut first),
    };
    lost.write(STREAM_HEAD).await;
    lost.chunk("data: {\"error\":{\"message\":\"boom\",\"code\":500}}\n\n").await;
    lost.closed().await;
    drop(lost);
    let mut taken = other.next().await;
    taken.write(STREAM_HEAD).await;
    taken.chunk(format!("{}{CHAT_END}", chat_event("moved"))).await;
    taken.end().await;
    let answer = call.answer().await;
    assert_eq!((answer.status, answer.ending), (200, Ending::Whole));
    assert!(answer.text().contains("moved"));
    assert!(!answer.text().contains("boom"));
}

/// What decided a choice is counted: a gateway, the only endpoint, the load, a retry.
#[tokio::test]
async fn choices_are_counted_by_what_decided_them() {
    let (one, two, gone) = (engine().await, engine().await, engine().await);
    gone.kill();
    let down = "health: {interval: 1h}";
    let cases = [
        (gate(&[&one], "kind: gateway").await, &["gateway"][..]),
        (gate(&[&one], "").await, &["only"]),
        (gate(&[&one, &two], "").await, &["least_request"]),
    ];
    for (gate, selections) in cases {
        all_complete(&gate, Api::Chat, 4).await;
        let metrics = gate.settled().await;
        for selection in selections {
            let labels = [("pool", "p"), ("selection", *selection)];
            assert_eq!(metrics.sum_where("streamgate_routing_selections_total", &labels), 4.0);
        }
        assert_eq!(metrics.sum("streamgate_routing_selections_total"), 4.0);
    }
    let gate = gate(&[&gone, &one], down).await;
    let retried = eventually("a choice of the engine that is gone", || async {
        all_complete(&gate, Api::Chat, 1).await;
        let labels = [("pool", "p"), ("selection", "retry")];
        let count = gate.settled().await.sum_where("streamgate_routing_selections_total", &labels);
        (count > 0.0).then_some(count)
    });
    assert_eq!(retried.await, 1.0);
}
