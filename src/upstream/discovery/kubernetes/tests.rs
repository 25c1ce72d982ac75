//! The real watch against a small API server.

#![allow(dead_code, reason = "the server has more faults than these tests need")]

#[path = "../../../../tests/it/support/kube_api.rs"]
mod kube_api;

use super::client::client;
use super::*;
use crate::config;
use crate::core::observe::EndpointPhase;
use crate::upstream::tests::spec;
use kube_api::{KubeApi, Mood, conditioned, ready, terminating};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokio_util::task::AbortOnDropHandle;

const BOUND: Duration = Duration::from_secs(30);
const PORT: u16 = 8000;

struct Watched {
    pool: Arc<Pool>,
    _task: AbortOnDropHandle<()>,
}

impl Watched {
    fn start(api: &KubeApi, port: PortRef) -> Self {
        let address = api.address();
        let connect: Connect = Arc::new(move || {
            let uri = format!("http://{address}").parse().unwrap();
            Box::pin(async move { client(kube::Config::new(uri)) })
        });
        Self::by(connect, port)
    }

    /// By the kubeconfig at `path`, as it is at the time of each attempt; they are counted.
    fn by_file(path: PathBuf) -> (Self, Arc<AtomicUsize>) {
        let attempts = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&attempts);
        let connect: Connect = Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            let path = path.clone();
            Box::pin(async move {
                let file = kube::config::Kubeconfig::read_from(path).unwrap();
                let options = kube::config::KubeConfigOptions::default();
                client(kube::Config::from_custom_kubeconfig(file, &options).await.unwrap())
            })
        });
        (Self::by(connect, PortRef::Number(PORT)), attempts)
    }

    fn by(connect: Connect, port: PortRef) -> Self {
        let source = Discovery::Kubernetes {
            namespace: "llm".to_owned(),
            service: "vllm".to_owned(),
            port: port.clone(),
        };
        // Never probed: nobody listens at these addresses.
        let health = config::Health { path: None, ..spec(&[]).health };
        let spec = config::Pool { discovery: Some(source.clone()), health, ..spec(&[]) };
        let pool = Pool::new(Arc::new(spec));
        let wanted =
            Wanted { source, namespace: "llm".to_owned(), service: "vllm".to_owned(), port };
        let task = tokio::spawn(Follower::with(Arc::clone(&pool), wanted, connect).run());
        Self { pool, _task: AbortOnDropHandle::new(task) }
    }

    async fn of(api: &KubeApi) -> Self {
        let watched = Self::start(api, PortRef::Number(PORT));
        eventually("the first list", || !watched.pool.awaits_endpoints()).await;
        eventually("a watch", || api.watching() == 1).await;
        watched
    }

    /// Every endpoint with its state.
    fn is(&self) -> Vec<(String, EndpointPhase)> {
        let state = self.pool.state();
        let mut all: Vec<_> =
            state.endpoints.iter().map(|e| (e.endpoint.to_string(), e.state)).collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    /// Wait until the pool is so; how long after `since` it was.
    async fn becomes(&self, expected: &[(&str, EndpointPhase)], since: Instant) -> Duration {
        let expected: Vec<_> =
            expected.iter().map(|(ip, phase)| (format!("{ip}:{PORT}"), *phase)).collect();
        eventually(&format!("{expected:?}"), || self.is() == expected).await;
        since.elapsed()
    }
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < BOUND, "not within {BOUND:?}: {what}");
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
}

