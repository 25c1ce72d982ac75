//! The port to the drain of this replica. The owner of the state machine implements it; the
//! admin API and the signal handlers call it.

use super::observe::DrainPhase;
use futures::future::BoxFuture;
use std::time::Duration;

/// How waiting for a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainWait {
    /// Every request ended by itself; the process may be stopped at once.
    Drained,
    /// The wait ran out, or the drain's own deadline cut what was left. `in_flight` is what was
    /// still running at the end of the wait (or at the moment of the cut).
    TimedOut { in_flight: u64 },
}

/// Begins a drain and waits for it.
pub trait DrainPort: Send + Sync {
    /// Begin the drain; a drain that has begun goes on unchanged. Never blocks. When this
    /// returns, [`phase`](Self::phase) is no longer [`DrainPhase::Serving`]: readiness must turn
    /// before the caller is told anything.
    fn begin(&self);

    /// Wait at most `limit` (from this call) for the end of the drain. Does not begin one.
    /// Cancel-safe: dropping the future stops the waiting, never the drain.
    fn wait(&self, limit: Duration) -> BoxFuture<'static, DrainWait>;

    /// Where the drain is now.
    fn phase(&self) -> DrainPhase;
}
