//! Shutdown, kill and restart.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{BOUND, Client, End, completion, events, get, plain_completion, post, request};
use streamgate_loadtests::engine::{
    Engine, EngineConfig, InstantProfile, Phase, Profile, ShutdownTimes,
};
use tokio::net::TcpStream;

const COMPLETIONS: &str = "/v1/completions";

fn quick() -> ShutdownTimes {
    ShutdownTimes {
        abort_exit: Duration::from_millis(150),
        drain_exit: Duration::from_millis(100),
        frozen_exit: Duration::from_millis(70),
        dead_exit: Duration::from_millis(100),
        ..ShutdownTimes::default()
    }
}

async fn start(interval: Duration, max_running: Option<usize>) -> Engine {
    let profile = Profile::Instant(InstantProfile {
        token_interval: interval,
        max_running,
        ..InstantProfile::default()
    });
    Engine::start(EngineConfig { profile, shutdown: quick(), ..EngineConfig::default() })
        .await
        .unwrap()
}

async fn begin(engine: &Engine, body: &str) -> Client {
    let mut client = Client::connect(engine.addr()).await;
    client.send(request("POST", COMPLETIONS, &[], body)).await;
    client
}

async fn exited(engine: &Engine) {
    tokio::time::timeout(BOUND, engine.wait_exit()).await.expect("no exit");
    assert_eq!(engine.phase(), Phase::Exited);
    engine.wait_stats(|s| s.open_connections == 0, BOUND).await.unwrap();
    refused(engine).await;
}

