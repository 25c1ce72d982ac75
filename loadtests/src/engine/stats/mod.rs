//! What an engine records about itself, readable while it runs.
//!
//! Concurrency is owned: [`InFlight`] counts a request up when its head is parsed and down when
//! the last owner drops it, which is when its generation has ended or the scheduler has
//! processed its abort. It always goes down before the last byte of the answer is written, so
//! that a client which starts the next request on seeing the end is never counted twice.

mod in_flight;
mod requests;
mod snapshot;

pub(crate) use in_flight::InFlight;
pub use requests::RecordedRequest;
pub(crate) use requests::{KEPT_BODY, RequestId};
pub use snapshot::{AbortRecord, StatsSnapshot, TenantStats};

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::sync::watch;

use crate::sync::lock;
use requests::RequestLog;

/// Aborts kept.
const ABORTS: usize = 1000;

/// Everything recorded. Shared by all connections of an engine and kept across its restarts.
#[derive(Debug)]
pub(crate) struct Recorder {
    inner: Mutex<Inner>,
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    stats: StatsSnapshot,
    aborts: VecDeque<AbortRecord>,
    requests: RequestLog,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { inner: Mutex::new(Inner::default()), version: watch::Sender::new(0) }
    }

    /// Changes the record and wakes those who wait on it.
    fn change<R>(&self, change: impl FnOnce(&mut Inner) -> R) -> R {
        let result = change(&mut lock(&self.inner));
        self.touch();
        result
    }

    /// Wakes those who wait on a condition, after a change elsewhere.
    pub(crate) fn touch(&self) {
        self.version.send_modify(|v| *v = v.wrapping_add(1));
    }

    /// Counts changes; marked changed at every one.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub(crate) fn status(&self, id: RequestId, status: u16, generation: bool) {
        self.change(|i| {
            let stats = &mut i.stats;
            let by = if generation { &mut stats.by_status } else { &mut stats.other_by_status };
            *by.entry(status).or_default() += 1;
            i.requests.update(id, |r| r.status = Some(status));
        });
    }

    pub(crate) fn tokens(&self, tenant: &str, tokens: u64) {
        self.change(|i| {
            i.stats.tokens_generated += tokens;
            i.stats.tenant(tenant).tokens_generated += tokens;
        });
    }

    /// A generation answered to its regular end.
    pub(crate) fn completed(&self, tenant: &str) {
        self.change(|i| {
            i.stats.completed += 1;
            i.stats.tenant(tenant).completed += 1;
        });
    }

    pub(crate) fn connection_opened(&self) {
        self.change(|i| i.stats.connections += 1);
    }

    pub(crate) fn request(&self, request: RecordedRequest) -> RequestId {
        self.change(|i| i.requests.push(request))
    }

    pub(crate) fn update_request(&self, id: RequestId, f: impl FnOnce(&mut RecordedRequest)) {
        self.change(|i| i.requests.update(id, f));
    }

    pub(crate) fn snapshot(&self) -> StatsSnapshot {
        lock(&self.inner).stats.clone()
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.inner).requests.all()
    }

    pub(crate) fn aborts(&self) -> Vec<AbortRecord> {
        lock(&self.inner).aborts.iter().cloned().collect()
    }

    /// Starts afresh; what is in flight stays counted.
    pub(crate) fn reset(&self) {
        self.change(|i| {
            i.stats = i.stats.restarted();
            i.aborts.clear();
            i.requests.clear();
        });
    }
}
