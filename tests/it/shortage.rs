//! Out of file descriptors, or nearly: engines are not blamed, operators get through, and all is
//! well as soon as there are some again.

use crate::support::h2::H2;
use crate::support::wire::{Ending, Wire};
use crate::support::{Api, BOUND, Call, Gate, Leave, Proto, Setup, eventually};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};

/// So few that a small crowd uses them up.
const FEW: u32 = 64;
const HEALTH: &str = "health: {interval: 100ms}";

async fn engine() -> Engine {
    Engine::start(EngineConfig::instant(Duration::from_millis(20))).await.unwrap()
}

async fn probes_answer(gate: &Gate) {
    for path in ["/livez", "/readyz", "/metrics"] {
        let asked = reqwest::get(gate.admin_url(path));
        let answer = tokio::time::timeout(Duration::from_secs(3), asked).await;
        assert_eq!(answer.expect("at once").unwrap().status(), 200, "{path}");
    }
}

/// Nothing was ever held against an engine.
fn assert_nobody_blamed(gate: &Gate) {
    let blamed = gate.output().into_iter().find(|line| line.contains("changed its state"));
    assert_eq!(blamed, None);
}

fn logged(gate: &Gate, text: &str) -> usize {
    gate.output().iter().filter(|line| line.contains(text)).count()
}

#[tokio::test]
async fn a_crowd_of_clients_leaves_descriptors_for_engines_and_operators() {
    let engine = engine().await;
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 40").pool(HEALTH);
    let gate = Gate::start(setup.descriptors(FEW)).await;
    let mut crowd = Vec::new();
    for _ in 0..150 {
        crowd.push(Wire::connect(gate.proxy).await);
    }
    let request = Api::Chat.stream(10);
    let mut served = 0;
    for wire in &mut crowd {
        // One above the limit is closed, perhaps before it has sent anything.
        if wire.try_send(&request.bytes()).await.is_ok()
            && let Some(answer) = wire.try_answer().await
        {
            assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{}", answer.text());
            served += 1;
        }
    }
    assert!((16..=32).contains(&served), "{served} of 150 are clients");
    probes_answer(&gate).await;
    assert_eq!(logged(&gate, "a client connection was closed"), 1, "told, and told once");
    drop(crowd);
    eventually("a newcomer is served", || async {
        let mut wire = Wire::connect(gate.proxy).await;
        wire.try_send(&request.bytes()).await.ok()?;
        (wire.try_answer().await?.status == 200).then_some(())
    })
    .await;
    assert_nobody_blamed(&gate);
}

/// Many requests on one connection need many engine connections.
#[tokio::test]
async fn requests_for_which_there_is_no_connection_are_told_so() {
    let engine = engine().await;
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 100").pool(HEALTH);
    let gate = Gate::start(setup.descriptors(FEW)).await;
    let mut connection = H2::connect(gate.proxy).await;
    let (mut running, mut refused) = (Vec::new(), 0);
    for n in 0..60 {
        let mut call = connection.send(&Api::Chat.stream(100_000).id(&format!("{n}"))).await;
        let (status, headers) = call.head().await.expect("an answer");
        match status {
            200 => running.push(call),
            _ => {
                let reason = headers.get("x-streamgate-reason").map(String::as_str);
                assert_eq!((status, reason), (503, Some("no_endpoint")));
                assert!(headers.contains_key("retry-after"));
                assert_eq!(gate.line_of(&n.to_string()).await["outcome"], "rejected");
                refused += 1;
            }
        }
    }
    assert!(running.len() >= 8 && refused >= 20, "{} run, {refused} refused", running.len());
    probes_answer(&gate).await;
    assert_eq!(gate.metrics().await.sum("streamgate_in_flight"), running.len() as f64);
    drop((running, connection));
    gate.all_slots_free(8_usize, &engine).await;
    assert_nobody_blamed(&gate);
}

fn set_descriptors(gate: &Gate, limit: Rlimit) -> Rlimit {
    prlimit(Pid::from_raw(gate.pid()), Resource::Nofile, limit).unwrap()
}

