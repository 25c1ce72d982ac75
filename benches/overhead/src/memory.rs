//! What an idle stream costs in memory.

use crate::child::Proxy;
use crate::client::{Answer, Ask, Lane, Protocol};
use anyhow::{Context, Result};
use futures::future::try_join_all;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Streams held open at once.
pub const STREAMS: usize = 1000;
/// Events each has sent before it falls silent.
const EVENTS: u64 = 5;
/// Lanes opened at once, so that no listen queue overflows.
const TOGETHER: usize = 100;
/// Longer than the allocator keeps what was freed (its decay is 1 s).
const SETTLE: Duration = Duration::from_millis(2500);
const BOUND: Duration = Duration::from_secs(30);

/// Resident bytes that each of [`STREAMS`] idle streams adds to a fresh `proxy`.
pub async fn each_stream(proxy: &Proxy) -> Result<f64> {
    // What is allocated once, at the first requests, is not a stream's.
    timeout(BOUND, hold(proxy, 50)).await.context("the first streams are too slow")??;
    sleep(SETTLE).await;
    let before = proxy.resident()?;
    let held = timeout(BOUND, hold(proxy, STREAMS)).await;
    let _held = held.context("the streams are too slow")??;
    sleep(SETTLE).await;
    let added = proxy.resident()?.saturating_sub(before);
    Ok(added as f64 / STREAMS as f64)
}

async fn hold(proxy: &Proxy, streams: usize) -> Result<Vec<Lane>> {
    let ask = Ask::chat(100, true).header("x-sim-stall-after", EVENTS.to_string());
    let mut held = Vec::with_capacity(streams);
    while held.len() < streams {
        let count = TOGETHER.min(streams - held.len());
        let lanes = Lane::open(proxy.address, Protocol::Http1, count).await?;
        let asked = lanes.into_iter().map(|mut lane| async {
            lane.ask_some(&ask, &mut Answer::new(), EVENTS).await?;
            anyhow::Ok(lane)
        });
        held.extend(try_join_all(asked).await?);
    }
    Ok(held)
}
