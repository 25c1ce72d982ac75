//! One request in flight, counted while it is owned.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::snapshot::StatsSnapshot;
use super::{ABORTS, AbortRecord, Recorder};
use crate::sync::lock;

/// Counts one generation request in total and, once known, for its tenant.
#[derive(Debug)]
pub(crate) struct InFlight {
    recorder: Arc<Recorder>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    tenant: Option<String>,
    tokens: u64,
    /// When the client was seen to be gone.
    abort: Option<Instant>,
}

impl InFlight {
    pub(crate) fn new(recorder: Arc<Recorder>) -> Self {
        recorder.change(|i| {
            let stats = &mut i.stats;
            stats.requests += 1;
            stats.in_flight += 1;
            stats.max_in_flight = stats.max_in_flight.max(stats.in_flight);
        });
        Self { recorder, state: Mutex::default() }
    }

    /// Counts the request for its tenant too, from now on. Only the first call counts.
    pub(crate) fn assign(&self, tenant: &str) {
        let mut state = lock(&self.state);
        if state.tenant.is_some() {
            return;
        }
        self.recorder.change(|i| {
            let stats = i.stats.tenant(tenant);
            stats.requests += 1;
            stats.in_flight += 1;
            stats.max_in_flight = stats.max_in_flight.max(stats.in_flight);
        });
        state.tenant = Some(tenant.to_owned());
    }

    /// Counts generated tokens.
    pub(crate) fn tokens(&self, tokens: u64) {
        let mut state = lock(&self.state);
        state.tokens += tokens;
        self.recorder.tokens(state.tenant.as_deref().unwrap_or_default(), tokens);
    }

    /// The client was seen to be gone at `seen`. Recorded as an abort when the last owner drops.
    pub(crate) fn abort(&self, seen: Instant) {
        lock(&self.state).abort.get_or_insert(seen);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let state = std::mem::take(&mut *lock(&self.state));
        self.recorder.change(|i| {
            i.stats.in_flight -= 1;
            if let Some(tenant) = &state.tenant {
                i.stats.tenant(tenant).in_flight -= 1;
            }
            if let Some(seen) = state.abort {
                let record = AbortRecord {
                    tenant: state.tenant.clone().unwrap_or_default(),
                    queued: state.tokens == 0,
                    tokens: state.tokens,
                    seen,
                    latency: seen.elapsed(),
                };
                count_abort(&mut i.stats, &record, state.tenant.is_some());
                i.aborts.push_back(record);
                if i.aborts.len() > ABORTS {
                    i.aborts.pop_front();
                }
            }
        });
    }
}

fn count_abort(stats: &mut StatsSnapshot, record: &AbortRecord, tenant_known: bool) {
    let millis = record.latency.as_secs_f64() * 1e3;
    stats.aborts += 1;
    stats.abort_latency_max_ms = stats.abort_latency_max_ms.max(millis);
    if tenant_known {
        let tenant = stats.tenant(&record.tenant);
        tenant.aborts += 1;
        tenant.abort_latency_max_ms = tenant.abort_latency_max_ms.max(millis);
    }
}
