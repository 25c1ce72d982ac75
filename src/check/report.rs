//! The outcome of a check, in both forms.

use crate::config::{Config, ConfigError, ConfigErrors};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// What a check found. `Display` is the form for people.
#[derive(Clone, Debug)]
pub struct Report {
    file: String,
    outcome: Result<Summary, ConfigErrors>,
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
    file: &'r str,
    errors: &'r [ConfigError],
    summary: Option<Summary>,
}

impl Report {
    pub(super) fn new(file: &Path, outcome: Result<Summary, ConfigErrors>) -> Self {
        Self { file: file.display().to_string(), outcome }
    }

    /// Whether nothing is wrong.
    pub fn passed(&self) -> bool {
        self.outcome.is_ok()
    }

    /// The form for machines, indented; see the module for its shape.
    ///
    /// # Errors
    /// None that can happen with these types; `serde_json` cannot promise it.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&Json {
            ok: self.passed(),
            file: &self.file,
            errors: self.outcome.as_ref().err().map_or(&[], ConfigErrors::errors),
            summary: self.outcome.as_ref().ok().copied(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Err(errors) => write!(f, "{errors}"),
            Ok(Summary { tenants, pools, endpoints }) => write!(
                f,
                "{}: valid ({}, {}, {})",
                self.file,
                count(*tenants, "tenant"),
                count(*pools, "pool"),
                count(*endpoints, "endpoint")
            ),
        }
    }
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