const A: &str = "10.0.0.1";
const B: &str = "10.0.0.2";
const C: &str = "10.0.0.3";
use EndpointPhase::{Down, Draining, Ready};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_of_the_slices_is_followed_at_once() {
    let api = KubeApi::start().await;
    api.put("one", PORT, &[ready(A, "a")]);
    api.put_of("other-service", "foreign", PORT, &[ready("10.9.9.9", "x")]);
    let watched = Watched::of(&api).await;
    watched.becomes(&[(A, Ready)], Instant::now()).await;

    let mut times = Vec::new();
    let mut then = async |what: &str, since: Instant, expected: &[(&str, EndpointPhase)]| {
        times.push((what.to_owned(), watched.becomes(expected, since).await));
    };
    let starts = conditioned(B, "b", json!({"ready": false}));
    let at = api.put("two", PORT, std::slice::from_ref(&starts));
    then("a pod that starts, in a second slice", at, &[(A, Ready), (B, Down)]).await;
    let at = api.put("two", PORT, &[ready(B, "b"), ready(C, "c")]);
    then("it is ready, and another is added", at, &[(A, Ready), (B, Ready), (C, Ready)]).await;
    let at = api.put("one", PORT, &[terminating(A, "a")]);
    then("one terminates", at, &[(A, Draining), (B, Ready), (C, Ready)]).await;
    let at = api.put("one", PORT, &[]);
    then("it is removed", at, &[(B, Ready), (C, Ready)]).await;
    let at = api.delete("two");
    then("a slice is deleted", at, &[]).await;
    for (what, time) in times {
        println!("propagation: {what}: {:.1} ms", time.as_secs_f64() * 1e3);
        assert!(time < Duration::from_secs(2), "{what}: {time:?}");
    }
    let asked = api.asked();
    assert_eq!(api.lists(), 1, "{asked:?}");
    assert_eq!(asked[0].path, "/apis/discovery.k8s.io/v1/namespaces/llm/endpointslices");
    assert_eq!(asked[0].query["labelSelector"], "kubernetes.io/service-name=vllm");
}

#[tokio::test]
async fn a_watch_that_ends_or_is_cut_goes_on_where_it_was() {
    let api = KubeApi::start().await;
    let watched = Watched::of(&api).await;
    for (n, end) in [KubeApi::end_watches, KubeApi::cut].iter().enumerate() {
        let lists = api.lists();
        api.put("one", PORT, &[ready(A, "a"), ready(B, &format!("b{n}"))]);
        watched.becomes(&[(A, Ready), (B, Ready)], Instant::now()).await;
        end(&api);
        // While nobody watches.
        api.put("one", PORT, &[terminating(A, "a")]);
        api.put("two", PORT, &[ready(C, "c")]);
        let time = watched.becomes(&[(A, Draining), (C, Ready)], Instant::now()).await;
        println!("propagation over a broken watch: {:.1} ms", time.as_secs_f64() * 1e3);
        assert_eq!(api.lists(), lists, "nothing was listed anew");
        api.delete("two");
    }
}

#[tokio::test]
async fn a_version_that_is_gone_leads_to_a_new_list() {
    let api = KubeApi::start().await;
    api.put("one", PORT, &[ready(A, "a")]);
    api.put("two", PORT, &[ready(B, "b")]);
    let watched = Watched::of(&api).await;
    let lease = watched.pool.pick(&[format!("{B}:{PORT}").into()]).unwrap();

    // In the stream: what happened meanwhile is only in the list.
    api.expire();
    api.delete("two");
    api.put("three", PORT, &[ready(C, "c")]);
    let time = watched.becomes(&[(A, Ready), (C, Ready)], Instant::now()).await;
    println!("propagation over a 410 in the stream: {:.1} ms", time.as_secs_f64() * 1e3);
    assert_eq!(api.lists(), 2);
    assert_eq!(watched.pool.state().endpoints[0].in_flight, 1, "who stays keeps its count");
    drop(lease);

    // As the status of the answer, to a watch that begins again.
    api.set(Mood::RefusesWatches);
    api.cut();
    eventually("another list", || api.lists() > 2).await;
    api.set(Mood::Serves);
    api.delete("three");
    watched.becomes(&[(A, Ready)], Instant::now()).await;
}

