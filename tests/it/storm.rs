//! Ten thousand requests that are cancelled at random moments, in every phase and in every way. At
//! the end nothing is left, and at no moment was there too much.
//!
//! `STREAMGATE_STORM_SEED` repeats a run, as far as the machine's timing allows;
//! `STREAMGATE_STORM_REQUESTS` makes it longer.

use crate::support::h2::{H2, H2Call};
use crate::support::request::Request;
use crate::support::wire::{Ending, Wire};
use crate::support::{Api, Gate, Metrics, OwnEngine, Setup};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use streamgate_loadtests::engine::EngineConfig;

const REQUESTS: u64 = 10_000;
const CLIENTS: u64 = 20;
const CAP: usize = 8;
/// What the proxy may need after the last client has gone is below a second; this is room for a
/// loaded machine.
const REST: Duration = Duration::from_secs(5);

fn setting(name: &str, or: impl FnOnce() -> u64) -> u64 {
    std::env::var(name).ok().map_or_else(or, |text| text.parse().unwrap())
}

/// A request that reaches some phase and stays there for a while, and the id its answer has.
fn request(random: &mut StdRng) -> (Request, String) {
    let tenant = ["a", "b"][random.random_range(0..2)];
    let api = Api::ALL[random.random_range(0..4)];
    let id = format!("storm-{:016x}", random.random::<u64>());
    let tokens = random.random_range(1..40);
    let request = if random.random_bool(0.75) { api.stream(tokens) } else { api.plain(tokens) };
    let request = request.of(tenant).header("x-sim-tenant", tenant).id(&id);
    // The responses API makes up ids of its own.
    let id = if api == Api::Responses { String::new() } else { id };
    let request = match random.random_range(0..40) {
        0..4 => request.fault("delay-head=20ms"),
        4..8 => request.fault("delay-first=20ms"),
        8..12 => request.fault("opening-silence=20ms"),
        12..16 => request.fault("tokens-per-event=7"),
        16 => request.fault("stall-after=3"),
        _ => request,
    };
    (request, id)
}

/// When a client leaves.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Before it has said everything.
    Unsent,
    /// At any time, whatever happens.
    Time(Duration),
    Head,
    Pieces(usize),
    Whole,
}

/// What all clients share.
struct Storm {
    to: SocketAddr,
    left: AtomicU64,
    /// How long an answer's head takes at present, in microseconds: random moments follow the
    /// machine's pace, so that every phase is met on any machine.
    pace: AtomicU64,
}

