//! Everything counted of one tenant, behind one short lock, so that a scrape sees one moment.

use super::event::RequestEvent;
use crate::core::ids::TenantId;
use crate::core::ledger::{Ledger, Stage};
use crate::core::outcome::Outcome;
use crate::core::reason::Reason;
use crate::core::sync;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Position of a model's label in [`super::labels::Table`].
pub type ModelIndex = usize;

/// Kinds of tokens, in the order of [`ModelCounts::tokens`].
pub const TOKEN_KINDS: [&str; 3] = ["prompt", "completion", "cached"];

/// Counts of one tenant. `Σ models.outcomes = ledger.outcomes`.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub ledger: Ledger,
    pub rejections: [u64; Reason::ALL.len()],
    pub shadow_rejections: [u64; Reason::ALL.len()],
    pub client_retries: u64,
    /// Models the tenant is configured for or was seen with.
    pub models: BTreeMap<ModelIndex, ModelCounts>,
}

/// Counts of one tenant's requests for one model.
#[derive(Clone, Debug, Default)]
pub struct ModelCounts {
    pub outcomes: [u64; Outcome::ALL.len()],
    pub good: u64,
    pub tokens: [u64; TOKEN_KINDS.len()],
}

/// What one ended request adds; copied out of its event, which then moves on to the record file.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    model: ModelIndex,
    outcome: Outcome,
    reason: Option<Reason>,
    good: bool,
    tokens: [u64; TOKEN_KINDS.len()],
}

impl Tally {
    pub fn of(event: &RequestEvent, model: ModelIndex) -> Self {
        let tokens = [event.tokens.prompt, event.tokens.completion, event.tokens.cached];
        Self {
            model,
            outcome: event.outcome,
            reason: event.reason,
            good: event.good == Some(true),
            tokens: tokens.map(Option::unwrap_or_default),
        }
    }
}

/// The owner of one tenant's counts.
#[derive(Debug)]
pub struct Book {
    tenant: TenantId,
    counts: Mutex<Counts>,
}

impl Book {
    pub fn new(tenant: TenantId) -> Self {
        Self { tenant, counts: Mutex::default() }
    }

    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Show the model's series from now on, with zeros until it is used.
    pub fn register(&self, models: impl IntoIterator<Item = ModelIndex>) {
        let mut counts = self.lock();
        for model in models {
            counts.models.entry(model).or_default();
        }
    }

    pub fn arrive(&self) -> Stage {
        self.lock().ledger.arrive()
    }

    pub fn admit(&self, stage: Stage) -> Stage {
        self.lock().ledger.admit(stage)
    }

    pub fn end(&self, stage: Stage, tally: Tally) {
        let mut counts = self.lock();
        counts.ledger.end(stage, tally.outcome);
        if let Some(reason) = tally.reason {
            counts.rejections[reason as usize] += 1;
        }
        let model = counts.models.entry(tally.model).or_default();
        model.outcomes[tally.outcome.index()] += 1;
        model.good += u64::from(tally.good);
        for (total, more) in model.tokens.iter_mut().zip(tally.tokens) {
            *total = total.saturating_add(more);
        }
    }

    pub fn shadow_rejection(&self, reason: Reason) {
        self.lock().shadow_rejections[reason as usize] += 1;
    }

    pub fn client_retry(&self) {
        self.lock().client_retries += 1;
    }

    pub fn ledger(&self) -> Ledger {
        self.lock().ledger
    }

    /// Everything, as of one moment.
    pub fn snapshot(&self) -> Counts {
        self.lock().clone()
    }

    /// The critical sections only add integers; after a panic in one the counts are still sound.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        sync::lock(&self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_counted_where_the_scrape_reads_it() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index, "{reason}");
        }
    }
}
