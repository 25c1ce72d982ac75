//! Tokens come when the model says, at every time scale, and errors do not add up.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small figures of a model, checked against each other"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

mod common;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{Client, End, at_best, completion, post, request, text};
use streamgate_loadtests::engine::{Engine, EngineConfig, tokens};

const COMPLETIONS: &str = "/v1/completions";
const SENTENCE: &str = "The service tracks request latency, token throughput, cache utilization, and healthy replicas. ";

/// A prompt of exactly that many tokens, different for each nonce.
fn prompt(nonce: u32, tokens: usize) -> String {
    let head = format!("Request {nonce:08} ");
    let sentences = (tokens - tokens::count(&head)) / 16;
    let mut text = head + &SENTENCE.repeat(sentences);
    while tokens::count(&text) < tokens {
        text.push_str("more ");
    }
    text
}

/// The same with the nonce at its end.
fn shared_prompt(nonce: u32, tokens: usize) -> String {
    let tail = format!("Question {nonce:08}");
    let sentences = (tokens - tokens::count(&tail)) / 16;
    let mut text = SENTENCE.repeat(sentences);
    while tokens::count(&text) + tokens::count(&tail) < tokens {
        text.push_str("more ");
    }
    text + &tail
}

/// Times of the tokens in seconds of virtual time since the request.
async fn token_times(engine: &Engine, prompt: &str, output: u32, scale: f64) -> Vec<f64> {
    let body = serde_json::json!({"prompt": prompt, "max_tokens": output, "stream": true});
    let mut client = Client::connect(engine.addr()).await;
    let start = Instant::now();
    client.send(request("POST", COMPLETIONS, &[], &body.to_string())).await;
    let (answer, end) = client.answer().await;
    assert_eq!(end, End::Complete);
    let answer = answer.unwrap();
    // The read in which each event ended.
    let mut ends = Vec::new();
    let mut at = 0;
    for (moment, len) in &client.reads {
        at += len;
        ends.push((at, (*moment - start).as_secs_f64() * scale));
    }
    let raw = String::from_utf8_lossy(answer.raw()).into_owned();
    raw.match_indices("\"text\":")
        .map(|(i, _)| ends.iter().find(|(end, _)| *end > i).unwrap().1)
        .collect()
}

