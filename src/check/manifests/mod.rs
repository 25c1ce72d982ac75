//! Proves the shutdown budget of Kubernetes manifests.
//!
//! The way of an input: `input` (paths → texts) → `documents` (texts → values) → `objects`
//! (values → the few kinds that matter) → `rules` (objects → findings and timelines) → `report`.
//! The arithmetic is [`crate::core::budget`]; `command` reads command lines.
//!
//! Nothing ends early: what is unreadable, wrong or unknown is reported, and everything else is
//! still checked. Nothing is changed, and no cluster is asked.

mod command;
mod documents;
mod finding;
mod input;
mod objects;
mod report;
mod rules;
mod view;

pub use finding::{Finding, Level, Place};
pub use input::Unreadable;
pub use report::{ManifestReport, Timeline};

pub(in crate::check) use report::Json;

use crate::config::Config;
use finding::Scope;
use input::Inputs;
use objects::Objects;
use rules::Fallback;
use std::io::Read;
use std::path::PathBuf;

/// Check the manifests at `paths`: files, folders (`*.yaml`, `*.yml`, `*.json` below them), and
/// `stdin` for `-`. `config` is used for replicas of the ingress whose ConfigMap is not among
/// them.
pub(super) fn check(
    paths: &[PathBuf],
    stdin: &mut dyn Read,
    config: Option<&Config>,
) -> ManifestReport {
    let Inputs { texts, mut unreadable, .. } = input::read(paths, stdin);
    let scope = Scope::default();
    let mut objects = Objects::default();
    for text in &texts {
        for document in documents::documents(text) {
            match document {
                Ok(document) => objects.read(&document, &scope),
                Err(problem) => unreadable.push(problem),
            }
        }
    }
    objects.scale();
    let timelines = rules::check(&objects, &Fallback { config });
    if timelines.is_none() && unreadable.is_empty() {
        scope.error(
            "nothing-to-check",
            "",
            "no Deployment or StatefulSet with vLLM or Streamgate is among the manifests",
            "name the files or folders that hold them; `kubectl kustomize DIR | streamgate check --manifests -` renders an overlay",
        );
    }
    others(&objects, &scope);
    ManifestReport { timelines: timelines.unwrap_or_default(), findings: scope.take(), unreadable }
}

/// Kinds that run nothing, and change nothing of what is checked.
const IDLE: [&str; 19] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "Gateway",
    "HTTPRoute",
    "Ingress",
    "Namespace",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PodMonitor",
    "PriorityClass",
    "PrometheusRule",
    "Role",
    "RoleBinding",
    "Secret",
    "ServiceAccount",
    "ServiceMonitor",
    "StorageClass",
    "ResourceQuota",
];

/// What was left out, so that nobody takes it for checked.
fn others(objects: &Objects, scope: &Scope) {
    let left = objects.others.iter().filter(|(kind, _)| !IDLE.contains(&kind.as_str()));
    let kinds = left.map(|(kind, count)| format!("{count} {kind}"));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    if kinds.is_empty() {
        return;
    }
    let remedy = match objects.others.contains_key("Kustomization") {
        true => {
            "overlays and their patches take effect when they are rendered: `kubectl kustomize DIR | streamgate check --manifests -`"
        }
        false => "nothing to do if none of them runs an engine",
    };
    scope.note("other-kinds", "", format!("not looked at: {kinds}"), remedy);
}
