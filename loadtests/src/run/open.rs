//! Arrivals by schedule, whatever became of those before.

use tokio_util::task::TaskTracker;

use super::context::PhaseContext;
use super::request::{self, Due};
use crate::record::Outcome;

/// Sends every arrival of the plan at its time and waits for all to end.
///
/// The schedule is absolute. Behind it, arrivals follow at once and their lag tells; none is
/// left out and none is moved.
pub(super) async fn run(phase: &PhaseContext, start: u64) {
    let context = &phase.context;
    let bound = context.scenario.client.max_in_flight;
    let tasks = TaskTracker::new();
    for (index, offset) in phase.plan.schedule.iter().enumerate() {
        let due = Due { index: index as u64, at: start + offset, lane: None };
        tokio::select! {
            biased;
            () = context.stop.cancelled() => {}
            () = context.clock.sleep_until(due.at) => {}
        }
        if context.stop.is_cancelled() {
            request::unsent(phase, due, Outcome::Interrupted, "stopped");
            continue;
        }
        context.live.decided();
        match context.live.begin(bound) {
            Some(place) => drop(tasks.spawn(request::send(phase.clone(), due, place))),
            None => request::unsent(phase, due, Outcome::DroppedArrival, "client_in_flight"),
        }
    }
    tasks.close();
    tasks.wait().await;
}
