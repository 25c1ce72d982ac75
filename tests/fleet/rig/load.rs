//! Clients that ask again and again, and what they were answered.

use super::MS;
use crate::support::wire::{Ending, Wire};
use crate::support::{Api, request::Request};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at, sleep};

/// A stream of a tenant; the engine counts it for that tenant.
pub fn stream(tenant: &str, tokens: u32) -> Request {
    Api::Chat.stream(tokens).of(tenant).header("x-sim-tenant", tenant)
}

/// One answered request.
#[derive(Clone, Debug)]
pub struct Seen {
    pub asked: Instant,
    /// From the question to the answer's head.
    pub head: Duration,
    /// `complete`, `broken`, `gone` (no answer), or status and reason as in
    /// `429 tenant_in_flight`.
    pub kind: String,
}

/// Everything that clients saw.
#[derive(Clone, Debug, Default)]
pub struct Tally(Vec<Seen>);

impl Tally {
    pub fn count(&self, kind: &str) -> usize {
        self.0.iter().filter(|seen| seen.kind == kind).count()
    }

    /// When the head of the first of a kind came.
    pub fn first(&self, kind: &str) -> Option<Instant> {
        let of_kind = self.0.iter().filter(|seen| seen.kind == kind);
        of_kind.map(|seen| seen.asked + seen.head).min()
    }

    /// The longest time after `from` without one of a kind.
    pub fn longest_gap(&self, kind: &str, from: Instant) -> Duration {
        let of_kind = self.0.iter().filter(|seen| seen.kind == kind);
        let mut heads: Vec<_> = of_kind.map(|seen| seen.asked + seen.head).collect();
        heads.retain(|head| *head > from);
        heads.push(from);
        heads.sort_unstable();
        heads.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(Duration::MAX)
    }

    /// What was asked before.
    pub fn until(&self, end: Instant) -> Self {
        Self(self.0.iter().filter(|seen| seen.asked < end).cloned().collect())
    }

    /// How often each kind came.
    pub fn kinds(&self) -> BTreeMap<&str, usize> {
        let mut kinds = BTreeMap::new();
        for seen in &self.0 {
            *kinds.entry(seen.kind.as_str()).or_default() += 1;
        }
        kinds
    }

    /// What was asked in this time.
    pub fn between(&self, from: Instant, to: Instant) -> Self {
        let inside = |seen: &&Seen| seen.asked >= from && seen.asked < to;
        Self(self.0.iter().filter(inside).cloned().collect())
    }

    /// Time to the head of those of a kind, sorted.
    pub fn heads(&self, kind: &str) -> Vec<Duration> {
        let of_kind = self.0.iter().filter(|seen| seen.kind.starts_with(kind));
        let mut heads: Vec<_> = of_kind.map(|seen| seen.head).collect();
        heads.sort_unstable();
        heads
    }

    /// Only these kinds came, but for a twentieth that the store did not answer in time: that is
    /// what a busy machine may do to any of them.
    pub fn assert_answered(&self, kinds: &[&str]) {
        let late = "503 quota_unavailable";
        self.assert_only(&[kinds, &[late]].concat());
        assert!(self.count(late) * 20 <= self.0.len(), "{:?}", self.kinds());
    }

    /// Only these kinds came.
    pub fn assert_only(&self, kinds: &[&str]) {
        let strange: Vec<_> = self.0.iter().filter(|s| !kinds.contains(&&*s.kind)).collect();
        assert!(strange.is_empty(), "{:?}, for example {:?}", self.kinds(), strange.first());
    }
}

/// Clients in a closed loop over all replicas, until [`stop`](Self::stop).
pub struct Load {
    clients: JoinSet<()>,
    goes_on: watch::Sender<bool>,
    targets: Arc<Mutex<Vec<SocketAddr>>>,
    tally: Arc<Mutex<Tally>>,
}

impl Load {
    /// `clients` of tenant `a`, each with streams of its own length around `tokens`.
    pub fn start(targets: Vec<SocketAddr>, clients: usize, tokens: u32) -> Self {
        let requests = (0..clients).map(|client| {
            let spread = tokens / 2 + u32::try_from(client).unwrap() % tokens.max(1);
            stream("a", spread.max(1))
        });
        Self::of(targets, requests.collect())
    }

