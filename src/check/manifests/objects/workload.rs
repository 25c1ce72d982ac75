//! Deployments and StatefulSets.

use super::Id;
use super::container::Container;
use crate::check::manifests::finding::Scope;
use crate::check::manifests::view::View;
use crate::core::budget::{Amount, DEFAULT_GRACE, Rollout};
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest time that is taken for meant, seconds: a year.
pub(super) const LONGEST: u64 = 366 * 24 * 3600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) enum Kind {
    Deployment,
    StatefulSet,
}

/// How its pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) enum Strategy {
    Rolling(Rollout),
    /// All of them at once.
    Recreate,
    /// By hand.
    OnDelete,
}

/// One workload.
#[derive(Clone, Debug)]
pub(in crate::check::manifests) struct Workload {
    pub scope: Scope,
    pub id: Id,
    pub kind: Kind,
    pub path: String,
    /// `None`: not written (1, unless an autoscaler sets it) or wrong.
    pub replicas: Option<u32>,
    /// An autoscaler sets them.
    pub scaled: bool,
    /// The grace period, and whether it is written.
    pub grace: (Duration, bool),
    pub strategy: Strategy,
    /// The key path of the strategy.
    pub strategy_key: String,
    /// Labels of its pods.
    pub labels: BTreeMap<String, String>,
    pub containers: Vec<Container>,
    /// Its pods have the addresses of their nodes.
    pub host_network: bool,
    /// Volumes that come from ConfigMaps, by name.
    pub volumes: BTreeMap<String, Vec<Files>>,
}

/// A ConfigMap as the files of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) struct Files {
    pub config_map: String,
    /// File → key; empty: every key is a file of its name.
    pub items: BTreeMap<String, String>,
}

const POD: &str = "spec.template.spec";

impl Workload {
    pub fn read(view: &View<'_>, id: Id, kind: Kind) -> Self {
        let grace_key = format!("{POD}.terminationGracePeriodSeconds");
        let grace = view.whole(&grace_key, 0..=LONGEST);
        let mut containers = view.list(&format!("{POD}.containers"));
        // Those of `initContainers` that stay are sidecars; the others are gone long before.
        let stays = |one: &View<'_>| one.text("restartPolicy").as_deref() == Some("Always");
        containers.extend(view.list(&format!("{POD}.initContainers")).into_iter().filter(stays));
        if view.get(&format!("{POD}.containers")).is_none() {
            let key = join(&view.path, &format!("{POD}.containers"));
            let remedy = "write the pod template of this workload";
            view.scope.error("invalid-value", &key, "missing", remedy);
        }
        let (strategy, key) = match kind {
            Kind::Deployment => (deployment(view), "strategy"),
            Kind::StatefulSet => (stateful_set(view), "updateStrategy"),
        };
        Self {
            replicas: view
                .whole("spec.replicas", 0..=1_000_000)
                .and_then(|replicas| u32::try_from(replicas).ok()),
            scaled: false,
            grace: (grace.map_or(DEFAULT_GRACE, Duration::from_secs), grace.is_some()),
            strategy,
            strategy_key: join(&view.path, &format!("spec.{key}")),
            labels: view.map("spec.template.metadata.labels"),
            containers: containers.iter().map(Container::read).collect(),
            host_network: view.flag(&format!("{POD}.hostNetwork")),
            volumes: view.list(&format!("{POD}.volumes")).iter().filter_map(volume).collect(),
            path: view.path.clone(),
            scope: view.scope.clone(),
            kind,
            id,
        }
    }

    /// How many pods it has; `None`: an autoscaler may say so.
    pub fn pods(&self) -> Option<u32> {
        self.replicas.filter(|_| !self.scaled)
    }

    /// The path of a key of the workload.
    pub fn key(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// The path of a key of its pods.
    pub fn pod_key(&self, key: &str) -> String {
        join(&self.path, &format!("{POD}.{key}"))
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn deployment(view: &View<'_>) -> Strategy {
    match view.text("spec.strategy.type").as_deref() {
        Some("Recreate") => return Strategy::Recreate,
        Some("RollingUpdate") | None => {}
        Some(other) => unknown(view, "spec.strategy.type", other, "RollingUpdate or Recreate"),
    }
    let default = Rollout::default();
    let amount = |key: &str| view.amount(&format!("spec.strategy.rollingUpdate.{key}"));
    Strategy::Rolling(Rollout {
        surge: amount("maxSurge").unwrap_or(default.surge),
        unavailable: amount("maxUnavailable").unwrap_or(default.unavailable),
    })
}

fn stateful_set(view: &View<'_>) -> Strategy {
    match view.text("spec.updateStrategy.type").as_deref() {
        Some("OnDelete") => return Strategy::OnDelete,
        Some("RollingUpdate") | None => {}
        Some(other) => {
            unknown(view, "spec.updateStrategy.type", other, "RollingUpdate or OnDelete");
        }
    }
    let unavailable = view.amount("spec.updateStrategy.rollingUpdate.maxUnavailable");
    // One after the other; a StatefulSet never has more pods than replicas.
    Strategy::Rolling(Rollout {
        surge: Amount::Count(0),
        unavailable: unavailable.unwrap_or(Amount::Count(1)),
    })
}

fn unknown(view: &View<'_>, key: &str, found: &str, expected: &str) {
    let problem = format!("unknown, found {found:?}");
    view.scope.error("invalid-value", &join(&view.path, key), problem, format!("write {expected}"));
}

/// A volume whose files come from ConfigMaps.
fn volume(view: &View<'_>) -> Option<(String, Vec<Files>)> {
    let source = |map: &View<'_>| {
        let item = |item: &View<'_>| Some((item.text("path")?, item.text("key")?));
        let items = map.list("items").iter().filter_map(item).collect();
        Some(Files { config_map: map.text("name")?, items })
    };
    let one = view.get("configMap").and_then(|map| source(&map));
    let projected = view.get("projected").map(|all| all.list("sources")).unwrap_or_default();
    let projected = projected.iter().filter_map(|part| source(&part.get("configMap")?));
    let sources: Vec<_> = one.into_iter().chain(projected).collect();
    (!sources.is_empty()).then_some((view.text("name")?, sources))
}
