//! What all requests share: the live configuration and the parts that decide, count and connect.

use super::bodies::Bodies;
use super::connection::ConnectionLimits;
use super::engine::Engines;
use crate::admission::{AdmissionController, HoldEstimates};
use crate::config::Config;
use crate::core::ids::PoolId;
use crate::telemetry::Telemetry;
use crate::tenants::TenantRegistry;
use crate::upstream::Pools;
use arc_swap::ArcSwap;
use http::HeaderValue;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a kept-alive connection may be idle. Longer than the 60 s that load balancers in
/// front commonly use, so that they close first and never write into a closing connection.
const CLIENT_IDLE: Duration = Duration::from_secs(75);

/// What a reload replaces as a whole. A request keeps the one it began with.
#[derive(Debug)]
pub struct Live {
    pub config: Arc<Config>,
    pub tenants: TenantRegistry,
    /// `Bearer …` towards the engines of a pool that has a credential.
    credentials: HashMap<PoolId, HeaderValue>,
}

impl Live {
    /// The live form of a validated configuration.
    pub fn new(config: Arc<Config>) -> Self {
        let tenants = TenantRegistry::from(config.as_ref());
        let credentials = config.pools.iter().filter_map(|pool| {
            let credential = pool.credential.as_ref()?.expose();
            let mut value = HeaderValue::from_str(&format!("Bearer {credential}")).ok()?;
            value.set_sensitive(true);
            Some((pool.id.clone(), value))
        });
        let credentials = credentials.collect();
        Self { config, tenants, credentials }
    }

    pub(super) fn credential(&self, pool: &PoolId) -> Option<&HeaderValue> {
        self.credentials.get(pool)
    }
}

/// The parts of a gateway.
pub struct Parts {
    pub live: Live,
    pub admission: Arc<AdmissionController>,
    pub estimates: Arc<HoldEstimates>,
    pub pools: Arc<Pools>,
    pub telemetry: Arc<Telemetry>,
    pub engines: Engines,
    /// Engine connections at work at once.
    pub engine_connections: usize,
}

/// The gateway: one per process, shared by all connections.
pub struct Gateway {
    live: ArcSwap<Live>,
    pub(super) admission: Arc<AdmissionController>,
    pub(super) estimates: Arc<HoldEstimates>,
    pub(super) pools: Arc<Pools>,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) engines: Engines,
    engine_room: Arc<Semaphore>,
    pub(super) bodies: Arc<Bodies>,
}

impl Gateway {
    pub fn new(parts: Parts) -> Arc<Self> {
        Arc::new(Self {
            live: ArcSwap::from_pointee(parts.live),
            admission: parts.admission,
            estimates: parts.estimates,
            pools: parts.pools,
            telemetry: parts.telemetry,
            engines: parts.engines,
            engine_room: Arc::new(Semaphore::new(
                parts.engine_connections.min(Semaphore::MAX_PERMITS),
            )),
            bodies: Arc::default(),
        })
    }

    /// Room for one engine connection; `None`: this process has no descriptor for one.
    pub(super) fn engine_room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.engine_room).try_acquire_owned().ok()
    }

    /// Put a new configuration in force for requests that arrive from now on.
    pub fn apply(&self, live: Live) {
        self.live.store(Arc::new(live));
    }

    /// The configuration in force.
    pub fn live(&self) -> Arc<Live> {
        self.live.load_full()
    }

    /// The bounds of a new connection.
    pub fn connection_limits(&self) -> ConnectionLimits {
        let live = self.live.load();
        ConnectionLimits {
            head: live.config.timeouts.client_header,
            idle: CLIENT_IDLE,
            head_bytes: live.config.limits.header,
        }
    }
}
