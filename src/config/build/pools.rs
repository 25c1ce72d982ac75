//! One pool.

use super::files::Files;
use super::model_set;
use crate::config::model::{Discovery, Pool};
use crate::config::raw::{RawDiscovery, RawPool};
use crate::config::read::At;
use crate::config::secret::Secret;
use crate::core::ids::{EndpointId, PoolId};

pub(super) fn build(pool: At<RawPool>, files: &Files<'_>) -> Pool {
    let At { path, value: raw } = pool;
    Pool {
        credential: credential(&path, &raw, files),
        id: PoolId::from(raw.name),
        models: model_set(raw.models),
        endpoints: raw.endpoints.into_iter().map(|at| EndpointId::from(at.value)).collect(),
        discovery: raw.discovery.and_then(discovery),
        kind: raw.kind,
        strategy: raw.strategy.unwrap_or_default(),
        max_in_flight: cap(raw.max_in_flight),
        max_in_flight_per_endpoint: cap(raw.max_in_flight_per_endpoint),
        health: raw.health,
        retries: raw.retries,
        engine_shutdown_timeout: Some(raw.engine_shutdown_timeout).filter(|t| !t.is_zero()),
    }
}

fn cap(written: u32) -> Option<u32> {
    (written > 0).then_some(written)
}

fn credential(path: &str, raw: &RawPool, files: &Files<'_>) -> Option<Secret> {
    match (&raw.api_key_env, &raw.api_key_file) {
        (Some(name), _) => files.variable(&format!("{path}.api_key_env"), name),
        (None, Some(file)) => files.secret(&format!("{path}.api_key_file"), file),
        (None, None) => None,
    }
}

fn discovery(raw: RawDiscovery) -> Option<Discovery> {
    let kubernetes = raw.kubernetes.and_then(|(namespace, service, port)| {
        Some(Discovery::Kubernetes { namespace, service, port: port? })
    });
    raw.dns.map(Discovery::Dns).or(kubernetes)
}
