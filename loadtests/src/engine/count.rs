//! A number that is up while something is owned.

use std::sync::Arc;

use tokio::sync::watch;

/// A count that can be awaited.
#[derive(Debug, Clone)]
pub(crate) struct Count(Arc<watch::Sender<usize>>);

/// One unit of a [`Count`], until dropped.
#[derive(Debug)]
pub(crate) struct Counted(Count);

impl Count {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    pub(crate) fn up(&self) -> Counted {
        self.0.send_modify(|n| *n += 1);
        Counted(self.clone())
    }

    pub(crate) fn get(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until nothing is counted. Cancel safe.
    pub(crate) async fn zero(&self) {
        // The sender lives as long as self: the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|n| *n == 0).await;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.send_modify(|n| *n -= 1);
    }
}
