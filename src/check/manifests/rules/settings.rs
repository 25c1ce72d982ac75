//! The configuration that a container of the ingress runs with: the file of a ConfigMap that is
//! mounted where `--config` points, or else the one named on the command line of this check, or
//! else the defaults.

use crate::check::manifests::command::IngressCommand;
use crate::check::manifests::objects::{ConfigMap, Container, Files, Objects, Workload};
use crate::config::{Config, Drain, Timeouts};
use std::net::SocketAddr;

/// Where the keys of a configuration of the command line stand.
pub(super) const NAMED: &str = "the configuration named by --config";

/// What is used where the manifests hold no configuration.
#[derive(Clone, Copy)]
pub(in crate::check::manifests) struct Fallback<'c> {
    /// The file that was named on the command line, if it is valid.
    pub config: Option<&'c Config>,
}

impl Fallback<'_> {
    pub fn timeouts(&self) -> Timeouts {
        self.config.map_or_else(Timeouts::default, |config| config.timeouts)
    }
}

/// The configuration of one container, and where its keys stand.
pub(super) struct Settings {
    /// `None`: the defaults.
    config: Option<Config>,
    /// The key path of the file, for remedies.
    pub source: String,
    /// It could not be read as far as the rules need it.
    pub broken: bool,
}

impl Settings {
    pub fn find(
        workload: &Workload,
        container: &Container,
        command: &IngressCommand,
        objects: &Objects,
        fallback: &Fallback<'_>,
    ) -> Self {
        let path = command.config.as_deref();
        if let Some((map, key)) = path.and_then(|path| mounted(path, workload, container, objects))
        {
            return Self::of_map(map, key);
        }
        if let Some(config) = fallback.config {
            let source = NAMED.to_owned();
            return Self { config: Some(config.clone()), source, broken: false };
        }
        if let Some(path) = path {
            container.scope.error(
                "ingress-config-elsewhere",
                &container.key("args"),
                format!("its configuration {path:?} is in none of the ConfigMaps here, so nothing is proven of it"),
                "add the ConfigMap to what is checked, or name the file with --config",
            );
            return Self { config: None, source: "the configuration".to_owned(), broken: true };
        }
        container.scope.note(
            "ingress-config-assumed",
            &container.key("args"),
            "its configuration is in none of the ConfigMaps here; the defaults are assumed",
            "add the ConfigMap to what is checked, or name the file with --config",
        );
        Self { config: None, source: "the configuration".to_owned(), broken: false }
    }

    fn of_map(map: &ConfigMap, key: &str) -> Self {
        let file = format!("data[{key:?}]");
        let file = if map.path.is_empty() { file } else { format!("{}.{file}", map.path) };
        let text = map.data.get(key).map(String::as_str).unwrap_or_default();
        match Config::parse_elsewhere(text) {
            Ok(config) => Self {
                config: Some(config),
                source: map.scope.place().object.as_deref().unwrap_or("the ConfigMap").to_owned(),
                broken: false,
            },
            Err(errors) => {
                for error in errors.errors() {
                    let at = if error.path.is_empty() { "" } else { ": " };
                    let line =
                        error.line.map_or_else(String::new, |line| format!(" (line {line})"));
                    let key = format!("{file}{at}{}{line}", error.path);
                    let found = error.value.as_ref().map(|value| format!(", found {value}"));
                    let problem = format!("{}{}", error.problem, found.unwrap_or_default());
                    map.scope.error("ingress-config", &key, problem, &error.remedy);
                }
                Self { config: None, source: file, broken: true }
            }
        }
    }

    /// `None`: not known; the defaults hold where one is needed.
    pub fn config(&self) -> Option<&Config> {
        self.config.as_ref()
    }

    pub fn drain(&self) -> Drain {
        self.config.as_ref().map_or_else(Drain::default, |config| config.drain)
    }

    pub fn timeouts(&self) -> Timeouts {
        self.config.as_ref().map_or_else(Timeouts::default, |config| config.timeouts)
    }

    pub fn admin(&self) -> SocketAddr {
        let default = crate::config::Listen::default;
        self.config.as_ref().map_or_else(|| default().admin, |config| config.listen.admin)
    }

    /// Whether a caller from elsewhere may change something if it has the token.
    pub fn has_token(&self) -> bool {
        self.config.as_ref().is_some_and(|config| config.admin.token_file.is_some())
    }

    /// Whether every replica counts for itself.
    pub fn counts_alone(&self) -> bool {
        let memory = crate::config::StoreKind::Memory;
        self.config.as_ref().is_none_or(|config| config.quota.store == memory)
    }
}

/// The ConfigMap and the key in it that the container sees as the file at `path`.
fn mounted<'o, 'k>(
    path: &'k str,
    workload: &'k Workload,
    container: &'k Container,
    objects: &'o Objects,
) -> Option<(&'o ConfigMap, &'k str)> {
    container.mounts.iter().find_map(|(volume, mount, sub)| {
        let below = path.strip_prefix(mount.trim_end_matches('/'))?;
        let file = match (below.strip_prefix('/'), sub) {
            (Some(file), None) => file,
            (None, Some(sub)) if below.is_empty() => sub.as_str(),
            _ => return None,
        };
        workload.volumes.get(volume)?.iter().find_map(|Files { config_map, items }| {
            let key = if items.is_empty() { file } else { items.get(file)?.as_str() };
            let fits = |map: &&ConfigMap| {
                map.id.namespace == workload.id.namespace
                    && map.id.name == *config_map
                    && map.data.contains_key(key)
            };
            objects.config_maps.iter().find(fits).map(|map| (map, key))
        })
    })
}
