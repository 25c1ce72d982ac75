//! Sleeping exactly.
//!
//! A runtime's timer wheel ticks once a millisecond and rounds up, which at ten times real speed
//! is 10 ms late on average: too much for figures that must agree within 3 %. One thread with a
//! heap of deadlines and a condition variable (high-resolution timers of the kernel, about 50 µs
//! of slack) wakes sleepers instead.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Instant;

use tokio::sync::oneshot;

struct Sleeper {
    at: Instant,
    number: u64,
    wake: oneshot::Sender<()>,
}

impl PartialEq for Sleeper {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Sleeper {}

impl PartialOrd for Sleeper {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sleeper {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[derive(Default)]
struct Heap {
    sleepers: BinaryHeap<Reverse<Sleeper>>,
    next: u64,
}

struct Timer {
    heap: Mutex<Heap>,
    changed: Condvar,
    /// Whether the thread runs; without it sleepers fall back to the runtime's timer.
    started: bool,
}

static TIMER: LazyLock<&'static Timer> = LazyLock::new(|| {
    let timer: &'static Timer = Box::leak(Box::new(Timer {
        heap: Mutex::default(),
        changed: Condvar::new(),
        started: true,
    }));
    match thread::Builder::new().name("timer".into()).spawn(move || timer.run()) {
        Ok(_) => timer,
        Err(_) => Box::leak(Box::new(Timer {
            heap: Mutex::default(),
            changed: Condvar::new(),
            started: false,
        })),
    }
});

impl Timer {
    fn lock(&self) -> MutexGuard<'_, Heap> {
        self.heap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, at: Instant) -> oneshot::Receiver<()> {
        let (wake, woken) = oneshot::channel();
        let mut heap = self.lock();
        let number = heap.next;
        heap.next += 1;
        let first = heap.sleepers.peek().is_none_or(|s| at < s.0.at);
        heap.sleepers.push(Reverse(Sleeper { at, number, wake }));
        drop(heap);
        if first {
            self.changed.notify_one();
        }
        woken
    }

    fn run(&self) {
        let mut heap = self.lock();
        loop {
            let now = Instant::now();
            while heap.sleepers.peek().is_some_and(|s| s.0.at <= now) {
                if let Some(Reverse(sleeper)) = heap.sleepers.pop() {
                    // A sleeper that was dropped needs no waking.
                    let _ = sleeper.wake.send(());
                }
            }
            heap = match heap.sleepers.peek().map(|s| s.0.at) {
                None => self.changed.wait(heap).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    let waited = self.changed.wait_timeout(heap, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// Waits for a moment; see [`sleep_until`].
#[derive(Debug)]
pub struct Sleep(Kind);

#[derive(Debug)]
enum Kind {
    Past,
    Exact(oneshot::Receiver<()>),
    Coarse(Pin<Box<tokio::time::Sleep>>),
}

/// Waits until `at`, typically less than 0.1 ms late. Cancel safe. Needs a tokio runtime.
#[must_use]
pub fn sleep_until(at: Instant) -> Sleep {
    if at <= Instant::now() {
        return Sleep(Kind::Past);
    }
    if TIMER.started {
        return Sleep(Kind::Exact(TIMER.add(at)));
    }
    Sleep(Kind::Coarse(Box::pin(tokio::time::sleep_until(at.into()))))
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Kind::Past => Poll::Ready(()),
            Kind::Exact(woken) => Pin::new(woken).poll(cx).map(|_| ()),
            Kind::Coarse(sleep) => sleep.as_mut().poll(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn sleepers_wake_in_order_and_never_early() {
        let start = Instant::now();
        let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
        for ms in [30u64, 10, 20, 0] {
            let done = done.clone();
            tokio::spawn(async move {
                let at = start + Duration::from_millis(ms);
                sleep_until(at).await;
                assert!(Instant::now() >= at);
                done.send(ms).unwrap();
            });
        }
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(order.recv().await.unwrap());
        }
        assert_eq!(seen, [0, 10, 20, 30]);
    }

    #[tokio::test]
    async fn a_dropped_sleeper_does_not_hold_up_others() {
        let start = Instant::now();
        drop(sleep_until(start + Duration::from_millis(1)));
        sleep_until(start + Duration::from_millis(5)).await;
        assert!(start.elapsed() >= Duration::from_millis(5));
    }
}
