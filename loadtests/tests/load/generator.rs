//! The generator itself: its schedule, its bound, its stop.

use std::path::Path;
use std::time::{Duration, Instant};

use streamgate_loadtests::engine::{Engine, EngineConfig};
use streamgate_loadtests::figures::Figures;
use streamgate_loadtests::null::NullTarget;
use streamgate_loadtests::plan::{PhasePlan, body_mark};
use streamgate_loadtests::record::{Outcome, read_records};
use streamgate_loadtests::run::{RECORDS, run};
use tokio_util::sync::CancellationToken;

use crate::support::{against, by_index, options, run_all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_planned_arrival_has_one_record_at_its_time() {
    let target = NullTarget::start().await.unwrap();
    let base = format!("http://{}", target.addr());
    let scenario =
        against(&base, "max_in_flight: 0", "open: {segments: [{length: 500ms, rate: 400}]}");
    let folder = tempfile::tempdir().unwrap();
    let records = run_all(&scenario, folder.path()).await;
    let arrivals = by_index(&records);
    assert_eq!(arrivals.len(), 200);
    let first = arrivals[0].schedule_us;
    let plan = PhasePlan::of(&scenario.phases[0], 7);
    for (i, a) in arrivals.iter().enumerate() {
        assert_eq!((a.index, a.outcome), (i as u64, Outcome::Complete), "{a:?}");
        assert_eq!(a.schedule_us - first, i as u64 * 2500);
        let lag = a.start_us.unwrap() - a.schedule_us;
        assert!(lag.abs_diff(a.lag_us.unwrap()) <= 2, "the lag is what the times say: {a:?}");
        assert_eq!(a.body_sha256.as_deref(), Some(&*body_mark(&plan.body(&scenario, a.index))));
    }
    let trailer = records.trailer.unwrap();
    assert_eq!((trailer.arrivals, trailer.interrupted), (200, false));
}

#[tokio::test]
async fn above_its_bound_the_client_drops_and_says_so() {
    let config = EngineConfig::instant(Duration::from_millis(200));
    let engine = Engine::start(config).await.unwrap();
    let load = "open: {segments: [{length: 100ms, rate: 200}]}";
    let scenario = against(&engine.url(""), "max_in_flight: 3", load);
    let folder = tempfile::tempdir().unwrap();
    let records = run_all(&scenario, folder.path()).await;
    let figures = Figures::of(&records);
    let group = &figures.groups[0];
    assert_eq!((group.planned, group.complete, group.dropped), (20, 3, 17));
    assert_eq!(engine.stats().max_in_flight, 3);
    let dropped = records.arrivals.iter().filter(|a| a.outcome == Outcome::DroppedArrival);
    for a in dropped {
        assert_eq!((a.start_us, a.status), (None, None));
        assert!(a.lag_us.is_some(), "a drop, too, was decided at a time");
    }
}

#[tokio::test]
async fn lanes_start_when_the_last_answer_has_ended() {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(5))).await.unwrap();
    let scenario = against(&engine.url(""), "", "closed: {lanes: 3, length: 1m, per_lane: 4}");
    let folder = tempfile::tempdir().unwrap();
    let records = run_all(&scenario, folder.path()).await;
    assert_eq!(engine.stats().max_in_flight, 3);
    for lane in 0..3 {
        let mut own: Vec<_> = records.arrivals.iter().filter(|a| a.lane == Some(lane)).collect();
        own.sort_by_key(|a| a.start_us);
        assert_eq!(own.len(), 4);
        assert!(own.windows(2).all(|w| w[0].end_us <= w[1].start_us));
    }
}

#[tokio::test]
async fn a_stop_keeps_what_was_measured_and_records_the_rest() {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(20))).await.unwrap();
    let load = "open: {segments: [{length: 1h, rate: 0.5}, {length: 1h, rate: 0.5}]}";
    let scenario = against(&engine.url(""), "max_in_flight: 0", load);
    let (folder, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
    let (begun, token) = (Instant::now(), stop.clone());
    let options = options(folder.path());
    let running = run(&scenario, &options, stop);
    let stopper = async {
        engine.wait_stats(|s| s.completed >= 1, Duration::from_secs(10)).await.unwrap();
        engine.wait_stats(|s| s.in_flight == 1, Duration::from_secs(10)).await.unwrap();
        token.cancel();
    };
    let (ran, ()) = tokio::join!(running, stopper);
    assert!(ran.unwrap().interrupted);
    assert!(begun.elapsed() < Duration::from_secs(20));
    let records = read_records(&folder.path().join(RECORDS)).unwrap();
    assert_eq!(records.arrivals.len(), 3600, "every planned arrival has its record");
    let figures = Figures::of(&records);
    let group = &figures.groups[0];
    assert_eq!((group.planned, group.complete, group.interrupted), (1, 1, 3599));
    assert!(!figures.validity.valid);
    assert!(figures.validity.interrupted);
    let cut: Vec<_> = records
        .arrivals
        .iter()
        .filter(|a| a.outcome == Outcome::Interrupted && a.start_us.is_some())
        .collect();
    assert_eq!(cut.len(), 1, "the one in flight");
}

