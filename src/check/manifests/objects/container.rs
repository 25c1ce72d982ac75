//! A container.

use super::probe::{Handler, Probe};
use crate::check::manifests::command::{MOST, Vars, expand, mark};
use crate::check::manifests::finding::Scope;
use crate::check::manifests::view::View;
use std::collections::BTreeMap;
use std::time::Duration;

/// One container of a workload.
#[derive(Clone, Debug)]
pub(in crate::check::manifests) struct Container {
    pub scope: Scope,
    /// Its key path.
    pub path: String,
    pub image: Option<String>,
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub vars: Vars,
    /// Every variable's text, with `$(field.path)` where the pod's own fields stand and `$(?)` for
    /// what is not in the manifests.
    pub shapes: Vars,
    /// Every variable's text, with a mark where a variable stands whose value is not known.
    pub marked: Vars,
    /// There are more variables, from ConfigMaps or Secrets.
    pub env_from: bool,
    pub pre_stop: Option<PreStop>,
    /// The signal that is sent instead of SIGTERM.
    pub stop_signal: Option<String>,
    pub liveness: Option<Probe>,
    pub readiness: Option<Probe>,
    /// Container ports by name.
    pub ports: BTreeMap<String, u64>,
    /// `(volume, mount path, sub path)`.
    pub mounts: Vec<(String, String, Option<String>)>,
    /// Devices it asks for, such as GPUs, by resource name.
    pub devices: Vec<String>,
}

/// A preStop hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) enum PreStop {
    Sleep(Duration),
    Handler(Handler),
}

impl Container {
    pub fn read(view: &View<'_>) -> Self {
        let name = view.text("name").unwrap_or_else(|| "(unnamed)".to_owned());
        let view = view.scoped(view.scope.container(&name));
        let port = |port: &View<'_>| {
            let number = port.whole("containerPort", 1..=65535)?;
            Some((port.text("name")?, number))
        };
        let mount = |mount: &View<'_>| {
            Some((mount.text("name")?, mount.text("mountPath")?, mount.text("subPath")))
        };
        let devices = ["resources.limits", "resources.requests"];
        let devices = devices.iter().filter_map(|key| view.get(key)?.value().as_object());
        let devices = devices.flat_map(serde_json::Map::keys).filter(|name| name.contains('/'));
        let mut devices: Vec<String> = devices.cloned().collect();
        devices.sort();
        devices.dedup();
        let [vars, shapes, marked] = vars(&view);
        Self {
            image: view.text("image"),
            command: view.texts("command"),
            args: view.texts("args"),
            vars,
            shapes,
            marked,
            env_from: view.get("envFrom").is_some(),
            pre_stop: view.get("lifecycle.preStop").map(|hook| PreStop::read(&hook)),
            stop_signal: view
                .text("lifecycle.stopSignal")
                .filter(|signal| !signal.eq_ignore_ascii_case("SIGTERM")),
            liveness: Probe::read(&view, "livenessProbe"),
            readiness: Probe::read(&view, "readinessProbe"),
            ports: view.list("ports").iter().filter_map(port).collect(),
            mounts: view.list("volumeMounts").iter().filter_map(mount).collect(),
            devices,
            path: view.path.clone(),
            scope: view.scope,
        }
    }

    /// One with nothing but a name and an image.
    #[cfg(test)]
    pub fn bare(name: &str, image: Option<&str>) -> Self {
        let value = serde_json::json!({"name": name, "image": image});
        Self::read(&View::new(&value, String::new(), Scope::default()))
    }

    /// The path of a key in here.
    pub fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }
}

/// Literal variables, later ones may refer to earlier ones; the rest is known by name only, and so
/// is what is more than Linux takes. And the shapes of all of them, and their texts with marks.
fn vars(view: &View<'_>) -> [Vars; 3] {
    let [mut vars, mut shapes, mut marked] = [Vars::new(), Vars::new(), Vars::new()];
    let mut left = 3 * MOST;
    for variable in view.list("env") {
        let Some(name) = variable.text("name") else { continue };
        let (value, shape, text) = match variable.get("valueFrom") {
            Some(from) => {
                let field = from.get("fieldRef").and_then(|field| field.text("fieldPath"));
                (None, format!("$({})", field.as_deref().unwrap_or("?")), mark(&name))
            }
            None => {
                let text = variable.text("value").unwrap_or_default();
                let word = expand(&text, &vars);
                let others = [expand(&text, &shapes), expand(&text, &marked)];
                let long = word.text.len() + others.iter().map(|o| o.text.len()).sum::<usize>();
                left = left.saturating_sub(long);
                let fits = left > 0 && others.iter().all(|other| other.unknown.is_none());
                let [shape, text] = others.map(|other| other.text);
                match fits {
                    true => (word.unknown.is_none().then_some(word.text), shape, text),
                    false => (None, "$(?)".to_owned(), mark(&name)),
                }
            }
        };
        vars.insert(name.clone(), value);
        shapes.insert(name.clone(), Some(shape));
        marked.insert(name, Some(text));
    }
    [vars, shapes, marked]
}

impl PreStop {
    fn read(view: &View<'_>) -> Self {
        match view.get("sleep") {
            Some(sleep) => {
                let seconds = sleep.whole("seconds", 0..=super::workload::LONGEST).unwrap_or(0);
                Self::Sleep(Duration::from_secs(seconds))
            }
            None => Self::Handler(Handler::read(view)),
        }
    }
}