    /// One client for each of these requests.
    pub fn of(targets: Vec<SocketAddr>, requests: Vec<Request>) -> Self {
        let mut load = Self {
            clients: JoinSet::new(),
            goes_on: watch::Sender::new(true),
            targets: Arc::new(Mutex::new(targets)),
            tally: Arc::default(),
        };
        for (at, request) in requests.into_iter().enumerate() {
            let (targets, tally) = (Arc::clone(&load.targets), Arc::clone(&load.tally));
            let goes_on = load.goes_on.subscribe();
            load.clients.spawn(client(at, request, targets, tally, goes_on));
        }
        load
    }

    /// `clients` that send this request at even times, `rate` a second together; each keeps its
    /// connection. A client that is late sends at once.
    pub fn paced(targets: &[SocketAddr], clients: u32, rate: f64, request: &Request) -> Self {
        let mut load = Self::of(targets.to_vec(), Vec::new());
        let every = Duration::from_secs_f64(f64::from(clients) / rate);
        for at in 0..clients {
            let target = targets[usize::try_from(at).unwrap() % targets.len()];
            let (tally, goes_on) = (Arc::clone(&load.tally), load.goes_on.subscribe());
            let first = Instant::now() + every * at / clients;
            load.clients.spawn(pacer(target, request.bytes(), first, every, tally, goes_on));
        }
        load
    }

    /// From now on these are asked.
    pub fn retarget(&self, targets: Vec<SocketAddr>) {
        *self.targets.lock().unwrap() = targets;
    }

    /// What was seen until now.
    pub fn so_far(&self) -> Tally {
        self.tally.lock().unwrap().clone()
    }

    /// Every client finishes the request it is at.
    pub async fn stop(mut self) -> Tally {
        self.goes_on.send_replace(false);
        while let Some(client) = self.clients.join_next().await {
            client.expect("a client failed");
        }
        self.so_far()
    }
}

async fn client(
    mut turn: usize,
    request: Request,
    targets: Arc<Mutex<Vec<SocketAddr>>>,
    tally: Arc<Mutex<Tally>>,
    goes_on: watch::Receiver<bool>,
) {
    while *goes_on.borrow() {
        let target = {
            let targets = targets.lock().unwrap();
            targets[turn % targets.len()]
        };
        turn += 1;
        let seen = ask(target, &request).await;
        let pause = if seen.kind == "complete" { Duration::ZERO } else { 10 * MS };
        tally.lock().unwrap().0.push(seen);
        // A refused client comes again, not at once.
        sleep(pause).await;
    }
}

async fn pacer(
    target: SocketAddr,
    bytes: Vec<u8>,
    first: Instant,
    every: Duration,
    tally: Arc<Mutex<Tally>>,
    goes_on: watch::Receiver<bool>,
) {
    let mut ticks = interval_at(first, every);
    let mut kept: Option<Wire> = None;
    loop {
        ticks.tick().await;
        if !*goes_on.borrow() {
            return;
        }
        let asked = Instant::now();
        let mut wire = match kept.take() {
            Some(wire) => wire,
            None => Wire::connect(target).await,
        };
        let answer = match wire.try_send(&bytes).await {
            Ok(()) => wire.try_answer().await,
            Err(_) => None,
        };
        let kind = match answer {
            Some(answer) if answer.status == 200 => "complete".to_owned(),
            Some(answer) => format!("{} {}", answer.status, answer.reason().unwrap_or("-")),
            None => "gone".to_owned(),
        };
        if kind != "gone" {
            kept = Some(wire);
        }
        tally.lock().unwrap().0.push(Seen { asked, head: asked.elapsed(), kind });
    }
}

/// One request to its end.
pub async fn ask(to: SocketAddr, request: &Request) -> Seen {
    let asked = Instant::now();
    let mut seen = Seen { asked, head: Duration::ZERO, kind: "gone".to_owned() };
    let Ok(mut wire) = Wire::try_connect(to).await else { return seen };
    if wire.try_send(&request.bytes()).await.is_err() {
        return seen;
    }
    let head = wire.head().await;
    seen.head = asked.elapsed();
    let Some((status, headers)) = head else { return seen };
    let answer = wire.rest_of((status, headers)).await;
    seen.kind = match answer.status {
        200 if answer.ending == Ending::Whole && answer.text().contains("[DONE]") => {
            "complete".to_owned()
        }
        200 => "broken".to_owned(),
        status => format!("{status} {}", answer.reason().unwrap_or("-")),
    };
    seen
}
