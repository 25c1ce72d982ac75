//! What the client makes of every way in which an answer can go wrong.

use std::time::Duration;

use streamgate_loadtests::engine::{Engine, EngineConfig};
use streamgate_loadtests::record::{Arrival, Outcome};

use crate::support::{against, by_index, run_all};

/// The record of one request whose engine has these faults.
async fn one(faults: &str) -> Arrival {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(1))).await.unwrap();
    let headers: Vec<String> = faults
        .split('&')
        .filter(|f| !f.is_empty())
        .map(|f| {
            let (name, value) = f.split_once('=').unwrap();
            format!("x-sim-{name}: \"{value}\"")
        })
        .collect();
    let client = format!("read_timeout: 300ms, headers: {{{}}}", headers.join(", "));
    let scenario = against(&engine.url(""), &client, "closed: {lanes: 1, length: 1m, per_lane: 1}");
    let folder = tempfile::tempdir().unwrap();
    let mut records = run_all(&scenario, folder.path()).await;
    assert_eq!(records.arrivals.len(), 1);
    records.arrivals.remove(0)
}

#[tokio::test]
async fn a_whole_answer_is_complete_with_all_its_times() {
    let a = one("interval=50ms").await;
    assert_eq!((a.outcome, a.status, a.reason.as_deref()), (Outcome::Complete, Some(200), None));
    assert_eq!(a.output_tokens, Some(4));
    let times = [Some(a.schedule_us), a.start_us, a.head_us, a.first_us, a.last_us, a.end_us];
    let times: Vec<u64> = times.into_iter().map(Option::unwrap).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(a.tpot().unwrap() > 0.02, "{:?}", a.tpot());
}

#[tokio::test]
async fn every_cut_of_the_bytes_is_read_alike() {
    for faults in [
        "one-byte=1",
        "chunk-bytes=3&line-end=crlf",
        "line-end=cr&comments=1",
        "no-space=1&bom=1",
        "split-data=1",
        "tokens-per-event=2",
    ] {
        let a = one(faults).await;
        assert_eq!((a.outcome, a.output_tokens), (Outcome::Complete, Some(4)), "{faults}: {a:?}");
    }
}

#[tokio::test]
async fn every_broken_answer_is_told_by_its_name() {
    for (faults, outcome, reason) in [
        ("cut=events:2", Outcome::Broken, "cut"),
        ("cut=events:2&cut-by=rst", Outcome::Broken, "cut"),
        ("cut=after-head", Outcome::Broken, "cut"),
        ("cut=before-head", Outcome::Failed, "no_answer"),
        ("end-after=3", Outcome::Broken, "no_terminal_event"),
        ("error-after=2", Outcome::Broken, "error_event (500)"),
        ("abort-after=3", Outcome::Broken, "engine_abort"),
        ("stall-after=2", Outcome::Broken, "read_timeout"),
        ("stop-after=2", Outcome::Broken, "wrong_tokens"),
        ("no-usage=1", Outcome::Broken, "no_usage"),
        ("delay-head=5s", Outcome::Failed, "read_timeout"),
    ] {
        let a = one(faults).await;
        assert_eq!((a.outcome, a.reason.as_deref()), (outcome, Some(reason)), "{faults}");
    }
}

#[tokio::test]
async fn a_refusal_keeps_its_status_and_its_delay() {
    let a = one("status=429&retry-after=7").await;
    assert_eq!((a.outcome, a.status), (Outcome::Refused, Some(429)));
    assert_eq!(a.retry_after_s, Some(7.0));
    assert_eq!(a.first_us, None);
    let a = one("status=503").await;
    assert_eq!((a.outcome, a.status), (Outcome::Refused, Some(503)));
}

#[tokio::test]
async fn nothing_listening_is_a_failure() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    // It listens when the run begins, and no longer when the first request is sent.
    std::thread::spawn(move || drop(listener.accept().unwrap()));
    let scenario = against(&base, "", "open: {segments: [{length: 1s, rate: 2}]}");
    let folder = tempfile::tempdir().unwrap();
    let records = run_all(&scenario, folder.path()).await;
    let a = &by_index(&records)[1];
    assert_eq!((a.outcome, a.reason.as_deref()), (Outcome::Failed, Some("connect_failed")));
}
