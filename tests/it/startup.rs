//! Starting, failing to start, and changing the configuration while running.

use crate::support::gate::key;
use crate::support::wire::{Ending, Request, Wire, chat};
use crate::support::{Gate, Setup};
use std::process::Command;
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};

fn serve(yaml: &str) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("streamgate.yaml");
    std::fs::write(&path, yaml).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_streamgate"))
        .args(["serve", "--config"])
        .arg(&path)
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

async fn engine() -> Engine {
    Engine::start(EngineConfig::instant(Duration::from_millis(20))).await.unwrap()
}

#[tokio::test]
async fn a_busy_port_is_said_at_once() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let engine = "127.0.0.1:1".parse().unwrap();
    let setup = Setup::new(&[engine]).tenant("a", "max_in_flight: 1");
    for port in ["proxy", "admin"] {
        let free = format!("{port}: \"127.0.0.1:0\"");
        let yaml = setup.yaml().replace(&free, &format!("{port}: \"{address}\""));
        let (code, said) = serve(&yaml);
        assert_eq!(code, Some(1));
        assert!(said.contains(&format!("listen.{port}: cannot listen on {address}")), "{said}");
    }
}

#[test]
fn five_mistakes_are_five_errors() {
    let (code, said) = serve(
        "listen: {proxy: \"nowhere\"}\n\
         pools:\n  - {name: p, models: [\"*\"], endpoints: [\"no-port\"]}\n\
         tenants:\n  - {id: a, api_keys: [\"hunter2-in-clear\"], max_in_flight: 0, colour: red}\n",
    );
    assert_eq!(code, Some(1));
    assert!(said.contains("5 errors"), "{said}");
    for key in [
        "listen.proxy",
        "pools[0].endpoints[0]",
        "tenants[0].api_keys[0]",
        "tenants[0].max_in_flight",
        "tenants[0].colour",
    ] {
        assert!(said.contains(key), "{key} is missing in\n{said}");
    }
    assert!(!said.contains("hunter2"), "a key may have been written there:\n{said}");
}

#[tokio::test]
async fn a_reload_changes_limits_and_keeps_counts() {
    let engine = engine().await;
    let setup = Setup::new(&[engine.addr()]);
    let gate = Gate::start(setup.clone().tenant("a", "max_in_flight: 1")).await;
    let long = Request::post("/v1/chat/completions", "a", chat(100, true));
    let short = Request::post("/v1/chat/completions", "a", chat(2, true));
    let mut running = Wire::connect(gate.proxy).await;
    running.send(&long.bytes()).await;
    assert_eq!(running.head().await.unwrap().0, 200);
    let full = Wire::connect(gate.proxy).await.call(&short).await;
    assert_eq!(full.reason(), Some("tenant_in_flight"));

    let two = setup.clone().tenant("a", "max_in_flight: 2").tenant("b", "max_in_flight: 1");
    gate.reload(&two).await;
    let second = Wire::connect(gate.proxy).await.call(&short).await;
    assert_eq!((second.status, second.ending), (200, Ending::Whole));
    let other = Request::post("/v1/chat/completions", "b", chat(2, true));
    assert_eq!(Wire::connect(gate.proxy).await.call(&other).await.status, 200);

    // Back to one: the running stream keeps its slot, and nobody else gets one.
    gate.reload(&setup.clone().tenant("a", "max_in_flight: 1")).await;
    let full = Wire::connect(gate.proxy).await.call(&short).await;
    assert_eq!(full.reason(), Some("tenant_in_flight"));
    let gone = Wire::connect(gate.proxy).await.call(&other).await;
    assert_eq!(gone.reason(), Some("unauthenticated"), "{} is no key any more", key("b"));

    drop(running);
    let metrics = gate.settled().await;
    assert_eq!(metrics.sum_where("streamgate_arrivals_total", &[("tenant", "a")]), 4.0);
    assert_eq!(metrics.sum("streamgate_config_reload_failed"), 0.0);
}

#[tokio::test]
async fn a_broken_file_keeps_the_old_configuration() {
    let engine = engine().await;
    let setup = Setup::new(&[engine.addr()]);
    let gate = Gate::start(setup.clone().tenant("a", "max_in_flight: 1")).await;
    gate.reload(&setup.clone().tenant("a", "max_in_flight: 0")).await;
    let metrics = gate.metrics().await;
    assert_eq!(metrics.sum("streamgate_config_reload_failed"), 1.0);
    crate::support::eventually("the error is logged", || {
        let told = gate.output().iter().any(|line| line.contains("tenants[0].max_in_flight"));
        std::future::ready(told.then_some(()))
    })
    .await;
    let request = Request::post("/v1/chat/completions", "a", chat(2, true));
    assert_eq!(Wire::connect(gate.proxy).await.call(&request).await.status, 200);

    gate.reload(&setup.tenant("a", "max_in_flight: 3")).await;
    assert_eq!(gate.metrics().await.sum("streamgate_config_reload_failed"), 0.0);
}

#[tokio::test]
async fn a_changed_file_is_noticed_without_a_signal() {
    let engine = engine().await;
    let setup = Setup::new(&[engine.addr()]);
    let gate = Gate::start(setup.clone().tenant("a", "max_in_flight: 1")).await;
    // As Kubernetes swaps a ConfigMap: a new file takes the old one's place.
    let next = gate.directory().join("next.yaml");
    std::fs::write(&next, setup.tenant("a", "max_in_flight: 7").yaml()).unwrap();
    std::fs::rename(&next, gate.directory().join("streamgate.yaml")).unwrap();
    gate.metrics_when("the new limit", |m| m.sum("streamgate_in_flight_limit") == 7.0).await;
}

fn free_port() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A container's log driver under back-pressure: the pipe is full and nobody reads.
#[tokio::test]
async fn a_log_that_nobody_reads_holds_up_nobody() {
    let engine = engine().await;
    let (proxy, admin) = (free_port(), free_port());
    let yaml = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 4").yaml();
    let yaml = yaml.replace("proxy: \"127.0.0.1:0\"", &format!("proxy: \"{proxy}\""));
    let yaml = yaml.replace("admin: \"127.0.0.1:0\"", &format!("admin: \"{admin}\""));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("streamgate.yaml");
    std::fs::write(&path, yaml).unwrap();
    let mut child = tokio::process::Command::new(env!("CARGO_BIN_EXE_streamgate"))
        .args(["serve", "--config"])
        .arg(&path)
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut wire = crate::support::eventually("it listens", || async {
        tokio::net::TcpStream::connect(proxy).await.ok()?;
        Some(Wire::connect(proxy).await)
    })
    .await;
    // A pipe holds 64 KiB, which is about a hundred lines.
    let request = Request::post("/v1/chat/completions", "a", "no JSON");
    for _ in 0..600 {
        assert_eq!(wire.call(&request).await.status, 400);
    }
    let ready = reqwest::get(format!("http://{admin}/readyz")).await.unwrap();
    assert_eq!(ready.status(), 200);
    drop(child.stdout.take());
}
