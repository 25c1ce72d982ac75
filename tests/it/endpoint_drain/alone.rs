//! One replica, no store.

use super::*;
use crate::support::Leave;
use crate::support::scripted::Scripted;
use crate::support::wire::{Ending, Wire};
use std::time::Instant;

#[tokio::test]
async fn drained_is_said_after_the_last_stream_and_not_before() {
    let (leaving, staying) = (engine().await, engine().await);
    let gate = Gate::start(setup(&[leaving.addr()])).await;
    drop(staying);
    let mut first = streaming_on(&gate, &leaving, 60).await;
    let second = streaming_on(&gate, &leaving, LONG).await;
    let waiting = draining(&gate, leaving.addr(), "60s").await;

    let known = order(&gate, leaving.addr()).await;
    assert_eq!((&known["state"], &known["in_flight"]), (&"draining".into(), &2.into()), "{known}");
    let (text, ending) = first.rest().await;
    assert!(ending == Ending::Whole && text.ends_with("data: [DONE]\n\n"), "{text}");
    order_when(&gate, leaving.addr(), "one is left", |order| order["in_flight"] == 1).await;
    assert!(!waiting.is_finished(), "one still runs");

    second.leave(Leave::Close).await;
    let reply = waiting.await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!((&reply.body["drained"], &reply.body["in_flight"]), (&true.into(), &0.into()));
    assert_eq!(reply.body["replicas"].as_array().map(Vec::len), Some(1));
    runs(&leaving, 0).await;
}

#[tokio::test]
async fn requests_go_elsewhere_at_once_and_come_back_with_the_restoration() {
    let (leaving, staying) = (engine().await, engine().await);
    let gate = Gate::start(setup(&[leaving.addr(), staying.addr()])).await;
    let reply = drain(&gate, leaving.addr(), "30s").await;
    assert_eq!(reply.status, 200, "nothing ran there: {reply:?}");
    served_by(&gate, &staying).await;

    let reply = restore(&gate, leaving.addr()).await;
    assert_eq!((reply.status, &reply.body["restored"]), (200, &true.into()), "{reply:?}");
    assert_eq!(order(&gate, leaving.addr()).await, Value::Null);
    assert_eq!(drain(&gate, staying.addr(), "30s").await.status, 200);
    served_by(&gate, &leaving).await;

    let again = restore(&gate, leaving.addr()).await;
    assert_eq!((again.status, &again.body["restored"]), (200, &false.into()), "it served already");
}

#[tokio::test]
async fn whoever_waits_is_told_that_it_was_restored() {
    let leaving = engine().await;
    let gate = Gate::start(setup(&[leaving.addr()])).await;
    let running = streaming_on(&gate, &leaving, LONG).await;
    let waiting = draining(&gate, leaving.addr(), "60s").await;
    assert_eq!(restore(&gate, leaving.addr()).await.status, 200);
    let reply = waiting.await.unwrap();
    assert_eq!((reply.status, &reply.body["error"]), (409, &"restored".into()), "{reply:?}");
    drop(running);
}

#[tokio::test]
async fn the_call_ends_at_its_deadline_and_the_streams_at_the_engines() {
    let leaving = engine().await;
    let setup = setup(&[leaving.addr()]);
    let setup = setup.pool("health: {interval: 100ms}\nengine_shutdown_timeout: 2s");
    let gate = Gate::start(setup).await;
    let mut running = streaming_on(&gate, &leaving, LONG).await;
    let began = Instant::now();
    let reply = drain(&gate, leaving.addr(), "1s").await;
    assert_eq!((reply.status, &reply.body["in_flight"]), (504, &1.into()), "{reply:?}");
    assert_eq!(reply.body["state"], "draining");
    assert!(reply.body["cut_in_ms"].as_u64().is_some_and(|ms| ms <= 1_600), "{reply:?}");

    let (text, ending) = running.rest().await;
    let took = began.elapsed();
    // Wait 1 s, shutdown 2 s, half a second before its end.
    assert!(took >= Duration::from_millis(2_400), "{took:?}");
    assert_ne!(ending, Ending::Whole, "a broken stream does not end cleanly");
    assert!(text.contains("event: error") && text.contains("\"draining\""), "{text}");
    assert!(!text.contains("[DONE]"), "{text}");
    runs(&leaving, 0).await;
    let metrics = gate.settled().await;
    let cut = metrics.sum_where("streamgate_streams_cut_total", &[("cause", "endpoint_drain")]);
    assert!((cut - 1.0).abs() < f64::EPSILON, "{cut}");
    order_when(&gate, leaving.addr(), "cut", |order| order["state"] != "draining").await;
    // The engine may now be stopped, and whoever asks again is told so.
    assert_eq!(drain(&gate, leaving.addr(), "20s").await.status, 200);
}

