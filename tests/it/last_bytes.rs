//! The last bytes of an answer are with the client before the replica ends: a slot is free when the
//! engine is done, which is before that.

use crate::support::wire::Ending;
use crate::support::{Api, Call, Gate, Proto, Setup, eventually};
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};

async fn rig(drain: &str) -> (Engine, Gate) {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(5))).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 40");
    let gate = Gate::start(setup.with(&format!("drain: {drain}"))).await;
    (engine, gate)
}

/// Streams that run when the drain begins; `tokens` apart, so that each may be the last.
async fn streams(gate: &Gate, proto: Proto, tokens: u32) -> Vec<(Api, Call)> {
    let mut calls = Vec::new();
    for n in 0..8 {
        let api = Api::ALL[n % 4];
        let mut call = Call::start(proto, gate.proxy, &api.stream(tokens)).await;
        assert_eq!(call.head().await.unwrap().0, 200);
        calls.push((api, call));
    }
    calls
}

async fn drains(gate: &Gate) {
    eventually("draining", || async {
        (gate.state().await["drain"]["state"] == "draining").then_some(())
    })
    .await;
}

/// The process ends the moment its last stream has.
async fn complete_streams_have_their_end(proto: Proto) {
    for _ in 0..4 {
        let (_engine, mut gate) = rig("{propagation: 0s, deadline: 60s, cut_margin: 1s}").await;
        let calls = streams(&gate, proto, 60).await;
        gate.signal("TERM");
        for (api, mut call) in calls {
            let (text, ending) = call.rest().await;
            assert_eq!(ending, Ending::Whole, "{text}");
            assert!(api.has_terminal(&text), "{text}");
        }
        assert_eq!(gate.exit_code().await, Some(0));
    }
}

#[tokio::test]
async fn complete_streams_have_their_end_over_http1() {
    complete_streams_have_their_end(Proto::H1).await;
}

#[tokio::test]
async fn complete_streams_have_their_end_over_http2() {
    complete_streams_have_their_end(Proto::H2c).await;
}

/// The process ends the moment its streams are cut; each client was told.
async fn cut_streams_are_told(proto: Proto) {
    for _ in 0..4 {
        let (_engine, mut gate) = rig("{propagation: 0s, deadline: 60s, cut_margin: 1s}").await;
        let calls = streams(&gate, proto, 100_000).await;
        gate.signal("TERM");
        drains(&gate).await;
        gate.signal("TERM");
        for (api, mut call) in calls {
            let (text, ending) = call.rest().await;
            assert_ne!(ending, Ending::Whole, "{text}");
            let data = api.error_event(&text);
            if let Some(code) = api.error_code(&data) {
                assert_eq!(code, "draining");
            }
        }
        assert_eq!(gate.exit_code().await, Some(2));
    }
}

#[tokio::test]
async fn cut_streams_are_told_over_http1() {
    cut_streams_are_told(Proto::H1).await;
}

#[tokio::test]
async fn cut_streams_are_told_over_http2() {
    cut_streams_are_told(Proto::H2c).await;
}
