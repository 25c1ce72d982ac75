//! What the log says about the store. A state is told when it begins, not each time it is met.

use super::link::Fault;
use crate::core::quota::StoreFault;
use crate::core::sync::lock;
use crate::quota::replica::{Class, Notice};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// The same fault is told again after so long.
const AGAIN: Duration = Duration::from_secs(30);

/// Tells faults and what becomes of this replica.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// The address, without credentials.
    server: String,
    key: String,
    told: Mutex<HashMap<StoreFault, Instant>>,
}

impl Journal {
    pub fn new(server: String, key: String) -> Self {
        Self { server, key, told: Mutex::default() }
    }

    /// An operation failed.
    pub fn fault(&self, operation: &'static str, fault: &Fault) {
        {
            let mut told = lock(&self.told);
            if told.get(&fault.fault).is_some_and(|at| at.elapsed() < AGAIN) {
                return;
            }
            told.insert(fault.fault, Instant::now());
        }
        let (server, key, remedy) = (&self.server, &self.key, fault.remedy());
        let (kind, error) = (fault.fault.as_str(), &fault.text);
        if fault.fault.needs_operator() {
            tracing::error!(operation, fault = kind, %error, %server, %key, remedy, "quota store");
        } else {
            tracing::warn!(operation, fault = kind, %error, %server, %key, remedy, "quota store");
        }
    }

    /// An exchange with the drain board failed.
    pub fn board(&self, fault: &Fault) {
        self.fault("drain", fault);
    }

    /// What failed works again: the next fault is told at once.
    pub fn forget(&self) {
        lock(&self.told).clear();
    }

    /// Hints cannot be heard; what that `costs`.
    pub fn deaf(&self, fault: &Fault, costs: &str) {
        let (server, error) = (&self.server, &fault.text);
        let remedy = format!("grant the user +subscribe and the channel: without hints, {costs}");
        tracing::warn!(%error, %server, channel = self.key, remedy, "quota store: no subscription");
    }

    /// Something became of this replica.
    pub fn notice(&self, notice: Notice) {
        let server = &self.server;
        match notice {
            Notice::Fenced { class, running, cut } if running > 0 => {
                let class = name(class);
                tracing::error!(
                    class, running, cut, %server,
                    "quota lease ran out: the store does not count these requests any more"
                );
            }
            Notice::Fenced { class, .. } => {
                tracing::warn!(class = name(class), %server, "quota lease ran out");
            }
            Notice::Joined { class, claimed, learning } => {
                let (class, learning) = (name(class), learning.as_secs_f64());
                tracing::info!(class, claimed, learning_seconds = learning, %server, "joined the quota store");
            }
            Notice::MemoryLost { class } => tracing::warn!(
                class = name(class), %server,
                "quota store lost its memory: asserting what is held, nothing new for one lease"
            ),
            Notice::Away(fault) => {
                tracing::warn!(fault = fault.as_str(), %server, "quota store is away");
            }
            Notice::Back => {
                lock(&self.told).clear();
                tracing::info!(%server, "quota store answers again");
            }
        }
    }
}

fn name(class: Class) -> &'static str {
    match class {
        Class::Ordinary => "ordinary",
        Class::Floor => "floor",
    }
}
