//! A slot is held until the stream has ended at the engine, and comes back after every end.

use crate::support::wire::{Ending, Request, Wire, chat};
use crate::support::{Gate, Setup};
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};

#[tokio::test]
async fn a_stream_comes_through_whole() {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(1))).await.unwrap();
    let gate = Gate::start(Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 1")).await;
    let mut wire = Wire::connect(gate.proxy).await;
    let answer = wire.call(&Request::post("/v1/chat/completions", "a", chat(5, true))).await;
    assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{}", answer.text());
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("complete"), 1.0);
}
