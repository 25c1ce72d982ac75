//! The outcome of a check, in both forms.

use super::manifests::{Json as Manifests, ManifestReport};
use crate::config::{Config, ConfigError, ConfigErrors};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// What a check found. `Display` is the form for people.
#[derive(Clone, Debug)]
pub struct Report {
    /// The configuration; `None`: none was named.
    configuration: Option<(String, Result<Summary, ConfigErrors>)>,
    manifests: Option<ManifestReport>,
}

/// How much a valid configuration describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub tenants: usize,
    pub pools: usize,
    pub endpoints: usize,
}

impl Summary {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            tenants: config.tenants.len(),
            pools: config.pools.len(),
            endpoints: config.pools.iter().map(|pool| pool.endpoints.len()).sum(),
        }
    }
}

/// The JSON form.
#[derive(Serialize)]
struct Json<'r> {
    ok: bool,
    file: Option<&'r str>,
    errors: &'r [ConfigError],
    summary: Option<Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifests: Option<Manifests<'r>>,
}

impl Report {
    pub(super) fn new(file: &Path, outcome: Result<Summary, ConfigErrors>) -> Self {
        Self { configuration: Some((file.display().to_string(), outcome)), manifests: None }
    }

    /// No configuration was named.
    pub(super) fn of_none() -> Self {
        Self { configuration: None, manifests: None }
    }

    pub(super) fn with(self, manifests: ManifestReport) -> Self {
        Self { manifests: Some(manifests), ..self }
    }

    /// Whether nothing is wrong.
    pub fn passed(&self) -> bool {
        let valid = self.configuration.as_ref().is_none_or(|(_, outcome)| outcome.is_ok());
        valid && self.manifests.as_ref().is_none_or(ManifestReport::passed)
    }

    /// What was found in manifests, if any were checked.
    pub fn manifests(&self) -> Option<&ManifestReport> {
        self.manifests.as_ref()
    }

    /// The form for machines, indented; see the module for its shape.
    ///
    /// # Errors
    /// None that can happen with these types; `serde_json` cannot promise it.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let outcome = self.configuration.as_ref().map(|(_, outcome)| outcome);
        let errors = outcome.and_then(|outcome| outcome.as_ref().err());
        serde_json::to_string_pretty(&Json {
            ok: self.passed(),
            file: self.configuration.as_ref().map(|(file, _)| file.as_str()),
            errors: errors.map_or(&[], ConfigErrors::errors),
            summary: outcome.and_then(|outcome| outcome.as_ref().ok()).copied(),
            manifests: self.manifests.as_ref().map(ManifestReport::json),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.configuration {
            None => {}
            Some((_, Err(errors))) => write!(f, "{errors}")?,
            Some((file, Ok(Summary { tenants, pools, endpoints }))) => write!(
                f,
                "{file}: valid ({}, {}, {})",
                count(*tenants, "tenant"),
                count(*pools, "pool"),
                count(*endpoints, "endpoint")
            )?,
        }
        match &self.manifests {
            None => Ok(()),
            Some(manifests) if self.configuration.is_some() => write!(f, "\n\n{manifests}"),
            Some(manifests) => manifests.fmt(f),
        }
    }
}

/// `1 tenant`, `2 tenants`.
pub(super) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