impl Storm {
    fn take(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn moment(&self, random: &mut StdRng) -> Moment {
        match random.random_range(0..20) {
            0..2 => Moment::Unsent,
            2..11 => Moment::Time(self.patience(random)),
            11..14 => Moment::Head,
            14..18 => Moment::Pieces(random.random_range(1..15)),
            _ => Moment::Whole,
        }
    }

    fn patience(&self, random: &mut StdRng) -> Duration {
        let pace = self.pace.load(Ordering::Relaxed);
        Duration::from_micros(random.random_range(0..=3 * pace))
    }

    fn head_took(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap();
        let before = self.pace.load(Ordering::Relaxed);
        self.pace.store((before * 7 + micros) / 8, Ordering::Relaxed);
    }

    /// Requests over one HTTP/1 connection until it is cut.
    async fn over_http1(&self, random: &mut StdRng) {
        let mut wire = Wire::connect(self.to).await;
        while self.take() {
            let request = request(random);
            let moment = self.moment(random);
            let whole = self.until(&mut wire, &request, moment, random).await;
            if !whole || random.random_bool(0.2) {
                if random.random() {
                    wire.reset();
                }
                return;
            }
        }
    }

    /// Whether the connection can be used again.
    async fn until(
        &self,
        wire: &mut Wire,
        (request, id): &(Request, String),
        leave: Moment,
        random: &mut StdRng,
    ) -> bool {
        let bytes = request.bytes();
        if let Moment::Unsent = leave {
            let _ = wire.try_send(&bytes[..random.random_range(0..bytes.len())]).await;
            return false;
        }
        let began = Instant::now();
        if wire.try_send(&bytes).await.is_err() {
            return false;
        }
        if let Moment::Time(time) = leave {
            let answer = tokio::time::timeout(time, wire.try_answer()).await.ok().flatten();
            return answer.is_some_and(|answer| answer.ending == Ending::Whole);
        }
        let Some(head) = wire.head().await else { return false };
        self.head_took(began.elapsed());
        match leave {
            Moment::Pieces(count) if head.1.contains_key("transfer-encoding") => {
                for _ in 0..count {
                    if !matches!(wire.chunk().await, Ok(Some(_))) {
                        return false;
                    }
                }
                false
            }
            Moment::Whole => {
                let answer = wire.rest_of(head).await;
                let whole = answer.ending == Ending::Whole;
                if whole {
                    check(answer.status, &answer.text(), id);
                }
                whole
            }
            _ => false,
        }
    }

    /// Streams of one HTTP/2 connection, left one by one or with the whole connection.
    async fn over_http2(&self, random: &mut StdRng) {
        let mut connection = H2::connect(self.to).await;
        for _ in 0..random.random_range(1..12) {
            let mut calls = Vec::new();
            while calls.len() < random.random_range(1..4) && self.take() {
                let (request, id) = request(random);
                calls.push((connection.send(&request).await, id, self.moment(random)));
            }
            for (call, id, moment) in &mut calls {
                self.until_reset(call, id, *moment).await;
            }
            if random.random_bool(0.2) {
                return;
            }
        }
    }

    async fn until_reset(&self, call: &mut H2Call, id: &str, leave: Moment) {
        let began = Instant::now();
        let pieces = match leave {
            Moment::Unsent => return call.reset(),
            Moment::Time(time) => {
                tokio::time::sleep(time).await;
                return call.reset();
            }
            Moment::Head => 0,
            Moment::Pieces(count) => count,
            Moment::Whole => usize::MAX,
        };
        let Some((status, _)) = call.head().await else { return };
        self.head_took(began.elapsed());
        let mut text = String::new();
        for _ in 0..pieces {
            match call.piece().await {
                Ok(Some(piece)) => text.push_str(&String::from_utf8_lossy(&piece)),
                Ok(None) => return check(status, &text, id),
                Err(_) => return,
            }
        }
        call.reset();
    }
}

/// An answer is the engine's answer to this very request.
fn check(status: u16, text: &str, id: &str) {
    assert!(status != 200 || text.contains(id), "not the answer to {id}: {text}");
}

/// At rest, and nobody comes any more: what clients left in sockets has been looked at.
async fn at_rest(gate: &Gate) -> Metrics {
    let arrivals = |metrics: &Metrics| metrics.sum("streamgate_arrivals_total");
    loop {
        let metrics = gate.settled().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let again = gate.settled().await;
        if arrivals(&metrics) == arrivals(&again) {
            return again;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_cancels_leave_nothing() {
    let seed = setting("STREAMGATE_STORM_SEED", rand::random);
    let requests = setting("STREAMGATE_STORM_REQUESTS", || REQUESTS);
    println!("STREAMGATE_STORM_SEED={seed}");
    let engine = OwnEngine::start(EngineConfig::instant(Duration::from_millis(1))).await;
    let queue =
        format!("max_in_flight: {CAP}\non_limit: queue\nqueue: {{max_depth: 8, max_wait: 100ms}}");
    let setup = Setup::new(&[engine.addr()])
        .tenant("a", &format!("max_in_flight: {CAP}"))
        .tenant("b", &queue)
        .with("timeouts: {first_byte: 1s, head_hold: 10ms, stream_idle: 1s}");
    let gate = Gate::start(setup).await;
    let began = Instant::now();
    let storm = Arc::new(Storm {
        to: gate.proxy,
        left: AtomicU64::new(requests),
        pace: AtomicU64::new(5_000),
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let storm = storm.clone();
            let mut random = StdRng::seed_from_u64(seed.wrapping_add(n));
            tokio::spawn(async move {
                while storm.left.load(Ordering::Relaxed) > 0 {
                    match random.random_range(0..3) {
                        0 => storm.over_http2(&mut random).await,
                        _ => storm.over_http1(&mut random).await,
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let last = Instant::now();
    let metrics = at_rest(&gate).await;
    let rest = last.elapsed();
    let stats = engine.stats();
    println!("{requests} requests in {:?}, at rest after {rest:?}", last - began);
    println!(
        "{} at the engine, {} aborted, {} completed",
        stats.requests, stats.aborts, stats.completed
    );
    let outcomes = ["complete", "truncated", "upstream_error", "client_cancelled", "timed_out"];
    let counts: Vec<_> = outcomes.iter().map(|name| (name, metrics.outcome(name))).collect();
    println!("{counts:?}, rejected {}", metrics.outcome("rejected"));
    assert!(rest < REST, "{rest:?}");
    assert_eq!(metrics.outcome("failed"), 0.0);
    assert_eq!((stats.in_flight, metrics.sum("streamgate_endpoint_in_flight")), (0, 0.0));
    for tenant in ["a", "b"] {
        let most = stats.tenants[tenant].max_in_flight;
        assert_eq!(most, CAP, "{tenant}: never above its cap, and up to it");
    }
    // Every phase was met: otherwise the storm is none. How many are cancelled and how many are
    // refused before that depends on the machine.
    assert!(metrics.outcome("client_cancelled") > requests as f64 / 20.0);
    assert!(metrics.outcome("complete") > 0.0 && metrics.outcome("rejected") > 0.0);
    gate.all_slots_free(CAP, &engine).await;
}