/// From one moment to the next there is no descriptor at all, as when the whole system is out of
/// them.
#[tokio::test]
async fn engines_are_not_blamed_for_what_we_lack() {
    let engines = [engine().await, engine().await];
    let addresses = [engines[0].addr(), engines[1].addr()];
    let setup = Setup::new(&addresses).tenant("a", "max_in_flight: 4").pool(HEALTH);
    let gate = Gate::start(setup.with("timeouts: {upstream_idle: 0s}")).await;
    let request = Api::Chat.stream(3);
    let mut wire = Wire::connect(gate.proxy).await;
    assert_eq!(wire.call(&request).await.status, 200);
    let mut running = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(100_000)).await;
    assert_eq!(running.head().await.unwrap().0, 200);

    // The child's hard limit is ours.
    let none = Rlimit { current: Some(3), ..getrlimit(Resource::Nofile) };
    let before = set_descriptors(&gate, none);
    for n in 0..5 {
        let answer = wire.call(&request.clone().id(&format!("short-{n}"))).await;
        assert_eq!((answer.status, answer.reason()), (503, Some("no_endpoint")));
        assert!(answer.headers.contains_key("retry-after"));
    }
    let line = gate.line_of("short-0").await;
    assert_eq!((&line["outcome"], &line["attempts"]), (&"rejected".into(), &2.into()), "{line}");
    for told in ["no probe for want of", "no connection to an engine for want of"] {
        eventually(told, || std::future::ready((logged(&gate, told) > 0).then_some(()))).await;
    }
    let waits = Wire::connect(gate.proxy).await;
    let told = "accepting a connection failed";
    eventually(told, || std::future::ready((logged(&gate, told) > 0).then_some(()))).await;
    assert!(!running.until(Api::Chat.content_mark()).await.is_empty(), "what runs goes on");

    set_descriptors(&gate, before);
    let mut waits = waits;
    assert_eq!(waits.call(&request).await.status, 200);
    assert_eq!(wire.call(&request).await.status, 200);
    probes_answer(&gate).await;
    assert!(logged(&gate, told) <= 4, "rate-limited: {}", logged(&gate, told));
    running.leave(Leave::Close).await;
    gate.settled().await;
    assert_nobody_blamed(&gate);
    for engine in &engines {
        engine.wait_stats(|stats| stats.in_flight == 0, BOUND).await.unwrap();
    }
}

/// The admin port with all its places taken.
#[tokio::test]
async fn probes_pass_a_crowd_at_the_admin_port() {
    let engine = engine().await;
    let gate = Gate::start(Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 1")).await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(Wire::connect(gate.admin).await);
    }
    probes_answer(&gate).await;

    let mut running = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(100_000)).await;
    assert_eq!(running.head().await.unwrap().0, 200);
    let mut blocked = Vec::new();
    for n in 0..200 {
        let mut wire = Wire::connect(gate.admin).await;
        let call = ["GET /prestop", "POST /api/v1/drain"][n % 2];
        let head = format!("{call}?wait=60s HTTP/1.1\r\nhost: localhost\r\n\r\n");
        wire.send(head.as_bytes()).await;
        blocked.push(wire);
    }
    for (path, status) in [("/livez", 200), ("/readyz", 503), ("/api/v1/state", 200)] {
        let asked = reqwest::get(gate.admin_url(path));
        let answer = tokio::time::timeout(Duration::from_secs(3), asked).await;
        assert_eq!(answer.expect("at once").unwrap().status(), status, "{path}");
    }
    running.leave(Leave::Close).await;
    let (mut drained, mut too_many) = (0, 0);
    for wire in &mut blocked {
        let answer = wire.answer().await;
        match answer.status {
            200 => drained += 1,
            503 => {
                assert_eq!(answer.json()["error"], "too_many_wait");
                too_many += 1;
            }
            other => panic!("{other}: {}", answer.text()),
        }
    }
    assert_eq!(drained + too_many, 200);
    assert!(drained >= 100 && too_many >= 50, "{drained} drained, {too_many} too many");
}