/// `value` lies at `expected` or at most that much after it.
fn near(name: &str, value: f64, expected: f64, after: f64) -> Result<(), String> {
    assert!(value >= expected - 0.001, "{name} is early: {value}, expected {expected}");
    if value < expected + after { Ok(()) } else { Err(format!("{name} {value}, not {expected}")) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calibrated_replica_keeps_its_times() {
    for scale in [10.0, 40.0] {
        let engine = Engine::start(EngineConfig::calibrated(scale)).await.unwrap();
        // Before the engine, one step with the prompt.
        let first = 0.125 + 0.0522 + 0.004 + 517.0 / 3400.0;
        // 127 steps with 518 to 644 tokens of context.
        let steps = |n: u32| -> f64 {
            (518..518 + n).map(|context| 0.0522 + 0.06e-6 * f64::from(context)).sum()
        };
        at_best(|| async {
            let times = token_times(&engine, &prompt(1, 517), 128, scale).await;
            assert_eq!(times.len(), 128);
            // A wake-up that is a few milliseconds late counts `scale` times, but only once.
            near("first", times[0], first, 0.008 * scale)?;
            near("middle", times[63], first + steps(63), 0.008 * scale)?;
            near("last", times[127], first + steps(127), 0.008 * scale)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_run_and_the_ninth_waits() {
    // A step is then 26 ms of real time: more than streams are read apart on a busy machine.
    let scale = 2.0;
    let engine = Engine::start(EngineConfig::calibrated(scale)).await.unwrap();
    let all = (0..9).map(|n| {
        let engine = &engine;
        async move { token_times(engine, &prompt(n, 100), 20, scale).await }
    });
    let mut times = futures::future::join_all(all).await;
    times.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let first_end = times[..8].iter().map(|t| t[19]).fold(f64::INFINITY, f64::min);
    assert!(times[8][0] > first_end, "{} {first_end}", times[8][0]);
    assert!(times[..8].iter().all(|t| t[0] < first_end));
    assert!(engine.stats().waiting_peak >= 1);
}

#[tokio::test]
async fn a_shared_prefix_is_found_in_the_cache() {
    let scale = 50.0;
    let engine = Engine::start(EngineConfig::calibrated(scale)).await.unwrap();
    let ask = |nonce| {
        token_times(&engine, Box::leak(shared_prompt(nonce, 5048).into_boxed_str()), 2, scale)
    };
    let cold = ask(1).await[0];
    let warm = ask(2).await[0];
    assert!(cold > 5048.0 / 3400.0 && warm > 0.125, "{cold} {warm}");
    let stats = engine.stats();
    assert_eq!((stats.prefix_queries, stats.prefix_hits), (2 * 5048, 4704));
    let body = |nonce| serde_json::json!({ "prompt": shared_prompt(nonce, 5048) }).to_string();
    assert_eq!(engine.warm(COMPLETIONS, &body(9)), Ok(3));
    let mistake = engine.warm(COMPLETIONS, "{}").unwrap_err();
    assert!(mistake.contains("body.prompt"), "{mistake}");
    // The nonce first: nothing is shared.
    token_times(&engine, &prompt(3, 5048), 2, scale).await;
    assert_eq!(engine.stats().prefix_hits, 4704);
    assert_eq!(post(engine.addr(), "/reset_prefix_cache", &[], "").await.status(), 200);
    ask(4).await;
    assert_eq!(engine.stats().prefix_hits, 4704, "the cache was emptied");
    engine.reset_cache();
    let warmed = post(engine.addr(), "/sim/warm?for=/v1/completions", &[], &body(6)).await;
    assert_eq!(text(&warmed), r#"{"blocks":3}"#);
    ask(5).await;
    let page = text(&common::get(engine.addr(), "/metrics").await);
    let hits = r#"vllm:prefix_cache_hits_total{engine="0",model_name="sim"} 9408.0"#;
    assert!(page.lines().any(|l| l == hits));
}

#[tokio::test]
async fn fixed_intervals_do_not_drift() {
    let engine = Engine::start(EngineConfig::instant(Duration::from_micros(2500))).await.unwrap();
    at_best(|| async {
        let times = token_times(&engine, "x", 401, 1.0).await;
        near("middle", times[200], 0.5, 0.008)?;
        near("last", times[400], 1.0, 0.008)
    })
    .await;
}

#[tokio::test]
async fn without_merging_every_event_is_a_write() {
    let mut reads = Vec::new();
    for merge_writes in [true, false] {
        let config = EngineConfig { merge_writes, ..EngineConfig::default() };
        let engine = Engine::start(config).await.unwrap();
        let mut client = Client::connect(engine.addr()).await;
        client.send(request("POST", COMPLETIONS, &[], &completion(200))).await;
        client.answer().await;
        reads.push(client.reads.len());
    }
    assert!(reads[0] <= 4, "head, and all tokens at once: {reads:?}");
    assert!(reads[1] >= 200, "one by one: {reads:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_streams_at_once() {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(20))).await.unwrap();
    let all = (0..200).map(|_| token_times(&engine, "x", 50, 1.0));
    let times = futures::future::join_all(all).await;
    let mut last: Vec<f64> = times.iter().map(|t| t[49]).collect();
    last.sort_by(f64::total_cmp);
    assert!(last[0] >= 0.979 && last[190] < 5.0, "{} {}", last[0], last[190]);
    assert_eq!(engine.stats().completed, 200);
}

/// Short requests cost little: a load test must not measure its own engine.
#[tokio::test]
async fn short_requests_in_series_on_many_connections() {
    const CONNECTIONS: usize = 8;
    const REQUESTS: u64 = 500;
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let start = Instant::now();
    let all = (0..CONNECTIONS).map(|_| async {
        let mut client = Client::connect(engine.addr()).await;
        let bytes = request("POST", COMPLETIONS, &[], &completion(4));
        for _ in 0..REQUESTS {
            client.send(&bytes).await;
            assert_eq!(client.answer().await.1, End::Complete);
        }
    });
    futures::future::join_all(all).await;
    let rate = CONNECTIONS as f64 * REQUESTS as f64 / start.elapsed().as_secs_f64();
    eprintln!("{rate:.0} requests/s, client and engine on one thread");
    assert_eq!(engine.stats().completed, CONNECTIONS as u64 * REQUESTS);
    assert!(engine.stats().max_in_flight <= CONNECTIONS);
    assert!(rate > 200.0, "{rate}");
}

/// The published wave on one replica, over HTTP at 60 times real speed, against the reference
/// model's figures: 103 dropped, TTFT P95 39.98 s, E2E P95 47.74 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_replica_under_the_wave() {
    const SCALE: f64 = 60.0;
    let engine = Engine::start(EngineConfig::calibrated(SCALE)).await.unwrap();
    let mut arrivals = Vec::new();
    let mut phase_start = 0.0;
    for (length, rate) in [(60.0_f64, 0.2), (240.0, 1.6), (90.0, 0.2)] {
        let count = (length * rate).round() as u32;
        arrivals.extend((0..count).map(|i| phase_start + f64::from(i) / rate));
        phase_start += length;
    }
    let start = Instant::now();
    let in_flight = std::sync::atomic::AtomicUsize::new(0);
    let one = |nonce: u32, at: f64| {
        let (engine, in_flight) = (&engine, &in_flight);
        async move {
            tokio::time::sleep_until((start + Duration::from_secs_f64(at / SCALE)).into()).await;
            if in_flight.fetch_add(1, Ordering::SeqCst) >= 48 {
                in_flight.fetch_sub(1, Ordering::SeqCst);
                return None;
            }
            let times = token_times(engine, &prompt(nonce, 517), 128, SCALE).await;
            in_flight.fetch_sub(1, Ordering::SeqCst);
            Some((times[0], times[127]))
        }
    };
    let all = futures::future::join_all((0..).zip(arrivals).map(|(n, at)| one(n, at))).await;
    let done: Vec<(f64, f64)> = all.iter().flatten().copied().collect();
    let p95 = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() * 95 / 100]
    };
    let ttft = p95(done.iter().map(|d| d.0).collect());
    let e2e = p95(done.iter().map(|d| d.1).collect());
    let dropped = all.len() - done.len();
    eprintln!("dropped {dropped}, TTFT P95 {ttft:.2} s, E2E P95 {e2e:.2} s");
    assert!((98..=108).contains(&dropped), "{dropped}");
    assert!((38.5..42.0).contains(&ttft), "{ttft}");
    assert!((46.5..50.0).contains(&e2e), "{e2e}");
}
