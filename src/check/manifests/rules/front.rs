//! Which pools of which ingress stand in front of an engine.
//!
//! A pool names its engines by a Service that selects their pods, by the pods of a StatefulSet, or
//! by the Service whose EndpointSlices it follows. An engine that no pool names (addresses, a
//! gateway, a Service that is not among the manifests) belongs to one of the pools that name no
//! engine, and nobody can tell to which.

use super::settings::Settings;
use crate::check::manifests::objects::{Kind, Objects, Service, Workload};
use crate::config::{Config, Discovery, Pool};
use crate::core::budget::IngressCut;
use std::time::Duration;

/// One ingress, as far as engines behind it are concerned.
pub(super) struct Front<'c> {
    config: &'c Config,
    /// Where its keys stand, for remedies.
    source: &'c str,
    /// Where a name without a namespace is looked up; `None`: not known.
    namespace: Option<&'c str>,
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

impl<'c> Front<'c> {
    /// `None`: its configuration is not known.
    pub fn of(settings: &'c Settings, workload: &'c Workload) -> Option<Self> {
        let namespace = Some(workload.id.namespace.as_str()).filter(|name| !name.is_empty());
        Some(Self { config: settings.config()?, source: &settings.source, namespace })
    }

    /// An ingress that is not among the manifests.
    pub fn elsewhere(config: &'c Config) -> Self {
        Self { config, source: super::settings::NAMED, namespace: None }
    }

    /// The pools that `engine` may be behind, with their places, and whether they name it.
    /// `engines`: all of them.
    pub fn pools(
        &self,
        engine: &Workload,
        engines: &[&Workload],
        objects: &Objects,
    ) -> (Vec<(usize, &Pool)>, bool) {
        let names = |pool: &Pool, engine: &Workload| self.names(pool, engine, objects);
        let pools = || self.config.pools.iter().map(AsRef::as_ref).enumerate();
        let named: Vec<_> = pools().filter(|(_, pool)| names(pool, engine)).collect();
        if !named.is_empty() {
            return (named, true);
        }
        let open = |pool: &Pool| !engines.iter().any(|engine| names(pool, engine));
        (pools().filter(|(_, pool)| open(pool)).collect(), false)
    }

    /// What a pool of it does when one of its engines stops.
    pub fn cut(&self, (index, pool): (usize, &Pool)) -> PoolCut {
        PoolCut {
            key: format!("pools[{index}].engine_shutdown_timeout"),
            source: self.source.to_owned(),
            cut: IngressCut {
                believed: pool.engine_shutdown_timeout,
                margin: self.config.drain.cut_margin,
            },
            total: self.config.timeouts.total,
        }
    }

    fn names(&self, pool: &Pool, engine: &Workload, objects: &Objects) -> bool {
        let fronts = |service: &&Service| {
            service.id.namespace == engine.id.namespace && service.selector.matches(&engine.labels)
        };
        objects.services.iter().filter(fronts).any(|service| {
            let name = service.id.name.as_str();
            if let Some(Discovery::Kubernetes { namespace, service, .. }) = &pool.discovery {
                return service == name && agrees(namespace, &engine.id.namespace);
            }
            let listed = pool.endpoints.iter().map(|endpoint| endpoint.as_str());
            let found = pool.discovery.iter().filter_map(|discovery| match discovery {
                Discovery::Dns(name) => Some(name.as_str()),
                Discovery::Kubernetes { .. } => None,
            });
            listed.chain(found).any(|address| self.leads_to(address, name, engine))
        })
    }

    /// Whether `address` (`host:port`) is the service `name`, or one pod of a StatefulSet in it.
    fn leads_to(&self, address: &str, name: &str, engine: &Workload) -> bool {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let labels: Vec<&str> = host.split('.').collect();
        let pod = engine.kind == Kind::StatefulSet
            && labels[0]
                .strip_prefix(engine.id.name.as_str())
                .and_then(|rest| rest.strip_prefix('-'))
                .is_some_and(|ordinal| ordinal.parse::<u32>().is_ok());
        let service = &labels[usize::from(pod && labels.len() > 1)..];
        let namespace = service.get(1).copied().or(self.namespace);
        service[0] == name
            && namespace.is_none_or(|namespace| agrees(namespace, &engine.id.namespace))
    }
}

/// Whether a namespace is the one of an object, which may not say its own.
fn agrees(namespace: &str, object: &str) -> bool {
    object.is_empty() || namespace == object
}
