//! Wires the parts of one process from one configuration.

use super::observer::Observer;
use crate::admission::{AdmissionController, HoldEstimates, Holders};
use crate::config::Config;
use crate::core::ids::ModelName;
use crate::core::policy::ModelSet;
use crate::core::quota::QuotaStore;
use crate::lifecycle::Lifecycle;
use crate::proxy::{EngineTimeouts, Engines, Gateway, Live, Parts};
use crate::quota::memory::MemoryStore;
use crate::telemetry::{Labels, Params, Telemetry, TelemetryError};
use crate::upstream::Pools;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::Instant;

/// The version of this binary.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Idle engine connections kept over all engines.
const ENGINE_POOL: usize = 1024;

/// A process that can serve.
#[derive(Clone)]
pub(super) struct Process {
    pub config: Arc<Config>,
    pub gateway: Arc<Gateway>,
    pub telemetry: Arc<Telemetry>,
    pub admission: Arc<AdmissionController>,
    pub holders: Arc<Holders>,
    pub pools: Arc<Pools>,
    pub store: Arc<dyn QuotaStore>,
}

impl Process {
    /// Build everything; nothing listens yet.
    ///
    /// # Errors
    /// The record file cannot be opened.
    pub fn new(config: Arc<Config>) -> Result<Self, TelemetryError> {
        let telemetry = Telemetry::new(&Params {
            labels: labels(&config),
            slo: config.slo,
            records: config.records.path.clone(),
            version: VERSION,
        })?;
        let store: Arc<dyn QuotaStore> = Arc::new(MemoryStore::new());
        let holders = Holders::new();
        let estimates = Arc::new(HoldEstimates::default());
        let admission =
            Arc::new(AdmissionController::new(store.clone(), estimates.clone(), holders.clone()));
        let pools = Arc::new(Pools::new(config.pools.iter()));
        let gateway = Gateway::new(Parts {
            live: Live::new(config.clone()),
            admission: admission.clone(),
            estimates,
            pools: pools.clone(),
            telemetry: telemetry.clone(),
            engines: Engines::new(engine_timeouts(&config), ENGINE_POOL),
        });
        Ok(Self { config, gateway, telemetry, admission, holders, pools, store })
    }

    /// The process as an operator sees it.
    pub fn observer(&self, lifecycle: Lifecycle) -> Observer {
        Observer {
            gateway: self.gateway.clone(),
            telemetry: self.telemetry.clone(),
            holders: self.holders.clone(),
            store: self.store.clone(),
            pools: self.pools.clone(),
            lifecycle,
            started: Instant::now(),
        }
    }
}

fn engine_timeouts(config: &Config) -> EngineTimeouts {
    EngineTimeouts { connect: config.timeouts.connect, pool_idle: config.timeouts.upstream_idle }
}

/// The labels that a configuration makes room for.
pub(super) fn labels(config: &Config) -> Labels {
    let tenants = config.tenants.iter().map(|tenant| &tenant.policy);
    let sets = tenants.clone().map(|policy| &policy.models);
    let sets = sets.chain(config.pools.iter().map(|pool| &pool.models));
    let models: BTreeSet<ModelName> = sets
        .filter_map(|set| match set {
            ModelSet::Any => None,
            ModelSet::Only(names) => Some(names.clone()),
        })
        .flatten()
        .collect();
    Labels {
        tenants: tenants.map(|policy| (policy.id.clone(), policy.models.clone())).collect(),
        models: models.into_iter().collect(),
    }
}
