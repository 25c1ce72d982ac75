//! A limit on requests to the API server.
//!
//! The watcher takes up a watch that ended without any pause, which is right for one that lasted. A
//! server that ends every watch at once, as one may that is going down, would be asked as fast as
//! the network allows. What a mishap needs (a watch again, a list, a watch from its version) is
//! asked at once all the same: a change of the endpoints waits for it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::Service;

/// The time from one request to the next, where they come without end.
const GAP: Duration = Duration::from_millis(100);
/// Requests that may come at once: a list and a watch at the start, and the three of a mishap.
const BURST: u32 = 5;

/// Lets [`BURST`] requests through at once, and one more for each [`GAP`] that has passed.
pub(super) struct Paced<S> {
    inner: S,
    /// When all of the burst is there again.
    full: Instant,
    pause: Pin<Box<Sleep>>,
}

impl<S> Paced<S> {
    /// Must be called inside a runtime.
    pub fn new(inner: S) -> Self {
        let now = Instant::now();
        Self { inner, full: now, pause: Box::pin(sleep_until(now)) }
    }
}

impl<S: Service<R>, R> Service<R> for Paced<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        ready!(self.pause.as_mut().poll(cx));
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.full = self.full.max(Instant::now()) + GAP;
        // The next one costs a gap, and the burst holds so many.
        let next = self.full + GAP - GAP * BURST;
        self.pause.as_mut().reset(next);
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::future::{Ready, poll_fn};

    struct Counted;

    impl Service<()> for Counted {
        type Response = Instant;
        type Error = Infallible;
        type Future = Ready<Result<Instant, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            std::future::ready(Ok(Instant::now()))
        }
    }

    async fn ask(paced: &mut Paced<Counted>) -> Instant {
        poll_fn(|cx| paced.poll_ready(cx)).await.unwrap();
        paced.call(()).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_come_at_once_and_no_flood() {
        let mut paced = Paced::new(Counted);
        let start = Instant::now();
        let mut times = Vec::new();
        for _ in 0..8 {
            times.push((ask(&mut paced).await - start).as_millis());
        }
        assert_eq!(times, [0, 0, 0, 0, 0, 100, 200, 300]);
        // Two gaps later there are two more, and after a long time the whole burst.
        tokio::time::advance(GAP * 2).await;
        let start = Instant::now();
        for expected in [0, 0, 100] {
            assert_eq!((ask(&mut paced).await - start).as_millis(), expected);
        }
        tokio::time::advance(Duration::from_secs(30)).await;
        let start = Instant::now();
        for expected in [0, 0, 0, 0, 0, 100] {
            assert_eq!((ask(&mut paced).await - start).as_millis(), expected);
        }
    }
}
