//! The port from the drain to what it drains. Admission implements it; the lifecycle calls it.

use futures::future::BoxFuture;

/// The requests of this process, as a drain sees them.
pub trait Traffic: Send + Sync {
    /// Admit nobody any more and answer everyone who waits. What runs, runs on. When this
    /// returns, [`in_flight`](Self::in_flight) can only fall.
    fn close(&self);

    /// Tell every running request to end now; how many there were. Does not wait for their ends.
    fn cut(&self) -> u64;

    /// Resolves when no request runs and nobody is left to be answered; after
    /// [`close`](Self::close) it stays so. Cancel-safe.
    fn idle(&self) -> BoxFuture<'static, ()>;

    /// Admitted requests that have not ended.
    fn in_flight(&self) -> u64;
}
