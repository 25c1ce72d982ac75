//! The real client libraries of OpenAI and Anthropic against the gate (`tests/sdk`): what they
//! make of its answers, its refusals and its broken streams.
//!
//! Fails if there is a Python but the libraries cannot be installed; without a Python it can only
//! say so.

use crate::support::request::{Request, chat};
use crate::support::{Api, BOUND, Call, Gate, Leave, OwnEngine, Proto, Setup};
use std::path::{Path, PathBuf};
use std::time::Duration;
use streamgate_loadtests::engine::{EngineConfig, StatsSnapshot};
use tokio::process::Command;
use tokio::sync::OnceCell;

/// The interpreter that has the libraries; `None`: there is no Python here.
async fn interpreter() -> Option<PathBuf> {
    static READY: OnceCell<Option<PathBuf>> = OnceCell::const_new();
    READY.get_or_init(install).await.clone()
}

async fn install() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/sdk-venv.sh");
    let output = Command::new(script).output().await.unwrap();
    if output.status.success() {
        return Some(String::from_utf8(output.stdout).unwrap().trim().into());
    }
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let there = Command::new(python).arg("--version").output().await.is_ok();
    assert!(!there, "{}", String::from_utf8_lossy(&output.stderr));
    println!("SKIPPED: no python3 here");
    None
}

struct Rig {
    engine: OwnEngine,
    gate: Gate,
    python: PathBuf,
}

impl Rig {
    /// `None`: there is no Python here.
    async fn start() -> Option<Self> {
        let python = interpreter().await?;
        let engine = OwnEngine::start(EngineConfig::instant(Duration::from_millis(1))).await;
        let setup = Setup::new(&[engine.addr()])
            .model("sim\", \"sim-2")
            .tenant("a", "max_in_flight: 2")
            .tenant("one", "max_in_flight: 1")
            .tenant("other", "max_in_flight: 1\nmodels: [\"sim-2\"]")
            .with("limits: {body: 64KiB}");
        Some(Self { gate: Gate::start(setup).await, engine, python })
    }

    /// Run one check of `tests/sdk/sdk.py`.
    async fn check(&self, name: &str) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/sdk.py");
        let mut command = Command::new(&self.python);
        command.arg(script).arg(name).kill_on_drop(true);
        command.env("GATE", format!("http://{}", self.gate.proxy));
        for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(proxy);
        }
        let output = tokio::time::timeout(6 * BOUND, command.output()).await;
        let output = output.expect("the libraries come to an end").unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}:\n{error}");
    }
}

#[tokio::test]
async fn the_libraries_stream_every_api() {
    let Some(rig) = Rig::start().await else { return };
    rig.check("streaming").await;
    let metrics = rig.gate.settled().await;
    assert_eq!(metrics.outcome("complete"), metrics.sum("streamgate_arrivals_total"));
    assert_eq!(metrics.sum("streamgate_client_retries_total"), 0.0);
}

#[tokio::test]
async fn a_stream_the_libraries_leave_gives_its_slot_back() {
    let Some(rig) = Rig::start().await else { return };
    rig.check("cancelling").await;
    let metrics = rig.gate.settled().await;
    assert_eq!(metrics.outcome("client_cancelled"), 13.0, "three for each API, and a task");
    assert_eq!(metrics.outcome("complete"), 13.0);
    assert_eq!(metrics.outcome("failed"), 0.0);
    let stats = rig.engine.stats();
    assert_eq!(stats.max_in_flight, 1, "the cap holds at the engine");
    assert_eq!((stats.aborts, stats.in_flight), (13, 0));
}

#[tokio::test]
async fn a_429_is_retried_when_told_and_then_raised() {
    let Some(rig) = Rig::start().await else { return };
    // The gate has seen short holds, so it names short waits.
    for _ in 0..5 {
        let short = Request::post(Api::Chat.path(), "one", chat(1, false));
        assert_eq!(rig.gate.answer(&short).await.status, 200);
    }
    let request = Request::post(Api::Chat.path(), "one", chat(5, true)).fault("delay-head=5m");
    let held = Call::start(Proto::H1, rig.gate.proxy, &request).await;
    let runs = |stats: &StatsSnapshot| stats.in_flight == 1;
    rig.engine.wait_stats(runs, BOUND).await.unwrap();
    rig.check("refused").await;
    rig.check("not_retried").await;
    let metrics = rig.gate.metrics().await;
    let refused = [("tenant", "one"), ("reason", "tenant_in_flight")];
    assert_eq!(metrics.sum_where("streamgate_rejections_total", &refused), 6.0);
    let retries = metrics.sum_where("streamgate_client_retries_total", &[("tenant", "one")]);
    assert_eq!(retries, 4.0);
    assert_eq!(metrics.sum_where("streamgate_arrivals_total", &[("tenant", "a")]), 1.0);
    assert_eq!(rig.engine.stats().max_in_flight, 1);
    held.leave(Leave::Close).await;
    rig.gate.settled().await;
}

#[tokio::test]
async fn a_broken_stream_is_never_a_silent_success() {
    let Some(rig) = Rig::start().await else { return };
    rig.check("broken").await;
    let metrics = rig.gate.settled().await;
    let arrivals = metrics.sum("streamgate_arrivals_total");
    assert_eq!(arrivals, 24.0, "nothing is sent again after content");
    assert_eq!(metrics.outcome("truncated") + metrics.outcome("upstream_error"), arrivals);
}

#[tokio::test]
async fn refusals_are_the_libraries_own_errors() {
    let Some(rig) = Rig::start().await else { return };
    rig.check("refusals").await;
    let metrics = rig.gate.settled().await;
    assert_eq!(metrics.outcome("rejected"), 20.0);
    assert_eq!(metrics.sum("streamgate_arrivals_total"), 20.0);
    assert_eq!(rig.engine.stats().requests, 0);
}
