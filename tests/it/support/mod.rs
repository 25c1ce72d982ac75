//! The rig: a gate (the real binary), clients, waits on values.

#![allow(dead_code, reason = "a rig for many tests; what one topic needs another does not")]

pub mod api;
pub mod call;
pub mod gate;
pub mod h2;
pub mod in_process;
pub mod kube_api;
pub mod metrics;
pub mod own;
pub mod replayer;
pub mod request;
pub mod scripted;
pub mod tap;
pub mod tls;
pub mod wire;

pub use api::Api;
pub use call::{Call, Leave, Proto, ask};
pub use gate::{Gate, Setup};
pub use metrics::Metrics;
pub use own::OwnEngine;

use std::future::Future;
use std::time::{Duration, Instant};

/// Longest wait for a condition; a test that needs it has failed.
pub const BOUND: Duration = Duration::from_secs(20);

/// Ask again until `probe` gives a value; fails with `what` after [`BOUND`].
pub async fn eventually<T, F, Fut>(what: &str, mut probe: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let start = Instant::now();
    loop {
        if let Some(value) = probe().await {
            return value;
        }
        assert!(start.elapsed() < BOUND, "not within {BOUND:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// An answer without the seconds at which it was made.
pub fn timeless(text: &str) -> String {
    ["\"created\":", "\"created_at\":"].iter().fold(text.to_owned(), |text, mark| {
        let mut parts = text.split(mark);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |joined, part| {
            joined + mark + part.trim_start_matches(|c: char| c.is_ascii_digit())
        })
    })
}

/// `future` within [`BOUND`].
pub async fn bounded<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(BOUND, future).await {
        Ok(value) => value,
        Err(_) => panic!("not within {BOUND:?}: {what}"),
    }
}
