//! L1: what was asked for. A YAML file becomes a [`Config`], or a [`ConfigErrors`] that names
//! **every** problem at once, each with its key path, line, value and remedy.
//!
//! The way of a file:
//!
//! 1. `yaml`: text → a tree of positioned, untyped values. Only broken YAML ends the way here.
//! 2. `raw`: tree → typed sections that mirror the file, read field by field with `read`. Unknown
//!    and duplicate keys, wrong types and values out of range are collected, not thrown: a
//!    derived `Deserialize` would stop at the first of them.
//! 3. `unsupported`: keys of the format that this version does not serve yet are refused when
//!    they ask for something, never ignored.
//! 4. `rules`: what only several values together can tell (a tenant no pool serves, timeouts
//!    that contradict each other). A rule stays silent where one of its values is already in
//!    error, so one mistake is one error.
//! 5. `build`: raw → [`Config`], only when nothing was reported.
//!
//! `config/streamgate.yaml` is the reference of all keys, their units and defaults; a test
//! compares it with the code.

mod boot_clock;
mod build;
mod errors;
mod model;
mod outside;
mod raw;
mod read;
mod redis_url;
mod revision;
mod rules;
mod secret;
mod unsupported;
mod yaml;

pub use self::boot_clock::since_boot;
pub use self::redis_url::{RedisForm, RedisHost, RedisUrl};
pub use errors::{ConfigError, ConfigErrors};
pub use model::*;
pub use read::kind::is_label;
pub use secret::{KeyHash, Secret};

use crate::core::policy::Revision;
use errors::Report;
use outside::{Elsewhere, Outside, Process};
use std::path::Path;
use std::str::FromStr;

impl Config {
    /// Read and validate the file at `path`. Blocks on file reads (this file, and the TLS and
    /// credential files it names), so call it off the async threads when reloading.
    ///
    /// Relative paths inside the file are relative to the working directory of the process.
    ///
    /// # Errors
    /// Every problem of the file; a single error without a key path if it cannot be read.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        Self::load_with(path, &Process)
    }

    /// [`Config::load`] as [`Config::parse_elsewhere`] reads a text.
    ///
    /// # Errors
    /// As those two.
    pub fn load_elsewhere(path: &Path) -> Result<Self, ConfigErrors> {
        Self::load_with(path, &Elsewhere)
    }

    fn load_with(path: &Path, outside: &dyn Outside) -> Result<Self, ConfigErrors> {
        let origin = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            ConfigErrors::unreadable(&origin, format!("cannot read the file: {error}"))
        })?;
        Self::parse(&text, revision::of(path), outside).map_err(|errors| errors.named(&origin))
    }

    /// Validate `text` as the configuration of a process on another machine: the files and
    /// environment variables that it names are taken to be in order. The result holds none of
    /// their contents, so it is good for looking at and not for serving.
    ///
    /// # Errors
    /// Every problem of the text itself.
    pub fn parse_elsewhere(text: &str) -> Result<Self, ConfigErrors> {
        Self::parse(text, Revision::FIRST, &Elsewhere)
    }

    fn parse(text: &str, revision: Revision, outside: &dyn Outside) -> Result<Self, ConfigErrors> {
        let tree = yaml::parse(text)?;
        let report = Report::new(&tree);
        let raw = raw::read(&tree, &report);
        unsupported::refuse(&tree, &report);
        rules::check(&raw, &report);
        let config = build::build(raw, revision, &report, outside);
        report.finish(config)
    }
}

impl FromStr for Config {
    type Err = ConfigErrors;

    /// Validate `text`. Files and environment variables it names are read.
    fn from_str(text: &str) -> Result<Self, ConfigErrors> {
        Self::parse(text, Revision::FIRST, &Process)
    }
}

#[cfg(test)]
mod tests;
