//! Wires the parts of one process from one configuration.

use super::descriptors::Descriptors;
use super::engines::EngineSide;
use super::observer::Observer;
use super::store::Store;
use crate::admission::{AdmissionController, HoldEstimates, Holders};
use crate::config::Config;
use crate::core::ids::ModelName;
use crate::core::policy::ModelSet;
use crate::lifecycle::{EndpointDrainHandle, Lifecycle};
use crate::proxy::{EngineTimeouts, Engines, Gateway, Live, Parts};
use crate::telemetry::{Labels, Params, Telemetry, TelemetryError};
use crate::upstream::Pools;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::Instant;

/// The version of this binary.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A process that can serve.
#[derive(Clone)]
pub(super) struct Process {
    pub config: Arc<Config>,
    pub gateway: Arc<Gateway>,
    pub telemetry: Arc<Telemetry>,
    pub admission: Arc<AdmissionController>,
    pub holders: Arc<Holders>,
    pub pools: Arc<Pools>,
    pub store: Store,
    pub descriptors: Descriptors,
}

impl Process {
    /// Build everything; nothing listens yet. Must be called inside a runtime.
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
        let holders = Holders::new();
        let store = Store::new(&config.quota, &telemetry, &holders);
        let estimates = Arc::new(HoldEstimates::default());
        let admission =
            Arc::new(AdmissionController::new(store.port(), estimates.clone(), holders.clone()));
        let pools = Arc::new(Pools::new(config.pools.iter()));
        let endpoints = config.pools.iter().map(|pool| pool.endpoints.len()).sum();
        let descriptors = Descriptors::of_process(endpoints);
        let gateway = Gateway::new(Parts {
            live: Live::new(config.clone()),
            admission: admission.clone(),
            estimates,
            pools: pools.clone(),
            telemetry: telemetry.clone(),
            engines: Engines::new(engine_timeouts(&config), descriptors.idle),
            engine_connections: descriptors.engines,
        });
        Ok(Self { config, gateway, telemetry, admission, holders, pools, store, descriptors })
    }

    /// Follow what all replicas say of engine endpoints. Must be called inside a runtime.
    pub fn endpoint_drains(&self) -> EndpointDrainHandle {
        let side = EngineSide { pools: self.pools.clone(), holders: self.holders.clone() };
        let board = self.store.board(&self.config.quota, &self.telemetry);
        let name = format!("{:032x}", rand::random::<u128>());
        EndpointDrainHandle::start(&name, self.config.drain.cut_margin, Arc::new(side), board)
    }

    /// The process as an operator sees it.
    pub fn observer(&self, lifecycle: Lifecycle) -> Observer {
        Observer {
            gateway: self.gateway.clone(),
            telemetry: self.telemetry.clone(),
            holders: self.holders.clone(),
            store: self.store.port(),
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
