//! Tokens come when the model says, at every time scale, and errors do not add up.

mod common;

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
    let scale = 20.0;
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
    // The nonce first: nothing is shared.
    token_times(&engine, &prompt(3, 5048), 2, scale).await;
    assert_eq!(engine.stats().prefix_hits, 4704);
    assert_eq!(post(engine.addr(), "/reset_prefix_cache", &[], "").await.status(), 200);
    ask(4).await;
    assert_eq!(engine.stats().prefix_hits, 4704, "the cache was emptied");
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