/// How long a change takes to be in force, over many watches: figures, no bounds, for a machine may
/// be busy. What holds on any is that a version which is gone costs one list and no waiting: not
/// for the pace of requests, nor for a failure before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_in_force_as_soon_as_it_is_told() {
    let mut figures = [
        ("terminating, in a watch", Vec::new()),
        ("after a 410 in the stream", Vec::new()),
        ("right after that list", Vec::new()),
        ("after a cut and a 410", Vec::new()),
    ];
    for _ in 0..20 {
        let api = KubeApi::start().await;
        api.put("one", PORT, &[ready(A, "a"), ready(B, "b")]);
        let watched = Watched::of(&api).await;
        let mut took = |n: usize, time: Duration| figures[n].1.push(time);
        let at = api.put("one", PORT, &[ready(A, "a"), terminating(B, "b")]);
        took(0, watched.becomes(&[(A, Ready), (B, Draining)], at).await);

        api.expire();
        let at = api.put("one", PORT, &[ready(A, "a"), ready(B, "c")]);
        took(1, watched.becomes(&[(A, Ready), (B, Ready)], at).await);
        let at = api.put("one", PORT, &[terminating(A, "a"), ready(B, "c")]);
        took(2, watched.becomes(&[(A, Draining), (B, Ready)], at).await);
        assert_eq!(api.lists(), 2);

        drop(watched);
        eventually("nobody watches", || api.watching() == 0).await;
        let watched = Watched::of(&api).await;
        let before = api.lists();
        api.cut();
        api.expire();
        let at = api.put("one", PORT, &[ready(B, "c")]);
        took(3, watched.becomes(&[(B, Ready)], at).await);
        assert_eq!(api.lists(), before + 1);
    }
    for (what, mut times) in figures {
        times.sort();
        let [median, most] = [times[times.len() / 2], times[times.len() - 1]];
        let [median, most] = [median, most].map(|time| time.as_secs_f64() * 1e3);
        println!("propagation: {what}: median {median:.1} ms, longest {most:.1} ms");
    }
}

#[tokio::test]
async fn while_the_api_server_is_away_the_last_list_stays() {
    let mut api = KubeApi::start().await;
    api.put("one", PORT, &[ready(A, "a"), ready(B, "b")]);
    let watched = Watched::of(&api).await;
    api.go_away().await;
    api.put("one", PORT, &[ready(A, "a")]);
    eventually("nobody watches", || api.watching() == 0).await;
    api.set(Mood::HangsUp);
    api.come_back().await;
    let asked = api.asked().len();
    eventually("asked in vain again and again", || api.asked().len() >= asked + 3).await;
    watched.becomes(&[(A, Ready), (B, Ready)], Instant::now()).await;
    assert!(watched.pool.pick(&[]).is_ok());
    api.set(Mood::Serves);
    watched.becomes(&[(A, Ready)], Instant::now()).await;

    // Forbidden is not empty either; and an empty list is one.
    api.set(Mood::Forbids);
    let lists = api.lists();
    api.expire();
    api.delete("one");
    eventually("a list is refused", || api.lists() > lists).await;
    watched.becomes(&[(A, Ready)], Instant::now()).await;
    api.set(Mood::Serves);
    watched.becomes(&[], Instant::now()).await;
}

#[tokio::test]
async fn a_server_that_hangs_is_asked_again() {
    let api = KubeApi::start().await;
    api.set(Mood::Hangs);
    api.put("one", PORT, &[ready(A, "a")]);
    let watched = Watched::start(&api, PortRef::Number(PORT));
    eventually("a list is asked for", || api.lists() == 1).await;
    api.set(Mood::Serves);
    watched.becomes(&[(A, Ready)], Instant::now()).await;
    assert_eq!(api.lists(), 2);
}