#[tokio::test]
async fn what_has_shown_its_client_nothing_leaves_for_another_engine_at_the_deadline() {
    let mut leaving = Scripted::start().await;
    let staying = engine().await;
    let setup = setup(&[leaving.addr, staying.addr()]);
    let setup = setup.pool("health: {interval: 100ms}\nengine_shutdown_timeout: 1s");
    let gate = Gate::start(setup).await;
    // Held by the first engine, which never says a word; the other one is not there yet.
    assert_eq!(drain(&gate, staying.addr(), "20s").await.status, 200);
    let mut waiting = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(5)).await;
    let mut held = leaving.next().await;
    assert_eq!(restore(&gate, staying.addr()).await.status, 200);
    assert_eq!(drain(&gate, leaving.addr, "100ms").await.status, 504);
    let answer = waiting.answer().await;
    assert!(answer.status == 200 && answer.ending == Ending::Whole, "{}", answer.text());
    held.closed().await;
    assert_eq!(staying.stats().completed, 1);
    assert!((gate.settled().await.outcome("complete") - 1.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn what_can_go_nowhere_else_gets_an_honest_status_at_the_deadline() {
    let mut leaving = Scripted::start().await;
    let setup = setup(&[leaving.addr]);
    let setup = setup.pool("health: {interval: 100ms}\nengine_shutdown_timeout: 1s");
    let gate = Gate::start(setup).await;
    let mut waiting = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(5)).await;
    let mut held = leaving.next().await;
    assert_eq!(drain(&gate, leaving.addr, "100ms").await.status, 504);
    let answer = waiting.answer().await;
    assert_eq!((answer.status, answer.reason()), (503, Some("no_endpoint")), "{}", answer.text());
    assert!(answer.headers.contains_key("retry-after"));
    held.closed().await;
    assert!((gate.settled().await.outcome("drain_cut") - 1.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn without_a_shutdown_timeout_nothing_is_cut() {
    let leaving = engine().await;
    let gate = Gate::start(setup(&[leaving.addr()])).await;
    let mut running = streaming_on(&gate, &leaving, 100).await;
    let reply = drain(&gate, leaving.addr(), "100ms").await;
    assert_eq!((reply.status, &reply.body["cut_in_ms"]), (504, &Value::Null), "{reply:?}");
    let (text, ending) = running.rest().await;
    assert!(ending == Ending::Whole && text.ends_with("data: [DONE]\n\n"), "{text}");
}

#[tokio::test]
async fn a_new_process_at_the_same_address_starts_afresh() {
    let mut leaving = engine().await;
    let staying = engine().await;
    let gate = Gate::start(setup(&[leaving.addr(), staying.addr()])).await;
    assert_eq!(drain(&gate, leaving.addr(), "30s").await.status, 200);
    leaving.set_listening(false);
    state_is(&gate, leaving.addr(), "down").await;
    leaving.restart().await.unwrap();
    state_is(&gate, leaving.addr(), "ready").await;
    order_when(&gate, leaving.addr(), "the order is over", Value::is_null).await;
    assert_eq!(drain(&gate, staying.addr(), "30s").await.status, 200);
    served_by(&gate, &leaving).await;
}

#[tokio::test]
async fn a_caller_that_leaves_ends_its_waiting_and_not_the_drain() {
    let leaving = engine().await;
    let gate = Gate::start(setup(&[leaving.addr()])).await;
    let running = streaming_on(&gate, &leaving, LONG).await;
    let waiting = draining(&gate, leaving.addr(), "60s").await;
    waiting.abort();
    assert!(waiting.await.is_err());
    assert_eq!(endpoint_state(&gate, leaving.addr()).await, "draining");
    running.leave(Leave::Close).await;
    order_when(&gate, leaving.addr(), "drained", |order| order["state"] == "drained").await;
}

#[tokio::test]
async fn an_order_outlives_a_reload_that_removes_and_brings_back_the_endpoint() {
    let (leaving, staying) = (engine().await, engine().await);
    let both = setup(&[leaving.addr(), staying.addr()]);
    let gate = Gate::start(both.clone()).await;
    assert_eq!(drain(&gate, leaving.addr(), "30s").await.status, 200);
    let file = gate.directory().join("streamgate.yaml");
    let endpoints = async |count: usize| {
        gate.signal("HUP");
        eventually("the new configuration", || async {
            let state = gate.state().await;
            let endpoints = state["pools"][0]["endpoints"].as_array().unwrap().len();
            (endpoints == count).then_some(())
        })
        .await;
    };
    std::fs::write(&file, setup(&[staying.addr()]).yaml()).unwrap();
    endpoints(1).await;
    std::fs::write(&file, both.yaml()).unwrap();
    endpoints(2).await;
    assert_eq!(endpoint_state(&gate, leaving.addr()).await, "draining");
    served_by(&gate, &staying).await;
}

#[tokio::test]
async fn what_is_no_endpoint_is_refused_with_those_there_are() {
    let engine = engine().await;
    let gate = Gate::start(setup(&[engine.addr()])).await;
    for method in [reqwest::Method::POST, reqwest::Method::DELETE] {
        let reply = call(method.clone(), gate.admin_url(&path("10.9.9.9:1"))).await;
        assert_eq!((reply.status, &reply.body["error"]), (404, &"no_such_endpoint".into()));
        let message = reply.body["message"].as_str().unwrap();
        assert!(message.contains(&engine.addr().to_string()), "{message}");
        let reply = call(method, gate.admin_url(&path("nonsense"))).await;
        assert_eq!((reply.status, &reply.body["error"]), (400, &"bad_request".into()));
    }
    let reply = drain(&gate, engine.addr(), "soon").await;
    assert_eq!(reply.status, 400, "{reply:?}");
    assert_eq!(endpoint_state(&gate, engine.addr()).await, "ready", "nothing began");
    let page = reqwest::Client::new()
        .post(gate.admin_url(&format!("{}?wait=1s", path(engine.addr()))))
        .header("origin", "http://elsewhere.example");
    assert_eq!(page.send().await.unwrap().status().as_u16(), 403);
}

#[tokio::test]
async fn an_address_of_ipv6_can_be_named() {
    let gate = Gate::start(setup(&["[::1]:9".parse().unwrap()])).await;
    let reply = drain(&gate, "[::1]:9".parse().unwrap(), "5s").await;
    assert_eq!((reply.status, &reply.body["endpoint"]), (200, &"[::1]:9".into()), "{reply:?}");
    let escaped = gate.admin_url(&path("%5B%3A%3A1%5D%3A9"));
    assert_eq!(call(reqwest::Method::DELETE, escaped).await.status, 200);
}

#[tokio::test]
async fn a_replica_that_ends_does_not_keep_its_callers() {
    let leaving = engine().await;
    let drain = "drain: {propagation: 0s, deadline: 30s, cut_margin: 500ms}";
    let setup = Setup::new(&[leaving.addr()]).tenant("a", "max_in_flight: 4").with(drain);
    let mut gate = Gate::start(setup).await;
    let running = streaming_on(&gate, &leaving, LONG).await;
    let waiting = draining(&gate, leaving.addr(), "60s").await;
    gate.signal("TERM");
    eventually("it drains itself", || async {
        (gate.state().await["drain"]["state"] == "draining").then_some(())
    })
    .await;
    let _idle = Wire::connect(gate.proxy).await;
    running.leave(Leave::Close).await;
    assert_eq!(gate.exit_code().await, Some(0));
    assert_eq!(waiting.await.unwrap().status, 200, "the last stream had ended");
}
