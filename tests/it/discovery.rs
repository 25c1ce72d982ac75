//! Endpoints that are found in a cluster: the real binary, its `KUBECONFIG` leading to a small API
//! server, and engines that come and go behind it.

use crate::support::kube_api::{KubeApi, Mood, ready, terminating};
use crate::support::wire::Ending;
use crate::support::{Api, BOUND, Call, Gate, Proto, Setup, ask, eventually};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use streamgate_loadtests::engine::{Engine, EngineConfig, FaultRule, Faults};
use tempfile::TempDir;

const HOST: &str = "127.0.0.1";
const SOURCE: &str = "discovery: {kubernetes: {namespace: llm, service: vllm, port: http}}";

async fn engine() -> Engine {
    Engine::start(EngineConfig::instant(Duration::from_millis(10))).await.unwrap()
}

fn setup(api: &KubeApi, directory: &TempDir) -> Setup {
    let path = directory.path().join("kubeconfig");
    fs::write(&path, api.kubeconfig()).unwrap();
    Setup::new(&[])
        .tenant("a", "max_in_flight: 100")
        .pool(SOURCE)
        .env("KUBECONFIG", path.to_str().unwrap())
}

/// A gate that has its first list.
async fn gate(api: &KubeApi, directory: &TempDir) -> Gate {
    let gate = Gate::start(setup(api, directory)).await;
    eventually("ready", || async { (readiness(&gate).await == 200).then_some(()) }).await;
    eventually("a watch", || async { (api.watching() == 1).then_some(()) }).await;
    gate
}

async fn readiness(gate: &Gate) -> u16 {
    reqwest::get(gate.admin_url("/readyz")).await.unwrap().status().as_u16()
}

/// Every endpoint with its state, in order.
async fn endpoints(gate: &Gate) -> Vec<(String, String)> {
    let state = gate.state().await;
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let endpoints = state["pools"][0]["endpoints"].as_array().unwrap();
    let mut all: Vec<_> =
        endpoints.iter().map(|e| (text(&e["endpoint"]), text(&e["state"]))).collect();
    all.sort();
    all
}

/// Wait until the endpoints are these; how long after `since` they were.
async fn becomes(gate: &Gate, since: Instant, expected: &[(&Engine, &str)]) -> Duration {
    let mut expected: Vec<_> =
        expected.iter().map(|(engine, is)| (engine.addr().to_string(), (*is).to_owned())).collect();
    expected.sort();
    eventually(&format!("{expected:?}"), || async {
        (endpoints(gate).await == expected).then_some(())
    })
    .await;
    since.elapsed()
}

fn shown(what: &str, time: Duration) {
    println!("propagation, as the admin API shows it: {what}: {:.1} ms", time.as_secs_f64() * 1e3);
}

#[tokio::test]
async fn an_engine_that_terminates_keeps_its_streams_and_gives_up_those_that_wait() {
    let (old, new) = (engine().await, engine().await);
    let (api, directory) = (KubeApi::start().await, TempDir::new().unwrap());
    api.put("old", old.addr().port(), &[ready(HOST, "pod-old")]);
    let gate = gate(&api, &directory).await;

    let mut running = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(400)).await;
    running.head().await.unwrap();
    running.until("content").await;
    // From now on the old engine lets requests wait for their first token.
    old.set_fault(FaultRule::always(Faults::parse("delay-first=300s").unwrap()));
    let mut waiting = Vec::new();
    for proto in [Proto::H1, Proto::H2c, Proto::H1] {
        waiting.push(Call::start(proto, gate.proxy, &Api::Chat.stream(3)).await);
    }
    old.wait_stats(|stats| stats.in_flight == 4, BOUND).await.unwrap();

    // A second slice, then the old pod is deleted.
    let at = api.put("new", new.addr().port(), &[ready(HOST, "pod-new")]);
    shown("add", becomes(&gate, at, &[(&old, "ready"), (&new, "ready")]).await);
    let at = api.put("old", old.addr().port(), &[terminating(HOST, "pod-old")]);
    shown("terminating", becomes(&gate, at, &[(&old, "draining"), (&new, "ready")]).await);

    for mut call in waiting {
        let answer = call.answer().await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{}", answer.text());
    }
    assert_eq!(new.stats().completed, 3);
    old.wait_stats(|stats| stats.in_flight == 1, BOUND).await.expect("those that moved are gone");
    for _ in 0..4 {
        assert_eq!(ask(Proto::H1, gate.proxy, &Api::Chat.stream(3)).await.status, 200);
    }
    assert_eq!(old.stats().requests, 4, "nothing new was sent there");

    // Gone from the slices, its stream goes on.
    let at = api.delete("old");
    shown("remove", becomes(&gate, at, &[(&new, "ready")]).await);
    let (text, ending) = running.rest().await;
    assert_eq!(ending, Ending::Whole);
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    assert_eq!(old.stats().completed, 1);
    assert_eq!(gate.settled().await.outcome("complete"), 8.0);
}