/// One seed at two speeds: absolute deadlines, so that no error adds up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_time_and_ten_times_faster_agree() {
    let text = "name: scale\nabout: test\nseed: 7\nlag_bound: 10s\nengines: {count: 2}\n\
                target: {direct: {seed: 1}}\n\
                prompts: {p: {kind: unique, sentences: 30, tokens: 517}}\n\
                phases:\n- name: main\n  open: {segments: [{length: 2s, rate: 2}]}\n\
                \x20 requests: [{tenant: a, prompt: p, max_tokens: 128}]\n";
    let mut measured = Vec::new();
    for scale in [1.0, 10.0] {
        let mut scenario = streamgate_loadtests::scenario::Scenario::parse("scale", text).unwrap();
        scenario.time_scale = scale;
        let folder = tempfile::tempdir().unwrap();
        let figures = Figures::of(&run_all(&scenario, folder.path()).await);
        let group = figures.groups[0].clone();
        assert_eq!((group.planned, group.complete), (4, 4));
        measured.push((group.e2e.unwrap().p50, group.tpot.unwrap().p50));
    }
    let near = |a: f64, b: f64| (a - b).abs() / a < 0.03;
    let [(e2e, tpot), (e2e_10, tpot_10)] = measured[..] else { panic!("two runs") };
    assert!(near(e2e, e2e_10), "E2E {e2e} s and {e2e_10} s");
    assert!(near(tpot, tpot_10), "TPOT {tpot} s and {tpot_10} s");
}

#[tokio::test]
async fn what_was_measured_outlives_a_run_that_is_not_ended_properly() {
    let target = NullTarget::start().await.unwrap();
    let base = format!("http://{}", target.addr());
    let scenario = against(&base, "", "open: {segments: [{length: 60s, rate: 50}]}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(RECORDS);
    let options = options(folder.path());
    let ran = run(&scenario, &options, CancellationToken::new());
    let readable = async {
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let arrivals = read_records(&path).map_or(0, |records| records.arrivals.len());
            if arrivals >= 50 {
                return;
            }
        }
    };
    tokio::select! {
        ended = tokio::time::timeout(Duration::from_secs(30), ran) => panic!("{ended:?}"),
        () = readable => {}
    }
    let records = read_records(&path).unwrap();
    assert_eq!(records.trailer, None);
    assert!(!Figures::of(&records).validity.valid);
}

#[tokio::test]
async fn a_run_stops_when_its_records_cannot_be_written() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    let target = NullTarget::start().await.unwrap();
    let base = format!("http://{}", target.addr());
    let scenario = against(&base, "", "open: {segments: [{length: 10m, rate: 50}]}");
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(full, folder.path().join(RECORDS)).unwrap();
    let options = options(folder.path());
    let ran = run(&scenario, &options, CancellationToken::new());
    let ended = tokio::time::timeout(Duration::from_secs(30), ran).await.unwrap();
    let told = format!("{:#}", ended.unwrap_err());
    assert!(told.contains("free some space") && told.contains("No space left"), "{told}");
}

#[tokio::test]
async fn an_address_where_nothing_listens_is_told_before_anything_is_planned() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let load = "open: {segments: [{length: 10m, rate: 50}]}";
    let scenario = against(&format!("http://{free}"), "", load);
    let folder = tempfile::tempdir().unwrap();
    let ran = run(&scenario, &options(folder.path()), CancellationToken::new()).await;
    let told = format!("{:#}", ran.unwrap_err());
    assert!(told.contains("target.url.base") && told.contains("start the server"), "{told}");
    assert!(read_records(&folder.path().join(RECORDS)).unwrap().arrivals.is_empty());
}

#[tokio::test]
async fn a_run_that_measures_nothing_leaves_what_was_measured_before() {
    let engine = Engine::start(EngineConfig::instant(Duration::ZERO)).await.unwrap();
    let load = "closed: {lanes: 1, length: 1m, per_lane: 3}";
    let folder = tempfile::tempdir().unwrap();
    run_all(&against(&engine.url(""), "", load), folder.path()).await;
    let contents = || {
        let mut files: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = contents();
    assert_eq!(before.len(), 3);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unreachable = against(&format!("http://{nobody}"), "", load);
    let options = options(folder.path());
    run(&unreachable, &options, CancellationToken::new()).await.unwrap_err();
    assert_eq!(contents(), before);

    let again = run_all(&against(&engine.url(""), "", load), folder.path()).await;
    assert_eq!((again.arrivals.len(), contents().len()), (3, 3), "nothing else is left there");
}
