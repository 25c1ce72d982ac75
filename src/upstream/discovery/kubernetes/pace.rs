//! A pause between requests to the API server.
//!
//! The watcher takes up a watch that ended without any pause, which is right for one that lasted. A
//! server that ends every watch at once, as one may that is going down, would be asked as fast as
//! the network allows.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::Service;

/// The least time from one request to the next.
const GAP: Duration = Duration::from_millis(100);

/// Lets a request through once [`GAP`] has passed since the one before; the first at once.
pub(super) struct Paced<S> {
    inner: S,
    pause: Pin<Box<Sleep>>,
}

impl<S> Paced<S> {
    /// Must be called inside a runtime.
    pub fn new(inner: S) -> Self {
        Self { inner, pause: Box::pin(sleep_until(Instant::now())) }
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
        self.pause.as_mut().reset(Instant::now() + GAP);
        self.inner.call(request)
    }
}