/// Without another engine that is ready they stay where they are.
#[tokio::test]
async fn those_who_can_go_nowhere_stay() {
    let only = engine().await;
    let (api, directory) = (KubeApi::start().await, TempDir::new().unwrap());
    api.put("one", only.addr().port(), &[ready(HOST, "pod")]);
    let gate = gate(&api, &directory).await;
    only.set_fault(FaultRule::always(Faults::parse("delay-first=1s").unwrap()));
    let mut waiting = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(3)).await;
    only.wait_stats(|stats| stats.in_flight == 1, BOUND).await.unwrap();
    let at = api.put("one", only.addr().port(), &[terminating(HOST, "pod")]);
    becomes(&gate, at, &[(&only, "draining")]).await;
    let refused = ask(Proto::H1, gate.proxy, &Api::Chat.stream(3)).await;
    assert_eq!((refused.status, refused.reason()), (503, Some("no_endpoint")));
    let answer = waiting.answer().await;
    assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{}", answer.text());
}

/// Engines are replaced one after another while the watch breaks in every way; no client sees any
/// of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_over_a_broken_watch_is_unseen() {
    let (mut api, directory) = (KubeApi::start().await, TempDir::new().unwrap());
    let mut engines = vec![engine().await, engine().await];
    let put = |api: &KubeApi, n: usize, engine: &Engine| {
        api.put(&format!("slice-{n}"), engine.addr().port(), &[ready(HOST, &format!("pod-{n}"))])
    };
    put(&api, 0, &engines[0]);
    put(&api, 1, &engines[1]);
    let gate = gate(&api, &directory).await;

    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|n| {
            let (over, proxy) = (over.clone(), gate.proxy);
            tokio::spawn(async move {
                let mut asked = 0;
                while !over.load(Ordering::Relaxed) {
                    let answer = ask(Proto::ALL[n % 2], proxy, &Api::Chat.stream(5)).await;
                    let got = (answer.status, answer.ending);
                    assert_eq!(got, (200, Ending::Whole), "{}", answer.text());
                    asked += 1;
                }
                asked
            })
        })
        .collect();

    for (round, fault) in ["cut", "end", "expire", "away"].into_iter().enumerate() {
        engines.push(engine().await);
        let [.., leaves, stays, comes] = &engines[..] else { panic!("three engines") };
        match fault {
            "cut" => api.cut(),
            "end" => api.end_watches(),
            "expire" => api.expire(),
            _ => api.go_away().await,
        }
        put(&api, round + 2, comes);
        let port = leaves.addr().port();
        api.put(&format!("slice-{round}"), port, &[terminating(HOST, &format!("pod-{round}"))]);
        if fault == "away" {
            assert_eq!(endpoints(&gate).await.len(), 2, "the last list stays");
            api.come_back().await;
        }
        let now = [(leaves, "draining"), (stays, "ready"), (comes, "ready")];
        shown(fault, becomes(&gate, Instant::now(), &now).await);
        leaves.wait_stats(|stats| stats.in_flight == 0, BOUND).await.unwrap();
        leaves.kill();
        let at = api.delete(&format!("slice-{round}"));
        becomes(&gate, at, &now[1..]).await;
    }
    over.store(true, Ordering::Relaxed);
    let mut asked = 0;
    for client in clients {
        asked += client.await.unwrap();
    }
    let metrics = gate.settled().await;
    println!("{asked} requests over four replaced engines");
    assert_eq!(metrics.outcome("complete"), f64::from(asked));
}

