//! A slot is held until the stream has ended at the engine, and comes back after every end.

use crate::support::request::Request;
use crate::support::wire::{Ending, Wire};
use crate::support::{Api, BOUND, Call, Gate, Leave, Proto, Setup, ask};
use serde_json::json;
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};

const LONG: u32 = 100_000;

async fn rig(tenant: &str, extra: &str) -> (Engine, Gate) {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(5))).await.unwrap();
    let gate = Gate::start(Setup::new(&[engine.addr()]).tenant("a", tenant).with(extra)).await;
    (engine, gate)
}

#[tokio::test]
async fn a_stream_comes_through_whole() {
    let (_engine, gate) = rig("max_in_flight: 1", "").await;
    for proto in Proto::ALL {
        for api in Api::ALL {
            let answer = ask(proto, gate.proxy, &api.stream(5)).await;
            assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{}", answer.text());
            assert!(api.has_terminal(&answer.text()), "{}", answer.text());
        }
    }
    assert_eq!(gate.settled().await.outcome("complete"), 8.0);
}

/// Case 1: a client leaves a long stream; the next request has its slot.
#[tokio::test]
async fn a_cancelled_stream_gives_its_slot_back() {
    let (engine, gate) = rig("max_in_flight: 1", "").await;
    for how in Leave::ALL {
        let mut call = Call::start(how.proto(), gate.proxy, &Api::Chat.stream(LONG)).await;
        assert_eq!(call.head().await.unwrap().0, 200);
        call.until(Api::Chat.content_mark()).await;
        let refused = gate.answer(&Api::Chat.stream(2)).await;
        assert_eq!((refused.status, refused.reason()), (429, Some("tenant_in_flight")));
        let _left = call.leave(how).await;
        gate.settled().await;
        assert_eq!(gate.answer(&Api::Chat.stream(2)).await.ending, Ending::Whole);
    }
    assert_eq!(engine.stats().max_in_flight, 1);
}

/// Case 2: after every way in which an engine fails, the full cap is free.
#[tokio::test]
async fn every_failure_gives_its_slot_back() {
    let timeouts = "timeouts: {first_byte: 1s, head_hold: 100ms, stream_idle: 1s}";
    let (engine, gate) = rig("max_in_flight: 2", timeouts).await;
    let failures = [
        "status=502",
        "status=504",
        "status=400",
        "refuse",
        "refuse&cut-by=rst",
        "cut=before-head",
        "cut=before-head&cut-by=rst",
        "cut=after-head",
        "cut=after-head&cut-by=rst",
        "cut=events:4",
        "cut=bytes:1500&cut-by=rst",
        "end-after=4",
        "error-after=0",
        "error-after=4",
        "abort-after=0",
        "abort-after=4",
        "stall-after=0",
        "stall-after=4",
        "delay-head=5m",
        "opening-silence=forever",
    ];
    for (n, failure) in failures.into_iter().enumerate() {
        let proto = Proto::ALL[n % 2];
        for request in [Api::ALL[n % 4].stream(20), Api::ALL[n % 4].plain(20)] {
            ask(proto, gate.proxy, &request.fault(failure)).await;
        }
        gate.all_slots_free(2, &engine).await;
    }
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("failed"), 0.0);
    assert_eq!(engine.stats().max_in_flight, 2);
}

/// Case 3: no route forgets its slot.
#[tokio::test]
async fn every_route_gives_its_slot_back() {
    const CAP: usize = 2;
    let (engine, gate) = rig(&format!("max_in_flight: {CAP}"), "").await;
    let embeddings = json!({"model": "sim", "input": "hello"}).to_string();
    let mut routes = vec![
        Request::get("/v1/models", "a"),
        Request::new("HEAD", "/v1/models", "a"),
        Request::get("/v1/nothing/here", "a"),
        Request::post("/v1/embeddings", "a", embeddings),
    ];
    for api in Api::ALL {
        routes.extend([api.stream(3), api.plain(3)]);
    }
    for route in &routes {
        for n in 0..=CAP {
            let mut call = Call::start(Proto::ALL[n % 2], gate.proxy, route).await;
            let status = call.head().await.expect("an answer").0;
            assert!(matches!(status, 200 | 404 | 405), "{status} for {route:?}");
            // A HEAD's length is not followed by a body.
            drop(call);
            gate.settled().await;
        }
    }
    gate.all_slots_free(CAP, &engine).await;
}