/// The listener closes when its task next runs: soon.
async fn refused(engine: &Engine) {
    let deadline = Instant::now() + BOUND;
    while TcpStream::connect(engine.addr()).await.is_ok() {
        assert!(Instant::now() < deadline, "still listening");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn without_a_timeout_streams_end_and_the_server_exits() {
    let engine = start(Duration::from_millis(5), None).await;
    let mut stream = begin(&engine, &completion(10_000)).await;
    let mut plain = begin(&engine, &plain_completion(10_000)).await;
    engine.wait_stats(|s| s.in_flight == 2 && s.tokens_generated > 4, BOUND).await.unwrap();
    let began = Instant::now();
    assert!(engine.begin_shutdown(Duration::ZERO));
    assert!(!engine.begin_shutdown(Duration::from_secs(9)), "a second signal is ignored");
    let (stream, end) = stream.answer().await;
    assert_eq!(end, End::Complete);
    assert_eq!(events(&stream.unwrap()).last().unwrap().1, "[DONE]");
    assert_eq!(plain.answer().await.0.unwrap().status(), 500);
    assert_eq!(get(engine.addr(), "/health").await.status(), 200);
    assert_eq!(post(engine.addr(), COMPLETIONS, &[], &completion(1)).await.status(), 500);
    exited(&engine).await;
    let took = began.elapsed();
    assert!((150..5000).contains(&took.as_millis()), "{took:?}");
    assert_eq!((engine.stats().in_flight, engine.stats().aborts), (0, 0));
}

#[tokio::test]
async fn with_a_timeout_accepted_streams_complete_queued_ones_too() {
    let engine = start(Duration::from_millis(10), Some(1)).await;
    let mut running = begin(&engine, &completion(20)).await;
    engine.wait_stats(|s| s.running == 1, BOUND).await.unwrap();
    let mut queued = begin(&engine, &completion(20)).await;
    let mut plain = begin(&engine, &plain_completion(5)).await;
    engine.wait_stats(|s| s.waiting == 2, BOUND).await.unwrap();
    assert!(engine.begin_shutdown(Duration::from_secs(30)));
    for _ in 0..3 {
        assert_eq!(post(engine.addr(), COMPLETIONS, &[], &completion(1)).await.status(), 500);
        assert_eq!(get(engine.addr(), "/health").await.status(), 200);
        assert_eq!(get(engine.addr(), "/v1/models").await.status(), 200);
    }
    for client in [&mut running, &mut queued] {
        let (answer, end) = client.answer().await;
        assert_eq!((end, events(&answer.unwrap()).len()), (End::Complete, 22));
    }
    assert_eq!(plain.answer().await.0.unwrap().status(), 200);
    assert_eq!(engine.phase(), Phase::Draining);
    exited(&engine).await;
    assert_eq!(engine.stats().completed, 3);
}

#[tokio::test]
async fn after_the_timeout_there_is_silence_and_no_exit_while_a_connection_is_open() {
    let engine = start(Duration::from_millis(5), None).await;
    let mut stream = begin(&engine, &completion(100_000)).await;
    let mut plain = begin(&engine, &plain_completion(100_000)).await;
    engine.wait_stats(|s| s.in_flight == 2, BOUND).await.unwrap();
    let began = Instant::now();
    engine.begin_shutdown(Duration::from_millis(200));
    engine.wait_stats(|s| s.phase == "frozen" && s.in_flight == 0, BOUND).await.unwrap();
    while stream.read(Duration::from_millis(150)).await.is_none() {}
    let last = stream.reads.last().unwrap().0 - began;
    assert!((150..2000).contains(&last.as_millis()), "{last:?}");
    assert_eq!(plain.read(Duration::from_millis(100)).await, Some(End::Silent));
    assert_eq!(stream.read(Duration::from_millis(200)).await, Some(End::Silent));
    assert_eq!(engine.phase(), Phase::Frozen);
    assert_eq!(get(engine.addr(), "/health").await.status(), 200);
    assert_eq!(post(engine.addr(), COMPLETIONS, &[], &completion(1)).await.status(), 500);
    drop(plain);
    engine.wait_stats(|s| s.open_connections == 1, BOUND).await.unwrap();
    assert_eq!(engine.phase(), Phase::Frozen);
    let closed = Instant::now();
    drop(stream);
    exited(&engine).await;
    assert!(closed.elapsed() >= Duration::from_millis(65));
}

#[tokio::test]
async fn a_dead_engine_takes_its_server_along() {
    let engine = start(Duration::from_millis(5), None).await;
    assert!(engine.engine_death());
    assert!(!engine.begin_shutdown(Duration::ZERO));
    assert_eq!(get(engine.addr(), "/health").await.status(), 503);
    assert_eq!(post(engine.addr(), COMPLETIONS, &[], &completion(1)).await.status(), 500);
    exited(&engine).await;
}

#[tokio::test]
async fn shutdown_times_are_virtual() {
    let profile = Profile::Instant(InstantProfile::default());
    let config = EngineConfig { profile, time_scale: 100.0, ..EngineConfig::default() };
    let engine = Engine::start(config).await.unwrap();
    let began = Instant::now();
    engine.begin_shutdown(Duration::from_secs(30));
    exited(&engine).await;
    assert!(began.elapsed() < Duration::from_secs(4), "5 s of teardown at 100 times the speed");
}

#[tokio::test]
async fn a_kill_resets_every_connection_and_a_restart_serves_on_the_same_address() {
    let mut engine = start(Duration::from_millis(5), None).await;
    let addr = engine.addr();
    let mut idle = Client::connect(addr).await;
    idle.send(request("GET", "/health", &[], "")).await;
    idle.answer().await;
    let mut stream = begin(&engine, &completion(10_000)).await;
    engine.wait_stats(|s| s.tokens_generated > 3, BOUND).await.unwrap();
    engine.kill();
    assert_eq!(stream.read_to_end().await, End::Reset);
    assert_eq!(idle.read_to_end().await, End::Reset);
    exited(&engine).await;
    assert_eq!(engine.stats().in_flight, 0);
    engine.restart().await.unwrap();
    assert_eq!((engine.addr(), engine.phase()), (addr, Phase::Serving));
    assert_eq!(post(addr, COMPLETIONS, &[], &completion(2)).await.status(), 200);
    assert_eq!(engine.stats().requests, 2, "figures go on");
    engine.restart().await.unwrap();
    assert_eq!(get(addr, "/health").await.status(), 200, "a running engine restarts too");
}

#[tokio::test]
async fn the_listener_can_be_closed_and_opened() {
    let engine = start(Duration::from_millis(5), None).await;
    let mut open = Client::connect(engine.addr()).await;
    open.send(request("GET", "/health", &[], "")).await;
    open.answer().await;
    engine.set_listening(false);
    refused(&engine).await;
    open.send(request("GET", "/health", &[], "")).await;
    assert_eq!(open.answer().await.0.unwrap().status(), 200, "connections stay");
    engine.set_listening(true);
    let deadline = Instant::now() + BOUND;
    while TcpStream::connect(engine.addr()).await.is_err() {
        assert!(Instant::now() < deadline, "not listening again");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_listener_can_be_closed_for_a_time_over_http() {
    let engine = start(Duration::from_millis(5), None).await;
    let closed = post(engine.addr(), "/sim/close-listener?for=100ms", &[], "").await;
    assert_eq!(closed.status(), 200);
    refused(&engine).await;
    let deadline = Instant::now() + BOUND;
    while TcpStream::connect(engine.addr()).await.is_err() {
        assert!(Instant::now() < deadline, "not listening again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn dropping_the_engine_stops_it() {
    let engine = start(Duration::from_millis(5), None).await;
    let addr = engine.addr();
    let mut stream = begin(&engine, &completion(10_000)).await;
    engine.wait_stats(|s| s.tokens_generated > 3, BOUND).await.unwrap();
    drop(engine);
    assert_eq!(stream.read_to_end().await, End::Reset);
    let deadline = Instant::now() + BOUND;
    while TcpStream::connect(addr).await.is_ok() {
        assert!(Instant::now() < deadline, "still listening");
        tokio::task::yield_now().await;
    }
}

/// The binary: SIGTERM, and the exit code.
struct Process {
    child: std::process::Child,
    addr: std::net::SocketAddr,
}

impl Process {
    fn start(args: &[&str]) -> Self {
        use std::io::BufRead;
        let mut child = Command::new(env!("CARGO_BIN_EXE_streamgate-loadtests"))
            .args(["engine", "--listen", "127.0.0.1:0", "--time-scale", "10"])
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stderr = child.stderr.take().unwrap();
        std::io::BufReader::new(stderr).read_line(&mut line).unwrap();
        let addr = line.trim().strip_prefix("engine listening on ").unwrap().parse().unwrap();
        Self { child, addr }
    }

    fn term(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    async fn wait(mut self) -> Option<i32> {
        let status = tokio::task::spawn_blocking(move || self.child.wait().unwrap());
        tokio::time::timeout(BOUND, status).await.expect("no exit").unwrap().code()
    }
}

#[tokio::test]
async fn the_binary_drains_on_sigterm_and_exits_with_0() {
    let process = Process::start(&["--shutdown-timeout", "30"]);
    let mut client = Client::connect(process.addr).await;
    client.send(request("POST", COMPLETIONS, &[], &completion(50))).await;
    client.until(|raw| raw.windows(4).any(|w| w == b"text")).await;
    process.term();
    let (answer, end) = client.answer().await;
    assert_eq!((end, events(&answer.unwrap()).len()), (End::Complete, 52));
    assert_eq!(process.wait().await, Some(0));
}

#[tokio::test]
async fn the_binary_aborts_on_sigterm_without_a_timeout_and_exits_with_0() {
    let process = Process::start(&["--profile", "instant", "--model", "m"]);
    let mut client = Client::connect(process.addr).await;
    client.send(request("POST", COMPLETIONS, &[], &completion(50_000))).await;
    client.until(|raw| raw.windows(4).any(|w| w == b"text")).await;
    process.term();
    let (answer, end) = client.answer().await;
    let answer = answer.unwrap();
    assert_eq!(end, End::Complete);
    assert!(common::text(&answer).contains(r#""finish_reason":"abort""#));
    assert_eq!(process.wait().await, Some(0));
}

#[test]
fn the_binary_prints_the_table_of_faults_and_names_mistakes() {
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_streamgate-loadtests")).args(args).output().unwrap()
    };
    let table = run(&["engine", "--help-faults"]);
    assert!(table.status.success());
    assert!(String::from_utf8_lossy(&table.stdout).contains("| `cut-by` |"));
    let mistake = run(&["engine", "--time-scale", "0.5"]);
    assert!(!mistake.status.success());
    let text = String::from_utf8_lossy(&mistake.stderr).into_owned();
    assert!(text.contains("--time-scale 0.5: give a number of at least 1"), "{text}");
}