#[tokio::test]
async fn a_start_without_the_api_server_waits_for_it_and_says_what_is_wrong() {
    let engine = engine().await;
    let (api, directory) = (KubeApi::start().await, TempDir::new().unwrap());
    api.put("one", engine.addr().port(), &[ready(HOST, "pod")]);
    api.set(Mood::Forbids);
    let gate = Gate::start(setup(&api, &directory)).await;
    assert_eq!(readiness(&gate).await, 503);
    assert_eq!(reqwest::get(gate.admin_url("/livez")).await.unwrap().status(), 200);
    let line = eventually("the remedy", || {
        let lines = gate.output();
        let line = lines.into_iter().find(|line| line.contains("cannot discover endpoints"));
        std::future::ready(line)
    })
    .await;
    for word in ["403", "list and watch", "endpointslices", "discovery.k8s.io", "namespace llm"] {
        assert!(line.contains(word), "{word} is not in {line}");
    }
    // Asked several times, told once.
    eventually("another attempt", || async { (api.lists() > 3).then_some(()) }).await;
    let told = |text: &str| gate.output().iter().filter(|line| line.contains(text)).count();
    assert_eq!(told("cannot discover endpoints"), 1);
    assert_eq!(told("secret-token"), 0);

    api.set(Mood::Serves);
    eventually("ready", || async { (readiness(&gate).await == 200).then_some(()) }).await;
    assert_eq!(ask(Proto::H1, gate.proxy, &Api::Chat.stream(3)).await.status, 200);
    eventually("the end of it", || {
        std::future::ready((told("endpoints are discovered again") == 1).then_some(()))
    })
    .await;
}

#[tokio::test]
async fn a_reload_follows_another_service_and_leaves_the_rest_alone() {
    let (one, two) = (engine().await, engine().await);
    let (api, directory) = (KubeApi::start().await, TempDir::new().unwrap());
    api.put("one", one.addr().port(), &[ready(HOST, "pod-1")]);
    api.put_of("next", "two", two.addr().port(), &[ready(HOST, "pod-2")]);
    let setup = setup(&api, &directory);
    let gate = gate(&api, &directory).await;
    let mut running = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(300)).await;
    running.head().await.unwrap();
    running.until("content").await;

    let path = gate.directory().join("streamgate.yaml");
    let changed = setup.yaml().replace("max_in_flight: 100", "max_in_flight: 99");
    fs::write(&path, &changed).unwrap();
    gate.signal("HUP");
    gate.metrics_when("the new limit", |m| m.sum("streamgate_in_flight_limit") == 99.0).await;
    assert_eq!(api.lists(), 1, "the watch went on");

    let at = Instant::now();
    fs::write(&path, changed.replace("service: vllm", "service: next")).unwrap();
    gate.signal("HUP");
    becomes(&gate, at, &[(&two, "ready")]).await;
    assert_eq!(readiness(&gate).await, 200);
    assert_eq!(running.rest().await.1, Ending::Whole);
    assert_eq!(ask(Proto::H1, gate.proxy, &Api::Chat.stream(3)).await.status, 200);
    assert_eq!((one.stats().completed, two.stats().completed), (1, 1));
    gate.settled().await;
}

#[tokio::test]
async fn every_address_of_a_name_is_an_endpoint() {
    let engine = engine().await;
    let source = format!("discovery: {{dns: 'localhost:{}'}}", engine.addr().port());
    let setup = Setup::new(&[]).tenant("a", "max_in_flight: 4").pool(&source);
    let gate = Gate::start(setup).await;
    eventually("ready", || async { (readiness(&gate).await == 200).then_some(()) }).await;
    let found = endpoints(&gate).await;
    let own = engine.addr().to_string();
    assert!(found.iter().any(|(endpoint, _)| *endpoint == own), "{found:?}");
    assert_eq!(ask(Proto::H1, gate.proxy, &Api::Chat.stream(3)).await.status, 200);
}
