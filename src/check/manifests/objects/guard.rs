//! What stands beside workloads: disruption budgets, services, configuration.

use super::selector::Selector;
use super::{Id, Port};
use crate::check::manifests::finding::Scope;
use crate::check::manifests::view::View;
use crate::core::budget::Disruption;
use std::collections::BTreeMap;

/// A PodDisruptionBudget.
#[derive(Clone, Debug)]
pub(in crate::check::manifests) struct DisruptionBudget {
    pub scope: Scope,
    pub id: Id,
    pub selector: Selector,
    /// What it allows, and the key path that says so.
    pub allows: Option<(Disruption, String)>,
    pub selector_key: String,
}

impl DisruptionBudget {
    pub fn read(view: &View<'_>, id: Id) -> Self {
        let least = view.amount("spec.minAvailable").map(Disruption::MinAvailable);
        let most = view.amount("spec.maxUnavailable").map(Disruption::MaxUnavailable);
        let path = |key: &str| match view.path.as_str() {
            "" => format!("spec.{key}"),
            path => format!("{path}.spec.{key}"),
        };
        let allows = match (least, most) {
            (Some(_), Some(_)) => {
                let remedy = "write one of the two";
                let problem = "both minAvailable and maxUnavailable are written";
                view.scope.error("invalid-value", &path("maxUnavailable"), problem, remedy);
                None
            }
            (Some(least), None) => Some((least, path("minAvailable"))),
            (None, most) => most.map(|most| (most, path("maxUnavailable"))),
        };
        Self {
            selector: Selector::labels(view, "spec.selector"),
            selector_key: path("selector"),
            scope: view.scope.clone(),
            allows,
            id,
        }
    }
}

/// A Service.
#[derive(Clone, Debug)]
pub(in crate::check::manifests) struct Service {
    pub scope: Scope,
    pub id: Id,
    pub path: String,
    pub selector: Selector,
    /// Each pod has a name and an address of its own.
    pub headless: bool,
    /// Its address, if it is written.
    pub address: Option<String>,
    /// The name that it stands for instead of pods.
    pub external: Option<String>,
    /// A load balancer of a cloud leads to it.
    pub balanced: bool,
    pub publishes_not_ready: bool,
    pub ports: Vec<ServicePort>,
}

/// A port of a Service.
#[derive(Clone, Debug)]
pub(in crate::check::manifests) struct ServicePort {
    pub name: Option<String>,
    pub number: Option<u64>,
    /// Where pods listen.
    pub target: Port,
    /// The key path of the target.
    pub key: String,
}

impl Service {
    pub fn read(view: &View<'_>, id: Id) -> Self {
        let port = |port: &View<'_>| {
            let key = if port.get("targetPort").is_some() { "targetPort" } else { "port" };
            let target = Port::read(port, key)?;
            let number = port.whole("port", 1..=65535);
            Some(ServicePort { name: port.text("name"), number, target, key: port.key(key) })
        };
        let address = view.text("spec.clusterIP");
        Self {
            selector: Selector::plain(view, "spec.selector"),
            headless: address.as_deref() == Some("None"),
            external: view.text("spec.externalName"),
            balanced: view.text("spec.type").as_deref() == Some("LoadBalancer"),
            address,
            publishes_not_ready: view.flag("spec.publishNotReadyAddresses"),
            ports: view.list("spec.ports").iter().filter_map(port).collect(),
            path: view.path.clone(),
            scope: view.scope.clone(),
            id,
        }
    }
}

/// A ConfigMap.
#[derive(Clone, Debug)]
pub(in crate::check::manifests) struct ConfigMap {
    pub scope: Scope,
    pub id: Id,
    pub path: String,
    pub data: BTreeMap<String, String>,
}

impl ConfigMap {
    pub fn read(view: &View<'_>, id: Id) -> Self {
        Self { data: view.map("data"), path: view.path.clone(), scope: view.scope.clone(), id }
    }
}
