//! The guard of one arrival: counted when made, counted out when it goes, whatever happens.

use super::Telemetry;
use super::counts::{Book, Tally};
use super::event::RequestEvent;
use crate::core::ids::{RequestId, TenantId};
use crate::core::ledger::Stage;
use crate::core::outcome::Outcome;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// One request from its arrival to its end. Ends in exactly one outcome and exactly one event:
/// [`finish`](Self::finish) says which; dropped without it (a panic, a cancelled task) it ends
/// as its fallback, `failed` unless [`set_fallback`](Self::set_fallback) said otherwise.
///
/// The books are changed last, after log and record were handed over: once a tenant's
/// `in_flight` is zero, every ended request has been told.
#[derive(Debug)]
#[must_use = "dropping an arrival counts it as failed"]
pub struct Arrival {
    telemetry: Arc<Telemetry>,
    book: Arc<Book>,
    request_id: RequestId,
    started: Instant,
    stage: Stage,
    fallback: Outcome,
    /// Not yet told by [`Arrival::close`].
    open: bool,
}

impl Arrival {
    pub(super) fn new(telemetry: Arc<Telemetry>, book: Arc<Book>, request_id: RequestId) -> Self {
        let stage = book.arrive();
        let (started, fallback) = (Instant::now(), Outcome::Failed);
        Self { telemetry, book, request_id, started, stage, fallback, open: true }
    }

    /// The tenant's label: as configured, or `unknown`.
    pub fn tenant(&self) -> &TenantId {
        self.book.tenant()
    }

    /// Time since the arrival.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The request was admitted: it moves from `queued` to `in_flight`.
    pub fn admitted(&mut self) {
        self.stage = self.book.admit(self.stage);
    }

    /// The outcome if this guard is dropped unfinished, for instance `client_cancelled` while
    /// the task belongs to the client's connection and is dropped with it.
    pub fn set_fallback(&mut self, outcome: Outcome) {
        self.fallback = outcome;
    }

    /// An event of this request, to be filled in and given to [`finish`](Self::finish).
    pub fn event(&self, outcome: Outcome) -> RequestEvent {
        RequestEvent::new(self.request_id.clone(), self.book.tenant().clone(), outcome)
    }

    /// The request ended: count it, log it, record it.
    pub fn finish(mut self, event: RequestEvent) {
        self.close(event);
    }

    fn close(&mut self, mut event: RequestEvent) {
        self.open = false;
        let table = self.telemetry.table.load();
        let model = table.model(event.model.as_ref());
        event.seal(table.model_name(model).clone(), SystemTime::now(), self.started.elapsed());
        // Counted by a drop, so that not even a panic below leaves the books open.
        let _entry = Entry { book: &self.book, stage: self.stage, tally: Tally::of(&event, model) };
        self.telemetry.tell(event, table.model_name(model).as_str());
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if self.open {
            self.close(self.event(self.fallback));
        }
    }
}

/// Closes the books of one arrival.
struct Entry<'a> {
    book: &'a Book,
    stage: Stage,
    tally: Tally,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.book.end(self.stage, self.tally);
    }
}
