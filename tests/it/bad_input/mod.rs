//! What no client and no engine should send: the right answer, no slot, no secret in a log, no
//! panic, and the next request is served.

mod answers;
mod bodies;
mod events;
mod fuzz;
mod heads;
mod json;
mod paths;
mod secrets;

use crate::support::request::Request;
use crate::support::wire::{Answer, Ending, Wire};
use crate::support::{Api, Gate, Metrics, Setup, bounded};
use std::net::SocketAddr;
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};

const CAP: u32 = 2;

/// A gate with small caps before one engine.
struct Rig {
    engine: Engine,
    gate: Gate,
}

impl Rig {
    async fn start() -> Self {
        Self::with(|setup| setup).await
    }

    async fn with(more: impl FnOnce(Setup) -> Setup) -> Self {
        let engine = Engine::start(EngineConfig::instant(Duration::from_millis(1))).await.unwrap();
        let setup = Setup::new(&[engine.addr()]).tenant("a", &format!("max_in_flight: {CAP}"));
        Self { gate: Gate::start(more(setup)).await, engine }
    }

    /// Requests the engine saw, probes aside.
    fn asked(&self) -> usize {
        self.engine.requests().iter().filter(|request| request.path != "/health").count()
    }

    /// Nothing of what came before has left a trace.
    async fn unharmed(&self) -> Metrics {
        self.gate.all_slots_free(CAP, &self.engine).await;
        let answer = self.gate.answer(&Api::Chat.stream(3)).await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{}", answer.text());
        calm(&self.gate).await
    }
}

/// Nothing failed, nothing panicked.
async fn calm(gate: &Gate) -> Metrics {
    let metrics = gate.settled().await;
    let failed: Vec<_> =
        gate.request_lines().into_iter().filter(|line| line["outcome"] == "failed").collect();
    assert_eq!(metrics.outcome("failed"), 0.0, "{failed:?} {:#?}", gate.output());
    let shouts: Vec<_> =
        gate.output().into_iter().filter(|line| line.contains("panicked")).collect();
    assert!(shouts.is_empty(), "{shouts:?}");
    metrics
}

/// Send bytes on a connection of their own; the first answer, if there is one.
async fn told(to: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut wire = Wire::connect(to).await;
    // The gate may answer and close before it has all of it.
    let _ = tokio::io::AsyncWriteExt::write_all(&mut wire.stream, bytes).await;
    bounded("an answer or the end", wire.try_answer()).await
}

/// The gate's own refusal, in OpenAI's shape.
fn assert_refused(answer: &Answer, status: u16, reason: &str, what: &str) {
    assert_eq!(
        (answer.status, answer.reason()),
        (status, Some(reason)),
        "{what}: {}",
        answer.text()
    );
    assert_eq!(answer.headers["content-type"], "application/json", "{what}");
    assert!(!answer.headers["x-request-id"].is_empty(), "{what}");
    let body = answer.json();
    let error = body["error"].as_object().unwrap_or_else(|| panic!("{what}: {body}"));
    for key in ["message", "type", "code"] {
        assert!(error[key].as_str().is_some_and(|text| !text.is_empty()), "{what}: {body}");
    }
}

fn post(body: impl Into<Vec<u8>>) -> Request {
    Request::post("/v1/chat/completions", "a", body)
}