#[tokio::test]
async fn a_token_with_a_line_end_is_used_without_it() {
    let api = KubeApi::start().await;
    api.put("one", PORT, &[ready(A, "a")]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    for user in ["token: \"secret-token\\n\"", "username: \"u\\n\", password: \"p\\r\\n\""] {
        let text = api.kubeconfig().replace("token: secret-token", user);
        assert!(text.contains(user));
        std::fs::write(&path, text).unwrap();
        let (watched, attempts) = Watched::by_file(path.clone());
        watched.becomes(&[(A, Ready)], Instant::now()).await;
        assert_eq!(attempts.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_sent_is_told_and_its_mending_is_noticed() {
    let api = KubeApi::start().await;
    api.put("one", PORT, &[ready(A, "a")]);
    let mut config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    config.auth_info.token = Some("secret\ntoken".into());
    let trouble = Trouble::no_cluster(&client(config).err().unwrap());
    assert!(trouble.text.contains("token in the kubeconfig"), "{trouble:?}");
    assert!(trouble.remedy.contains("one line"), "{trouble:?}");
    assert!(!format!("{trouble:?}").contains("secret"), "{trouble:?}");

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let wrong = api.kubeconfig().replace("secret-token", "\"secret\\ntoken\"");
    std::fs::write(&path, wrong).unwrap();
    let (watched, attempts) = Watched::by_file(path.clone());
    eventually("it is tried again", || attempts.load(Ordering::Relaxed) >= 3).await;
    std::fs::write(&path, api.kubeconfig()).unwrap();
    watched.becomes(&[(A, Ready)], Instant::now()).await;
}

#[tokio::test]
async fn a_mended_address_in_the_kubeconfig_is_noticed() {
    let api = KubeApi::start().await;
    api.put("one", PORT, &[ready(A, "a")]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    // Nobody may listen at port 1 of this address.
    let wrong = api.kubeconfig().replace(&api.address().to_string(), "127.0.0.1:1");
    std::fs::write(&path, wrong).unwrap();
    let (watched, attempts) = Watched::by_file(path.clone());
    eventually("it is tried again", || attempts.load(Ordering::Relaxed) >= 3).await;
    assert!(watched.pool.awaits_endpoints());
    std::fs::write(&path, api.kubeconfig()).unwrap();
    watched.becomes(&[(A, Ready)], Instant::now()).await;
}

#[tokio::test]
async fn a_panic_of_the_client_does_not_end_the_discovery() {
    let api = KubeApi::start().await;
    api.put("one", PORT, &[ready(A, "a")]);
    let address = api.address();
    let attempts = AtomicUsize::new(0);
    let connect: Connect = Arc::new(move || match attempts.fetch_add(1, Ordering::Relaxed) {
        0 => panic!("before there is a future"),
        1 => Box::pin(async { panic!("inside the future") }),
        _ => {
            let uri = format!("http://{address}").parse().unwrap();
            Box::pin(async move { client(kube::Config::new(uri)) })
        }
    });
    let watched = Watched::by(connect, PortRef::Number(PORT));
    watched.becomes(&[(A, Ready)], Instant::now()).await;
}

#[tokio::test]
async fn a_server_that_ends_every_watch_is_not_flooded() {
    let api = KubeApi::start().await;
    api.set(Mood::EndsWatches);
    let watched = Watched::start(&api, PortRef::Number(PORT));
    let begun = Instant::now();
    eventually("nine watches", || api.asked().len() > 9).await;
    // Five requests come at once, each of the others after a gap.
    assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
    api.set(Mood::Serves);
    api.put("one", PORT, &[ready(A, "a")]);
    watched.becomes(&[(A, Ready)], Instant::now()).await;
}

#[tokio::test]
async fn another_pod_at_the_same_address_begins_with_a_clean_ledger() {
    let api = KubeApi::start().await;
    api.put("one", PORT, &[ready(A, "old")]);
    let watched = Watched::of(&api).await;
    let running = watched.pool.pick(&[]).unwrap();
    running.mark(crate::core::endpoint_health::Mark::DrainAnswer);
    watched.becomes(&[(A, Draining)], Instant::now()).await;
    let leaving = running.leaving();
    api.put("one", PORT, &[ready(A, "new")]);
    watched.becomes(&[(A, Ready)], Instant::now()).await;
    assert_eq!(watched.pool.state().endpoints[0].in_flight, 0);
    tokio::time::timeout(BOUND, leaving).await.expect("what waits there is told");
    let next = watched.pool.pick(&[]).unwrap();
    drop(running);
    assert_eq!(watched.pool.state().endpoints[0].in_flight, 1);
    // The same pod in another slice is the same endpoint.
    api.put("two", PORT, &[ready(A, "new")]);
    api.delete("one");
    api.put("three", PORT, &[ready(B, "b")]);
    watched.becomes(&[(A, Ready), (B, Ready)], Instant::now()).await;
    assert_eq!(watched.pool.state().endpoints[0].in_flight, 1);
    drop(next);
}

#[tokio::test]
async fn a_port_may_have_a_name() {
    let api = KubeApi::start().await;
    api.put("one", 8001, &[ready(A, "a")]);
    api.put("two", 8002, &[ready(A, "b")]);
    let watched = Watched::start(&api, PortRef::Name("http".to_owned()));
    let both = [(format!("{A}:8001"), Ready), (format!("{A}:8002"), Ready)];
    eventually("both", || watched.is() == both).await;
}

/// Whatever happens to the watch, in whatever order: in the end, and after every step that leaves
/// the API server in reach, the pool is what the slices say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_lost() {
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut chance = StdRng::seed_from_u64(seed);
    let mut api = KubeApi::start().await;
    let watched = Watched::of(&api).await;
    let mut slices: BTreeSet<usize> = BTreeSet::new();
    let mut slowest = Duration::ZERO;
    for step in 0..60 {
        let at = match chance.random_range(0..10) {
            0 => {
                api.cut();
                Instant::now()
            }
            1 => {
                api.end_watches();
                Instant::now()
            }
            2 => {
                api.expire();
                Instant::now()
            }
            3 if step % 3 == 0 => {
                api.go_away().await;
                change(&api, &mut slices, &mut chance);
                api.come_back().await;
                Instant::now()
            }
            _ => change(&api, &mut slices, &mut chance),
        };
        // Several changes may be under way at once.
        if chance.random_bool(0.5) {
            slowest = slowest.max(watched.agrees(&api, at).await);
        }
    }
    watched.agrees(&api, Instant::now()).await;
    println!("slowest agreement, repairs included: {:.1} ms", slowest.as_secs_f64() * 1e3);
}

/// One of two slices gets another content, or is deleted.
fn change(api: &KubeApi, slices: &mut BTreeSet<usize>, chance: &mut StdRng) -> Instant {
    let slice = chance.random_range(0..2);
    let name = ["one", "two"][slice];
    if slices.contains(&slice) && chance.random_bool(0.2) {
        slices.remove(&slice);
        return api.delete(name);
    }
    slices.insert(slice);
    let mut endpoints: Vec<Value> = Vec::new();
    for n in 0..4 {
        let (ip, pod) = (format!("10.0.{slice}.{n}"), format!("pod-{slice}-{n}"));
        match chance.random_range(0..4) {
            0 => endpoints.push(ready(&ip, &pod)),
            1 => endpoints.push(terminating(&ip, &pod)),
            2 => endpoints.push(conditioned(&ip, &pod, json!({"ready": false}))),
            _ => {}
        }
    }
    api.put(name, PORT, &endpoints)
}

impl Watched {
    /// Wait until the pool is what the API server's slices say.
    async fn agrees(&self, api: &KubeApi, since: Instant) -> Duration {
        let mut expected: Vec<_> = api
            .endpoints()
            .into_iter()
            .map(|(ip, conditions)| {
                let phase = match (&conditions["terminating"], &conditions["ready"]) {
                    (Value::Bool(true), _) => Draining,
                    (_, Value::Bool(true)) => Ready,
                    _ => Down,
                };
                (format!("{ip}:{PORT}"), phase)
            })
            .collect();
        expected.sort_by(|one, other| one.0.cmp(&other.0));
        eventually(&format!("{expected:?}"), || self.is() == expected).await;
        since.elapsed()
    }
}