/// Case 4: what is refused without asking an engine takes no slot.
#[tokio::test]
async fn what_is_refused_early_takes_no_slot() {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(5))).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).model("sim").tenant("a", "max_in_flight: 1");
    let gate = Gate::start(setup.with("limits: {body: 2KiB, header: 2KiB}")).await;
    // The only slot is taken: whoever asked for one would be told so.
    let mut running = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(LONG)).await;
    assert_eq!(running.head().await.unwrap().0, 200);
    let chat = Api::Chat.path();
    let large = format!(r#"{{"model":"sim","prompt":"{}"}}"#, "x".repeat(4096));
    let long = "x".repeat(4096);
    let refused = [
        (Request::post(chat, "a", "{not json"), 400, "bad_request"),
        (Request::post(chat, "a", "[]"), 400, "bad_request"),
        (Request::post(chat, "a", r#"{"model":"other","messages":[]}"#), 404, "unknown_model"),
        (Request::post(Api::Completions.path(), "a", large), 413, "payload_too_large"),
        (Request::post(chat, "nobody", "{}"), 401, "unauthenticated"),
        (Api::Chat.stream(3).header("x-long", &long), 431, "bad_request"),
        (Request::new("CONNECT", "gate:80", "a"), 405, "bad_request"),
    ];
    for (request, status, reason) in &refused {
        let answer = gate.answer(request).await;
        assert_eq!((answer.status, answer.reason()), (*status, Some(*reason)), "{request:?}");
        assert_eq!(answer.ending, Ending::Whole);
    }
    let full = gate.answer(&Api::Chat.stream(2)).await;
    assert_eq!(full.reason(), Some("tenant_in_flight"));
    drop(running);
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("rejected"), 8.0);
    assert_eq!(engine.stats().requests, 1);
    gate.all_slots_free(1, &engine).await;
}

/// Case 12: a stream holds its slot to its end, not to the return of some handler.
#[tokio::test]
async fn a_stream_holds_its_slot_to_its_end() {
    let (engine, gate) = rig("max_in_flight: 1", "").await;
    for proto in Proto::ALL {
        for api in Api::ALL {
            let mut first = Call::start(proto, gate.proxy, &api.stream(60)).await;
            assert_eq!(first.head().await.unwrap().0, 200);
            first.until(api.content_mark()).await;
            let second = ask(proto, gate.proxy, &api.stream(2)).await;
            assert_eq!((second.status, second.reason()), (429, Some("tenant_in_flight")));
            let wait: u64 = second.headers["retry-after"].parse().unwrap();
            assert!((1..=60).contains(&wait), "{wait}");
            let (rest, ending) = first.rest().await;
            assert_eq!(ending, Ending::Whole);
            assert!(api.has_terminal(&rest));
            // The end is in the client's hands: the slot is free.
            assert_eq!(ask(proto, gate.proxy, &api.stream(2)).await.status, 200);
        }
    }
    assert_eq!(engine.stats().max_in_flight, 1);
}

/// One client, one slot, request after request as fast as answers come: never refused.
#[tokio::test]
async fn the_slot_is_free_when_the_client_has_the_end() {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let gate = Gate::start(Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 1")).await;
    let mut wire = Wire::connect(gate.proxy).await;
    for n in 0..200 {
        let api = Api::ALL[n % 4];
        let request = if n % 8 < 4 { api.stream(3) } else { api.plain(3) };
        let answer = wire.call(&request).await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{n}: {}", answer.text());
    }
    assert_eq!((engine.stats().requests, engine.stats().max_in_flight), (200, 1));
    assert!(engine.stats().connections < 20, "connections are used again");
}

/// Case 18: what a cancelled stream delivered is charged, in the metric and in the log.
#[tokio::test]
async fn a_cancelled_stream_is_charged_what_it_delivered() {
    let (engine, gate) = rig("max_in_flight: 4", "").await;
    let mut charged = 0;
    for (n, api) in Api::ALL.into_iter().enumerate() {
        let id = format!("cancelled-{n}");
        let mut call = Call::start(Proto::ALL[n % 2], gate.proxy, &api.stream(LONG).id(&id)).await;
        assert_eq!(call.head().await.unwrap().0, 200);
        let mut text = String::new();
        while text.matches(api.content_mark()).count() < 12 {
            text += &String::from_utf8_lossy(&call.piece().await.unwrap().unwrap());
        }
        let delivered = text.matches(api.content_mark()).count() as u64;
        let how = if n % 2 == 0 { Leave::Close } else { Leave::StreamReset };
        let _left = call.leave(how).await;
        let line = gate.line_of(&id).await;
        let tokens = line["completion_tokens"].as_u64().expect("charged");
        assert!(tokens >= delivered, "{api:?}: {delivered} delivered, {tokens} charged");
        assert_eq!(line["tokens_estimated"], true);
        charged += tokens;
    }
    engine.wait_stats(|stats| stats.in_flight == 0, BOUND).await.unwrap();
    let metrics = gate.settled().await;
    let counted = metrics.sum_where("streamgate_tokens_total", &[("kind", "completion")]);
    assert_eq!(counted, charged as f64);
    assert!(charged <= engine.stats().tokens_generated, "never more than was generated");
}

/// Case 17: usage that is repeated in every chunk counts once.
#[tokio::test]
async fn repeated_usage_counts_once() {
    let (engine, gate) = rig("max_in_flight: 4", "").await;
    let repeated =
        json!({"stream_options": {"include_usage": true, "continuous_usage_stats": true}});
    for api in [Api::Completions, Api::Chat] {
        let answer = gate.answer(&api.stream_with(40, repeated.clone())).await;
        assert_eq!(answer.ending, Ending::Whole);
        assert!(answer.text().matches("\"completion_tokens\"").count() > 20, "{}", answer.text());
    }
    for api in Api::ALL {
        assert_eq!(gate.answer(&api.stream(10)).await.ending, Ending::Whole);
    }
    let metrics = gate.settled().await;
    let counted = metrics.sum_where("streamgate_tokens_total", &[("kind", "completion")]);
    assert_eq!(counted, 120.0);
    assert_eq!(engine.stats().tokens_generated, 120);
}
