//! The collector. It knows the tree, so whoever reports names only the key path; line and value
//! are looked up, and secrets are masked, in this one place.

use super::{ConfigError, ConfigErrors};
use crate::config::Config;
use crate::config::yaml::{Node, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Keys whose values are never shown: they are secrets, or where one is easily written by mistake.
const SECRET: [&str; 5] = [
    "tenants[].api_keys",
    "tenants[].api_keys[]",
    "pools[].api_key_env",
    "quota.redis.url",
    "quota.redis.password_env",
];

/// Longest value that is shown, in characters.
const SHOWN: usize = 80;

/// Collects problems while a tree is read and checked.
pub(in crate::config) struct Report<'t> {
    tree: &'t Node,
    errors: RefCell<Vec<ConfigError>>,
    /// Keys that are absent because they were mistyped; reported under what was typed.
    suspects: RefCell<Vec<String>>,
    /// Every key the reader asked for, as patterns.
    schema: RefCell<BTreeSet<String>>,
}

impl<'t> Report<'t> {
    pub fn new(tree: &'t Node) -> Self {
        Self {
            tree,
            errors: RefCell::default(),
            suspects: RefCell::default(),
            schema: RefCell::default(),
        }
    }

    /// `path` has a problem of its own.
    pub fn wrong(&self, path: &str, problem: impl Into<String>, remedy: impl Into<String>) {
        let found = self.tree.find(path).map(|(node, _)| node);
        self.push(ConfigError {
            path: path.to_owned(),
            line: Some(self.tree.nearest_line(path)).filter(|line| *line > 0),
            value: found.and_then(|node| shown(path, &node.value)),
            problem: problem.into(),
            remedy: remedy.into(),
        });
    }

    /// `path` contradicts the values at `others`. Silent if any of them is already in error:
    /// what is known to be wrong contradicts anything.
    pub fn contradiction(
        &self,
        path: &str,
        others: &[&str],
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        if !self.in_error(path) && !others.iter().any(|other| self.in_error(other)) {
            self.wrong(path, problem, remedy);
        }
    }

    /// The key `key` of the section at `path` is given twice or never heard of. Its value is not
    /// shown: who mistypes a key's name may have mistyped that of a secret.
    pub fn key(&self, path: &str, key: &str, line: u64, problem: String, remedy: String) {
        let key = if looks_secret(key) { "***" } else { key };
        let path = join(path, &shorten(key.to_owned()));
        let line = Some(line).filter(|line| *line > 0);
        self.push(ConfigError { path, line, value: None, problem, remedy });
    }

    /// The section at `path` knows these keys.
    pub fn schema(&self, path: &str, keys: &[&str]) {
        let path = pattern(path);
        self.schema.borrow_mut().extend(keys.iter().map(|key| join(&path, key)));
    }

    /// `path` is absent by mistake, which has been reported under another name.
    pub fn suspect(&self, path: &str) {
        self.suspects.borrow_mut().push(path.to_owned());
    }

    /// Whether nothing can be concluded from `path`: it, something in it, or something around it
    /// has been reported.
    pub fn in_error(&self, path: &str) -> bool {
        let related = |other: &str| within(other, path) || within(path, other);
        self.errors.borrow().iter().any(|error| related(&error.path))
            || self.suspects.borrow().iter().any(|suspect| related(suspect))
    }

    /// Whether `path` is in the file and not null.
    pub fn written(&self, path: &str) -> bool {
        self.tree.find(path).is_some_and(|(node, _)| !matches!(node.value, Value::Null))
    }

    /// The keys that were read so far, as patterns such as `tenants[].queue.max_wait`.
    #[cfg(test)]
    pub fn keys(&self) -> BTreeSet<String> {
        self.schema.borrow().clone()
    }

    /// `config`, unless something was reported.
    pub fn finish(self, config: Config) -> Result<Config, ConfigErrors> {
        let mut errors = self.errors.into_inner();
        if errors.is_empty() {
            return Ok(config);
        }
        errors.sort_by_key(|error| error.line);
        Err(ConfigErrors { origin: "configuration".to_owned(), errors })
    }

    fn push(&self, error: ConfigError) {
        self.errors.borrow_mut().push(error);
    }
}

/// The value as it may be shown.
fn shown(path: &str, value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::List(_) | Value::Map(_) => None,
        _ if SECRET.contains(&pattern(path).as_str()) => Some("***".to_owned()),
        Value::Text(text) if looks_secret(text) => Some("***".to_owned()),
        scalar => Some(shorten(scalar.to_string())),
    }
}

/// The path of `key` in the section at `path`.
pub(in crate::config) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// `tenants[3].api_keys[0]` → `tenants[].api_keys[]`.
fn pattern(path: &str) -> String {
    path.split_inclusive('[')
        .map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()))
        .collect()
}

/// A key, token or password that was pasted under the wrong name.
fn looks_secret(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.starts_with("sg-")
        || lower.starts_with("sk-")
        || lower.starts_with("bearer ")
        || lower.split_once("://").is_some_and(|(_, rest)| rest.contains('@'))
}

/// Whether `path` is `outer` or lies inside it.
fn within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('['))
}

fn shorten(text: String) -> String {
    if text.chars().count() <= SHOWN {
        return text;
    }
    text.chars().take(SHOWN).chain("…".chars()).collect()
}
