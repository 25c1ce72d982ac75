//! Lanes: each starts its next request when its last has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::task::TaskTracker;

use super::context::PhaseContext;
use super::request::{self, Due};
use crate::scenario::ClosedSpec;

/// Runs all lanes to their end.
pub(super) async fn run(phase: &PhaseContext, start: u64) {
    let Some(spec) = phase.spec.closed else { return };
    let (next, tasks) = (Arc::new(AtomicU64::new(0)), TaskTracker::new());
    for number in 0..spec.lanes {
        tasks.spawn(lane(phase.clone(), spec, number, start, Arc::clone(&next)));
    }
    tasks.close();
    tasks.wait().await;
}

async fn lane(
    phase: PhaseContext,
    spec: ClosedSpec,
    number: u32,
    start: u64,
    next: Arc<AtomicU64>,
) {
    let (end, mut sent) = (start + spec.length.micros(), 0);
    loop {
        let now = phase.context.clock.now();
        let spent = spec.per_lane > 0 && sent >= spec.per_lane;
        if phase.context.stop.is_cancelled() || spent || now >= end {
            return;
        }
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(place) = phase.context.live.begin(0) else { return };
        phase.context.live.decided();
        request::send(phase.clone(), Due { index, at: now, lane: Some(number) }, place).await;
        sent += 1;
    }
}
