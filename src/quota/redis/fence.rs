//! The watch over the own deadline: a task that does nothing else, so nothing can make it late.

use super::clock;
use super::shared::Shared;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The runtime's timers stand still while the machine is suspended and the lease does not: after
/// a resume, the deadline is noticed within this time. Well inside the abort allowance.
const LOOK: Duration = Duration::from_millis(50);

/// Fence whatever is past its deadline. Runs until it is aborted.
pub(super) async fn watch(shared: Arc<Shared>) {
    loop {
        let deadline = shared.with(|machine, now| {
            machine.watch(now);
            machine.deadline()
        });
        let left = deadline.map_or(LOOK, |deadline| deadline.saturating_sub(clock::now()));
        sleep(left.min(LOOK)).await;
    }
}
