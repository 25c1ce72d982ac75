//! Places for sequences that run at once, given in order of arrival.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::QueueFull;
use crate::engine::stats::Recorder;

/// The places of an engine.
#[derive(Debug)]
pub(super) struct Seats {
    limit: Option<(u32, Arc<Semaphore>)>,
    /// Most sequences running and waiting together.
    most: Option<usize>,
    all: AtomicUsize,
    running: AtomicUsize,
    recorder: Arc<Recorder>,
}

type Waiting = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send + Sync>>;

/// The places of one request: waiting for them, or holding them.
pub(super) struct Seat {
    seats: Arc<Seats>,
    sequences: usize,
    waiting: Option<Waiting>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Seats {
    pub(super) fn new(
        max_running: Option<usize>,
        max_queued: Option<usize>,
        recorder: Arc<Recorder>,
    ) -> Arc<Self> {
        let limit = max_running.map(|n| {
            let n = u32::try_from(n.max(1)).unwrap_or(u32::MAX);
            (n, Arc::new(Semaphore::new(n as usize)))
        });
        let most = max_running.zip(max_queued).map(|(r, q)| r.saturating_add(q));
        let (all, running) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { limit, most, all, running, recorder })
    }

    /// Joins the queue.
    pub(super) fn take(self: &Arc<Self>, sequences: usize) -> Result<Seat, QueueFull> {
        let most = self.most.unwrap_or(usize::MAX);
        let room = |all: usize| all.checked_add(sequences).filter(|sum| *sum <= most);
        self.all.fetch_update(Ordering::AcqRel, Ordering::Acquire, room).map_err(|_| QueueFull)?;
        let waiting = self.limit.as_ref().map(|(limit, semaphore)| {
            // More choices than places run in turn in a real engine; here they take all places.
            let permits = u32::try_from(sequences).unwrap_or(u32::MAX).min(*limit);
            let semaphore = Arc::clone(semaphore);
            Box::pin(async move { semaphore.acquire_many_owned(permits).await.ok() }) as Waiting
        });
        if waiting.is_none() {
            self.running.fetch_add(sequences, Ordering::AcqRel);
        }
        self.recorder.touch();
        Ok(Seat { seats: Arc::clone(self), sequences, waiting, _permit: None })
    }

    /// Running, and waiting.
    pub(super) fn load(&self) -> (usize, usize) {
        let running = self.running.load(Ordering::Acquire);
        (running, self.all.load(Ordering::Acquire).saturating_sub(running))
    }
}

impl Seat {
    /// Waits for the places. `true` if they were not held before. Cancel safe.
    pub(super) async fn ready(&mut self) -> bool {
        let Some(waiting) = &mut self.waiting else { return false };
        self._permit = waiting.await;
        self.waiting = None;
        self.seats.running.fetch_add(self.sequences, Ordering::AcqRel);
        self.seats.recorder.touch();
        true
    }

    /// Whether the places are held.
    pub(super) fn held(&self) -> bool {
        self.waiting.is_none()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.held() {
            self.seats.running.fetch_sub(self.sequences, Ordering::AcqRel);
        }
        self.seats.all.fetch_sub(self.sequences, Ordering::AcqRel);
        self.seats.recorder.touch();
    }
}
