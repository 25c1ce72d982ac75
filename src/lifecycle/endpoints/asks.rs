//! Restorations of endpoints that drain nowhere, as far as is known here: the board is asked first.

use super::Settled;
use crate::core::ids::EndpointId;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How long a restoration waits for the board, to hear what drains and to have it told.
pub(super) const TOLD: Duration = Duration::from_secs(1);

/// One restoration.
pub(super) struct Ask {
    pub endpoint: EndpointId,
    /// When it was called for.
    pub at: Instant,
    done: oneshot::Sender<Settled>,
    /// An exchange began after the call: only its answer, or a later one, is news enough.
    sent: bool,
}

impl Ask {
    pub fn until(&self) -> Instant {
        self.at + TOLD
    }

    pub fn settle(self, settled: Settled) {
        // Whoever asked may have left.
        let _ = self.done.send(settled);
    }
}

/// Those that wait.
#[derive(Default)]
pub(super) struct Asks(Vec<Ask>);

impl Asks {
    pub fn push(&mut self, endpoint: EndpointId, at: Instant, done: oneshot::Sender<Settled>) {
        self.0.push(Ask { endpoint, at, done, sent: false });
    }

    /// An exchange begins.
    pub fn send(&mut self) {
        self.0.iter_mut().for_each(|ask| ask.sent = true);
    }

    pub fn are_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether an exchange must begin.
    pub fn are_unsent(&self) -> bool {
        self.0.iter().any(|ask| !ask.sent)
    }

    /// When the first is over.
    pub fn next(&self) -> Option<Instant> {
        self.0.iter().map(Ask::until).min()
    }

    /// The exchange was answered, and `put_back` says whether an endpoint drained by that answer.
    /// That it does not counts only for those who asked before the exchange.
    pub fn answered(
        &mut self,
        mut put_back: impl FnMut(&EndpointId) -> bool,
    ) -> Vec<(Ask, Settled)> {
        let mut settled = Vec::new();
        for ask in std::mem::take(&mut self.0) {
            if put_back(&ask.endpoint) {
                settled.push((ask, Settled::PutBack));
            } else if ask.sent {
                settled.push((ask, Settled::NotDrained));
            } else {
                self.0.push(ask);
            }
        }
        settled
    }

    /// Take out those whose waiting `ends`.
    pub fn take(&mut self, ends: impl Fn(&Ask) -> bool) -> Vec<Ask> {
        let (over, left) = std::mem::take(&mut self.0).into_iter().partition(ends);
        self.0 = left;
        over
    }
}
