//! Rollouts of two engines in a row, as fast as they go, under streams of random lengths.
//!
//! `STREAMGATE_ROLLOUTS` says how many (30), `STREAMGATE_SEED` with what chance.

use crate::cluster::turn;
use crate::engine::Model;
use crate::pods::{Manifest, Pods, PreStop};
use crate::support::eventually;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

const MS: Duration = Duration::from_millis(1);
const STREAMS: usize = 12;
/// Streams of 5 to 200 ms.
const TOKENS: std::ops::RangeInclusive<u32> = 1..=40;
/// No stream is as long, however busy the machine.
const LONG: Duration = Duration::from_secs(10);

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text}: give a number")))
}

/// Any of the settings that break nothing.
fn manifest(random: &mut StdRng) -> Manifest {
    let (pre_stop, shutdown_timeout) = match random.random_range(0..3) {
        0 => (PreStop::Sleep(random.random_range(100..300) * MS), LONG),
        1 => (PreStop::Drain(LONG), LONG),
        _ => (PreStop::Drain(LONG), Duration::ZERO),
    };
    let model = Model { token_interval: 5 * MS, scale: 50, shutdown_timeout };
    Manifest { model, pre_stop, grace: 2 * LONG }
}

async fn none_breaks(what: &str, rollouts: u64, found: bool) {
    let seed = number("STREAMGATE_SEED").unwrap_or_else(rand::random);
    println!("{what}: {rollouts} rollouts, STREAMGATE_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let first = manifest(&mut random);
    let mut pods = match found {
        true => Pods::found(first, seed).await,
        false => Pods::told(first, seed).await,
    };
    let began = Instant::now();
    pods.streams(STREAMS, TOKENS);
    let mut left = 0;
    for rollout in 1..=rollouts {
        let next = [manifest(&mut random), manifest(&mut random)];
        left += pods.roll(|which| next[which]).await;
        pods.load.so_far().assert_complete();
        pods.gate.take_output();
        if rollout % 50 == 0 {
            println!("{rollout} rollouts in {:.0} s", began.elapsed().as_secs_f64());
        }
    }
    let serving = pods.serving();
    let tally = pods.load.stop().await;
    let all = tally.assert_complete();
    let metrics = pods.gate.settled().await;
    let complete = f64::from(u32::try_from(all).unwrap());
    assert!((metrics.sum("streamgate_arrivals_total") - complete).abs() < 0.5);
    assert!((metrics.outcome("complete") - complete).abs() < 0.5);
    for engine in serving {
        eventually("nothing runs there", || async {
            let stats = reqwest::get(format!("http://{engine}/sim/stats")).await.unwrap();
            let stats: Value = stats.json().await.unwrap();
            (stats["in_flight"] == 0).then_some(())
        })
        .await;
    }
    assert!(left > 0, "streams ran where an engine left");
    println!(
        "{what}: {rollouts} rollouts in {:.0} s: {all} streams, all complete; {left} of them ran \
         where an engine left",
        began.elapsed().as_secs_f64()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_breaks_in_many_rollouts() {
    let _turn = turn().await;
    let rollouts = number("STREAMGATE_ROLLOUTS").unwrap_or(30);
    none_breaks("engines in EndpointSlices", rollouts, true).await;
    // Fewer: an endpoint that goes down again and again is probed less and less often.
    none_breaks("engines in a list", rollouts.div_ceil(20), false).await;
}
