//! Two engines are rolled behind Streamgate, with the settings of two published experiments and
//! with Streamgate's drain. Ten times as fast as published.

use crate::cluster::turn;
use crate::engine::Model;
use crate::pods::{Manifest, Pods, PreStop};
use crate::support::Metrics;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const STREAMS: usize = 40;
/// Streams of 0.2 to 4 s.
const TOKENS: std::ops::RangeInclusive<u32> = 5..=100;

fn manifest(pre_stop: PreStop, shutdown_timeout: Duration) -> Manifest {
    let model = Model { token_interval: SECOND / 25, scale: 10, shutdown_timeout };
    Manifest { model, pre_stop, grace: 18 * SECOND }
}

/// What `streamgate check` says of a manifest.
fn check(fixture: &str) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/manifests");
    let mut check = Command::new(env!("CARGO_BIN_EXE_streamgate"));
    check.args(["check", "--manifests"]).arg(folder.join(fixture)).output().unwrap()
}

/// A rollout under load; what clients saw and what Streamgate counted, which is the same.
async fn rolled(what: &str, mut pods: Pods) -> (crate::client::Tally, Metrics) {
    let next = manifest(PreStop::None, Duration::ZERO);
    pods.streams(STREAMS, TOKENS);
    let began = Instant::now();
    pods.gate.metrics_when("streams run", |m| m.sum("streamgate_in_flight") >= 30.0).await;
    // What follows the engine that leaves is not rolled any more.
    let left = pods.roll(|_| next).await;
    assert!(left > 0, "streams ran where an engine left");
    let took = began.elapsed();
    let tally = pods.load.stop().await;
    let metrics = pods.gate.settled().await;
    let count = |kind: &str| f64::from(u32::try_from(tally.count(kind)).unwrap());
    assert!((metrics.outcome("complete") - count("complete")).abs() < 0.5);
    println!(
        "{what}: {left} streams ran where an engine left; {:.1} s; {:?}",
        took.as_secs_f64(),
        tally.counts()
    );
    (tally, metrics)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_grace_streams_break_as_check_foretold_and_each_client_is_told() {
    let foretold = check("wrong/published-grace-180-timeout-0.yaml");
    assert_eq!(foretold.status.code(), Some(1));
    let text = String::from_utf8(foretold.stdout).unwrap();
    assert!(text.contains("error  engine-aborts  "), "{text}");
    assert!(text.contains("no stream surely completes"), "{text}");

    let _turn = turn().await;
    let pods = Pods::found(manifest(PreStop::None, Duration::ZERO), 2).await;
    let (tally, metrics) = rolled("no preStop, shutdown timeout 0", pods).await;
    assert!(tally.count("broken, told") > 0, "{:?}", tally.counts());
    tally.assert_only(&["complete", "broken, told"]);
    let broken = metrics.outcome("truncated") + metrics.outcome("upstream_error");
    let told = f64::from(u32::try_from(tally.count("broken, told")).unwrap());
    assert!((broken - told).abs() < 0.5, "{broken} of {told} counted as broken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_prestop_and_shutdown_timeout_none_breaks_as_check_foretold() {
    let foretold = check("right/published-prestop-10-timeout-90.yaml");
    assert_eq!(foretold.status.code(), Some(0), "{foretold:?}");

    let _turn = turn().await;
    let pods = Pods::found(manifest(PreStop::Sleep(SECOND), 9 * SECOND), 3).await;
    let (tally, _) = rolled("preStop 10 s, shutdown timeout 90 s", pods).await;
    tally.assert_complete();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drained_by_streamgate_none_breaks_even_if_the_engine_would_abort() {
    let _turn = turn().await;
    let pods = Pods::told(manifest(PreStop::Drain(15 * SECOND), Duration::ZERO), 4).await;
    let (tally, _) = rolled("engine drain, shutdown timeout 0, a list", pods).await;
    tally.assert_complete();

    let pods = Pods::found(manifest(PreStop::Drain(15 * SECOND), Duration::ZERO), 5).await;
    let (tally, _) = rolled("engine drain, shutdown timeout 0, EndpointSlices", pods).await;
    tally.assert_complete();
}
