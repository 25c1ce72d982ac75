//! The load tester with the real program: caps, a rolled replica, the demo.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use streamgate_loadtests::demo;
use streamgate_loadtests::figures::Figures;
use streamgate_loadtests::record::{Outcome, Records, read_records};
use streamgate_loadtests::run::{Options, RECORDS, run};
use streamgate_loadtests::scenario::Scenario;
use tokio_util::sync::CancellationToken;

const BOUND: Duration = Duration::from_secs(60);

fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_streamgate"))
}

/// A scenario with a token every virtual 100 ms, ten times as fast as real.
fn scenario(streamgate: &str, phase: &str) -> Scenario {
    let text = format!(
        "name: test\nabout: test\nseed: 7\ntime_scale: 10\nlag_bound: 10s\n\
         engines: {{count: 2, profile: {{instant: {{first_token: 100ms, token_interval: 100ms}}}}}}\n\
         target: {{streamgate: {{{streamgate}}}}}\n\
         prompts: {{p: {{kind: unique, sentences: 2}}}}\n\
         phases:\n- name: main\n  requests: [{{tenant: a, prompt: p, max_tokens: 20}}]\n{phase}"
    );
    Scenario::parse("test", &text).unwrap()
}

async fn ran(scenario: &Scenario, folder: &Path) -> Records {
    let options = Options {
        out: folder.to_owned(),
        seeds: vec![7],
        command: "test".into(),
        progress: false,
        streamgate: Some(program()),
    };
    let all = run(scenario, &options, CancellationToken::new());
    tokio::time::timeout(BOUND, all).await.unwrap().unwrap();
    read_records(&folder.join(RECORDS)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_refuses_and_both_sides_count_alike() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = scenario(
        "tenants: [{id: a, max_in_flight: 2}]",
        "  open: {segments: [{length: 2s, rate: 5}]}\n",
    );
    let records = ran(&scenario, folder.path()).await;
    let figures = Figures::of(&records);
    let group = &figures.groups[0];
    // Two run for the whole two seconds; whoever comes meanwhile is refused.
    assert_eq!((group.planned, group.complete, group.refused), (10, 2, 8), "{:?}", group.reasons);
    for a in records.arrivals.iter().filter(|a| a.outcome == Outcome::Refused) {
        assert_eq!((a.status, a.reason.as_deref()), (Some(429), Some("tenant_in_flight")));
        assert!(a.retry_after_s.is_some_and(|s| s > 0.0));
    }
    let own = records.evidence.iter().find(|e| e.source.starts_with("streamgate")).unwrap();
    let of = |start: &str| -> u64 {
        own.counts.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, n)| n).sum()
    };
    assert_eq!(of("streamgate_arrivals_total"), 10, "{:?}", own.counts);
    assert_eq!(of("streamgate_rejections_total"), 8, "{:?}", own.counts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolled_replica_breaks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = scenario(
        "config: {drain: {propagation: 2s, deadline: 60s, cut_margin: 5s}}",
        "  closed: {lanes: 4, length: 20s}\n\
         \x20 actions: [{at: 1s, do: {roll_streamgate: {}}}]\n",
    );
    let records = ran(&scenario, folder.path()).await;
    let not_complete: Vec<_> =
        records.arrivals.iter().filter(|a| a.outcome != Outcome::Complete).collect();
    assert!(not_complete.is_empty(), "{not_complete:?}");
    assert!(records.arrivals.len() >= 8);
    let action = &records.actions[0];
    assert_eq!(action.result, "streamgate-1 ended with exit status: 0", "{action:?}");
}

fn free_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demo_serves_and_stops_everything_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/demo.yaml");
    let mut text = std::fs::read_to_string(shipped).unwrap();
    let mut ports = Vec::new();
    for fixed in ["127.0.0.1:8080", "127.0.0.1:9180", "127.0.0.1:18001", "127.0.0.1:18002"] {
        let port = free_port();
        text = text.replace(fixed, &port.to_string());
        ports.push(port);
    }
    let config = folder.path().join("demo.yaml");
    std::fs::write(&config, text).unwrap();
    let options = demo::Options { streamgate: program(), config, speed: 10.0 };
    let stop = CancellationToken::new();
    let watch = async {
        let url = format!("http://{}/metrics", ports[1]);
        loop {
            let page = match reqwest::get(&url).await {
                Ok(answer) => answer.text().await.unwrap_or_default(),
                Err(_) => String::new(),
            };
            let done = |line: &str| {
                line.starts_with("streamgate_requests_total")
                    && line.contains("complete")
                    && !line.ends_with(" 0")
            };
            if page.lines().any(done) {
                return stop.cancel();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let both = async { tokio::join!(demo::run(&options, stop.clone()), watch) };
    let (ran, ()) = tokio::time::timeout(BOUND, both).await.unwrap();
    ran.unwrap();
    // Another test may have been given a port by now; what must be gone is the demo itself.
    let page = match reqwest::get(format!("http://{}/metrics", ports[1])).await {
        Ok(answer) => answer.text().await.unwrap_or_default(),
        Err(_) => String::new(),
    };
    assert!(!page.contains("tenant=\"interactive\""), "the demo still serves");
}

#[tokio::test]
async fn a_busy_port_names_the_key_to_change() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/demo.yaml");
    let busy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let text = std::fs::read_to_string(shipped).unwrap();
    let text = text
        .replace("127.0.0.1:8080", &free_port().to_string())
        .replace("127.0.0.1:9180", &busy.local_addr().unwrap().to_string());
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("demo.yaml");
    std::fs::write(&config, text).unwrap();
    let options = demo::Options { streamgate: program(), config, speed: 1.0 };
    let error = demo::run(&options, CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("`listen.admin`"), "{error:#}");
}
