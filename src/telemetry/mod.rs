//! L1: what happened. Counts every arrival into exactly one outcome, and tells of each ended
//! request by one event that makes the log line, the metrics and the record.
//!
//! [`Telemetry`] is the facade. Counts live in one book a tenant behind one short lock, which is
//! why `arrivals = Σ outcomes + in_flight + queued` holds in every scrape and in every
//! `/api/v1/state`. Gauges of other owners are read through [`Observe`] when asked for and are
//! kept nowhere here.

mod arrival;
mod counts;
mod event;
mod exposition;
mod family;
mod instruments;
mod labels;
pub mod logging;
pub mod names;
mod records;

pub use arrival::Arrival;
pub use event::{RequestEvent, Tokens};
pub use exposition::CONTENT_TYPE;
pub use labels::{Labels, OTHER_MODEL};

use crate::core::cause::{CutCause, Selection};
use crate::core::ids::{PoolId, RequestId, TenantId};
use crate::core::ledger::Ledger;
use crate::core::observe::Observe;
use crate::core::quota::{StoreFault, StoreMeter, StoreOp};
use crate::core::reason::Reason;
use crate::core::slo::Slo;
use arc_swap::ArcSwap;
use instruments::Instruments;
use labels::Table;
use records::Records;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// What telemetry needs to know at the start.
#[derive(Clone, Debug)]
pub struct Params {
    pub labels: Labels,
    /// Its limits become bucket bounds; they stay as they are until a restart.
    pub slo: Slo,
    /// Where to append one JSON line a request (`records.path`), if anywhere.
    pub records: Option<PathBuf>,
    /// Version of the binary, for `build_info`.
    pub version: &'static str,
}

/// Why telemetry cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("the metrics cannot be registered: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("records.path {path}: {error}; give a file in a directory this process may write to")]
    Records { path: PathBuf, error: std::io::Error },
}

/// Counts, logs and records. Shared by all tasks; no method blocks for longer than a few
/// integer additions.
#[derive(Debug)]
pub struct Telemetry {
    table: ArcSwap<Table>,
    instruments: Instruments,
    records: Option<Records>,
    reload_failed: AtomicBool,
    started: SystemTime,
    version: &'static str,
}

impl Telemetry {
    /// Every series of the configured tenants exists from here on, with zeros.
    pub fn new(params: &Params) -> Result<Arc<Self>, TelemetryError> {
        let records = params.records.as_deref().map(open_records).transpose()?;
        let telemetry = Self {
            records,
            table: ArcSwap::from_pointee(Table::new(&params.labels)),
            instruments: Instruments::new(&params.slo)?,
            reload_failed: AtomicBool::new(false),
            started: SystemTime::now(),
            version: params.version,
        };
        telemetry.show_series();
        Ok(Arc::new(telemetry))
    }

    /// A configuration was put in force: its tenants and models get series of their own. Those
    /// of earlier configurations stay.
    pub fn reload(&self, labels: &Labels) {
        self.table.rcu(|table| table.extended(labels));
        self.show_series();
        self.reload_failed.store(false, Ordering::Relaxed);
    }

    /// A new configuration was refused; `config_reload_failed` is 1 until the next
    /// [`reload`](Self::reload).
    pub fn reload_refused(&self) {
        self.reload_failed.store(true, Ordering::Relaxed);
    }

    /// A request of `tenant` arrived and waits for a decision. A tenant that is not configured
    /// is counted as `unknown`.
    pub fn arrive(self: &Arc<Self>, tenant: &TenantId, request_id: RequestId) -> Arrival {
        let book = Arc::clone(self.table.load().book(tenant));
        Arrival::new(Arc::clone(self), book, request_id)
    }

    /// The arrival says that it is a retry of the client's library (`x-stainless-retry-count`
    /// above 0).
    pub fn client_retry(&self, tenant: &TenantId) {
        self.table.load().book(tenant).client_retry();
    }

    /// A request of a tenant in shadow mode would have been refused.
    pub fn shadow_rejection(&self, tenant: &TenantId, reason: Reason) {
        self.table.load().book(tenant).shadow_rejection(reason);
    }

    /// This replica ended a request before its time.
    pub fn stream_cut(&self, cause: CutCause) {
        self.instruments.stream_cut(cause);
    }

    /// An endpoint of `pool` was chosen. `pool` must be a configured one: it becomes a label.
    pub fn selected(&self, pool: &PoolId, selection: Selection) {
        self.instruments.selected(pool, selection);
    }

    /// The tenant's books at one moment (those of `unknown` if it is not configured).
    pub fn ledger(&self, tenant: &TenantId) -> Ledger {
        self.table.load().book(tenant).ledger()
    }

    /// The books of every tenant, `unknown` included, in the order of their names.
    pub fn ledgers(&self) -> Vec<(TenantId, Ledger)> {
        let table = self.table.load();
        table.books().into_iter().map(|book| (book.tenant().clone(), book.ledger())).collect()
    }

    /// All books as one. Each tenant's part is of one moment.
    pub fn total(&self) -> Ledger {
        let table = self.table.load();
        let books = table.books().into_iter();
        books.fold(Ledger::default(), |sum, book| sum.merge(&book.ledger()))
    }

    /// Every metric in Prometheus' text format ([`CONTENT_TYPE`]).
    pub fn exposition(&self, observe: &dyn Observe) -> String {
        exposition::render(self, observe)
    }

    /// Open the record file again, after a log rotation moved it away. Without one: nothing.
    pub fn reopen_records(&self) {
        if let Some(records) = &self.records {
            records.reopen();
        }
    }

    /// Write the records that were handed over and end their thread; `false` if that took longer
    /// than `limit`. To be called last, and not on a runtime's thread: it blocks.
    pub fn close(&self, limit: Duration) -> bool {
        self.records.as_ref().is_none_or(|records| records.close(limit))
    }

    fn show_series(&self) {
        let table = self.table.load();
        for book in table.books() {
            let models = book.snapshot().models;
            let names = models.keys().map(|index| table.model_name(*index).as_str());
            self.instruments.show(book.tenant().as_str(), names);
        }
    }

    /// Everything an ended request is told to, except the books.
    fn tell(&self, event: RequestEvent, model: &str) {
        self.instruments.observe(&event, event.tenant.as_str(), model);
        event.log();
        if let Some(records) = &self.records {
            records.push(event);
        }
    }

    fn reload_failed(&self) -> bool {
        self.reload_failed.load(Ordering::Relaxed)
    }

    fn records_dropped(&self) -> u64 {
        self.records.as_ref().map_or(0, Records::dropped)
    }
}

impl StoreMeter for Telemetry {
    fn operation(&self, op: StoreOp, took: Duration, fault: Option<StoreFault>) {
        self.instruments.store_operation(op, took, fault);
    }
}

fn open_records(path: &Path) -> Result<Records, TelemetryError> {
    Records::open(path).map_err(|error| TelemetryError::Records { path: path.to_owned(), error })
}
