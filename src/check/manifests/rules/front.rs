//! Which pools of which ingress stand in front of an engine.
//!
//! A pool names its engines by a Service that selects their pods, by the pods of a StatefulSet, or
//! by the Service whose EndpointSlices it follows. An engine that no pool names (addresses, a
//! gateway, a Service that is not among the manifests) belongs to one of the pools that name no
//! engine, and nobody can tell to which.

use super::Gate;
use super::directory::Directory;
use crate::check::manifests::objects::Workload;
use crate::config::{Config, Discovery, Pool, PoolKind, Quota, Redis, RedisHost, StoreKind};
use crate::core::budget::IngressCut;
use std::collections::BTreeSet;
use std::time::Duration;

/// One ingress, as far as engines behind it are concerned.
pub(super) struct Front<'c> {
    pub config: &'c Config,
    /// Where its keys stand, for remedies.
    pub source: &'c str,
    /// `None`: it is not among the manifests.
    pub workload: Option<&'c Workload>,
}

/// What one pool does with an engine that stops.
pub(super) struct PoolCut {
    /// `pools[0].engine_shutdown_timeout`
    pub key: String,
    pub source: String,
    pub cut: IngressCut,
    /// The longest request that its ingress admits; `None`: no bound.
    pub total: Option<Duration>,
}

/// Which pools lead to which workload, by their places.
pub(super) struct Ways {
    /// For each workload the pools that name it: front, pool.
    named: Vec<Vec<(usize, usize)>>,
    /// The pools that name no engine.
    open: Vec<(usize, usize)>,
}

impl<'c> Front<'c> {
    /// `None`: its configuration is not known.
    pub fn of(gate: &'c Gate<'_>) -> Option<Self> {
        let Gate { settings, workload, .. } = gate;
        let config = settings.config()?;
        Some(Self { config, source: &settings.source, workload: Some(workload) })
    }

    /// An ingress that is not among the manifests.
    pub fn elsewhere(config: &'c Config) -> Self {
        Self { config, source: super::settings::NAMED, workload: None }
    }

    /// Where a name without a namespace is looked up; `None`: not known.
    pub fn namespace(&self) -> Option<&'c str> {
        self.workload.map(|workload| workload.id.namespace.as_str()).filter(|name| !name.is_empty())
    }

    /// What its replicas share: servers, database and key prefix. `None`: nothing.
    pub fn store(&self) -> Option<(&'c [RedisHost], u16, &'c str)> {
        let Quota { store, redis: Redis { url, key_prefix, .. }, .. } = &self.config.quota;
        (*store != StoreKind::Memory).then_some((&url.hosts, url.database, key_prefix))
    }

    pub fn pools(&self) -> impl Iterator<Item = (usize, &'c Pool)> {
        self.config.pools.iter().map(AsRef::as_ref).enumerate()
    }

    /// What a pool of it does when one of its engines stops.
    pub fn cut(&self, pool: usize) -> PoolCut {
        PoolCut {
            key: format!("pools[{pool}].engine_shutdown_timeout"),
            source: self.source.to_owned(),
            cut: IngressCut {
                believed: self.config.pools[pool].engine_shutdown_timeout,
                margin: self.config.drain.cut_margin,
            },
            total: self.config.timeouts.total,
        }
    }

    /// The workloads that a pool names.
    pub fn names(&self, pool: &Pool, directory: &Directory<'_>) -> BTreeSet<usize> {
        if let Some(Discovery::Kubernetes { namespace, service, .. }) = &pool.discovery {
            let services = directory.named(service, Some(namespace));
            return services.flat_map(|index| directory.selected(index)).copied().collect();
        }
        let listed = pool.endpoints.iter().map(|endpoint| endpoint.as_str());
        let found = pool.discovery.iter().filter_map(|discovery| match discovery {
            Discovery::Dns(name) => Some(name.as_str()),
            Discovery::Kubernetes { .. } => None,
        });
        let behind = |address: &str| directory.behind(host(address), self.namespace());
        listed.chain(found).flat_map(behind).map(|(_, workload)| workload).collect()
    }
}

/// `host:port` → `host`
pub(super) fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

impl Ways {
    /// `engines`: which workloads run one.
    pub fn of(fronts: &[Front<'_>], engines: &[bool], directory: &Directory<'_>) -> Self {
        let mut ways = Self { named: vec![Vec::new(); engines.len()], open: Vec::new() };
        for (front, pools) in fronts.iter().enumerate() {
            for (index, pool) in pools.pools() {
                let names = pools.names(pool, directory);
                let open = match pool.kind {
                    // Names of the gateway itself say nothing of the engines behind it.
                    PoolKind::Gateway => !names.iter().any(|workload| engines[*workload]),
                    PoolKind::Engines => names.is_empty(),
                };
                if open {
                    ways.open.push((front, index));
                }
                names.into_iter().for_each(|workload| ways.named[workload].push((front, index)));
            }
        }
        ways
    }

    /// The pools that a workload may be behind: those that name it, else those that name no
    /// engine. And whether they name it.
    pub fn to(&self, workload: usize) -> (&[(usize, usize)], bool) {
        match self.named(workload) {
            [] => (&self.open, false),
            named => (named, true),
        }
    }

    /// The pools that name a workload.
    pub fn named(&self, workload: usize) -> &[(usize, usize)] {
        &self.named[workload]
    }
}
