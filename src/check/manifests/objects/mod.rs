//! The kinds of Kubernetes that carry a budget, reduced to what the rules look at.

mod container;
mod guard;
mod policy;
mod probe;
mod selector;
mod workload;

pub(super) use container::{Container, PreStop};
pub(super) use guard::{ConfigMap, DisruptionBudget, Service, ServicePort};
pub(super) use policy::NetworkPolicy;
pub(super) use probe::{Handler, Port, Probe};
pub(super) use workload::{Files, Kind, Strategy, Workload};

use super::documents::Document;
use super::finding::Scope;
use super::view::View;
use std::collections::{BTreeMap, HashSet};

/// Everything of one input that matters.
#[derive(Default)]
pub(super) struct Objects {
    pub workloads: Vec<Workload>,
    pub budgets: Vec<DisruptionBudget>,
    pub policies: Vec<NetworkPolicy>,
    pub services: Vec<Service>,
    pub config_maps: Vec<ConfigMap>,
    /// What autoscalers set the replicas of: namespace, kind, name.
    scaled: HashSet<(String, String, String)>,
    /// How many objects of kinds that are not looked at, by kind.
    pub others: BTreeMap<String, usize>,
}

impl Objects {
    /// Read a document: an object, or a list of them.
    pub fn read(&mut self, document: &Document, scope: &Scope) {
        let scope = scope.document(&document.label);
        self.object(&View::new(&document.value, String::new(), scope), 0);
    }

    fn object(&mut self, view: &View<'_>, depth: usize) {
        if !view.value().is_object() {
            let remedy = "write an object with apiVersion, kind and metadata";
            view.scope.error("invalid-value", &view.path, "not an object of Kubernetes", remedy);
            return;
        }
        if view.get("kind").is_none() && view.get("apiVersion").is_none() {
            // Values of a chart, settings of a tool: folders hold more than manifests.
            *self.others.entry("document without kind".to_owned()).or_default() += 1;
            return;
        }
        let Some(kind) = view.text("kind") else {
            if view.get("kind").is_none() {
                view.scope.error("invalid-value", &view.key("kind"), "missing", "write its kind");
            }
            return;
        };
        // A List inside a List is legal and rare; a deep pile of them is neither.
        if kind.ends_with("List") && view.get("items").is_some() && depth < 4 {
            view.list("items").iter().for_each(|item| self.object(item, depth + 1));
            return;
        }
        let name = view.text("metadata.name").unwrap_or_else(|| "(unnamed)".to_owned());
        let namespace = view.text("metadata.namespace").unwrap_or_default();
        let label = match namespace.as_str() {
            "" => format!("{kind} {name}"),
            namespace => format!("{kind} {namespace}/{name}"),
        };
        let view = &view.scoped(view.scope.object(&label));
        let id = Id { namespace, name };
        match kind.as_str() {
            "Deployment" => self.workloads.push(Workload::read(view, id, Kind::Deployment)),
            "StatefulSet" => self.workloads.push(Workload::read(view, id, Kind::StatefulSet)),
            "PodDisruptionBudget" => self.budgets.push(DisruptionBudget::read(view, id)),
            "NetworkPolicy" => self.policies.push(NetworkPolicy::read(view, id)),
            "Service" => self.services.push(Service::read(view, id)),
            "ConfigMap" => self.config_maps.push(ConfigMap::read(view, id)),
            // One of Kubernetes, one of KEDA.
            "HorizontalPodAutoscaler" | "ScaledObject" => self.scales(view, id),
            _ => *self.others.entry(kind).or_default() += 1,
        }
    }
}

impl Objects {
    fn scales(&mut self, view: &View<'_>, id: Id) {
        let target = view.get("spec.scaleTargetRef");
        let Some(name) = target.as_ref().and_then(|target| target.text("name")) else { return };
        let kind = target.and_then(|target| target.text("kind"));
        let kind = kind.unwrap_or_else(|| "Deployment".to_owned());
        self.scaled.insert((id.namespace, kind, name));
    }

    /// Tell the workloads that an autoscaler sets their replicas. Once everything is read.
    pub fn scale(&mut self) {
        for workload in &mut self.workloads {
            let Id { namespace, name } = workload.id.clone();
            let kind = format!("{:?}", workload.kind);
            workload.scaled = self.scaled.contains(&(namespace, kind, name));
        }
    }
}

/// What an object is called. No namespace is one of its own: where it will be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Id {
    pub namespace: String,
    pub name: String,
}
