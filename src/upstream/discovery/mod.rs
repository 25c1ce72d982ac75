//! Where the endpoints of a pool come from when they are not listed.
//!
//! A pool with `discovery` has one [`Finder`]: a task that follows the source and gives the pool
//! the whole list each time it changes. Guarantees, whatever the source:
//!
//! * A source that cannot be asked changes nothing: the last list stays in use. Only a list that
//!   was really given takes endpoints away, and an empty one takes all.
//! * A list is put in force whole and at once (`Pool::discovered`).
//! * It never gives up: pauses between attempts double up to [`LONGEST_PAUSE`], with jitter; the
//!   first is none.
//!   An outage is logged when it begins and when it ends.
//!
//! Dropping the finder ends the task.

mod dns;
mod kubernetes;
mod outage;
#[cfg(test)]
mod tests;

use super::keeper::resolve::Dns;
use super::pool::Pool;
use crate::config::Discovery;
use rand::Rng;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// The pause after a second failure; after a first one, such as a watch that was cut, there is none.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After so long without a failure the next one is a first one.
const FORGIVEN_AFTER: Duration = Duration::from_secs(10);

/// Owns the task that follows the source of one pool.
#[derive(Debug)]
pub(super) struct Finder {
    source: Discovery,
    _task: AbortOnDropHandle<()>,
}

impl Finder {
    /// Follow `source` for `pool`. Must be called inside a runtime.
    pub(super) fn spawn(pool: Arc<Pool>, source: Discovery) -> Self {
        let task = match &source {
            Discovery::Dns(name) => {
                tokio::spawn(dns::follow(pool, source.clone(), name.clone(), Arc::new(Dns)))
            }
            Discovery::Kubernetes { namespace, service, port } => {
                let wanted = kubernetes::Wanted {
                    source: source.clone(),
                    namespace: namespace.clone(),
                    service: service.clone(),
                    port: port.clone(),
                };
                tokio::spawn(kubernetes::Follower::new(pool, wanted).run())
            }
        };
        Self { source, _task: AbortOnDropHandle::new(task) }
    }

    /// What it follows.
    pub(super) fn source(&self) -> &Discovery {
        &self.source
    }
}

/// How long to wait after failures.
#[derive(Debug, Default)]
struct Pauses {
    failures: u32,
    last: Option<Instant>,
}

impl Pauses {
    /// One more failure; the pause before the next attempt, less up to half of it by chance.
    fn after_failure(&mut self) -> Duration {
        let now = Instant::now();
        let forgiven = self.last.is_none_or(|last| now - last > FORGIVEN_AFTER);
        self.failures = if forgiven { 1 } else { self.failures.saturating_add(1) };
        let pause = match self.failures.checked_sub(2) {
            Some(doublings) => {
                let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
                FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE)
            }
            None => Duration::ZERO,
        };
        self.last = Some(now + pause);
        pause.mul_f64(rand::rng().random_range(0.5..=1.0))
    }
}
