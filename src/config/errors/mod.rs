//! What is wrong with a configuration: all of it, in one value.
//!
//! The text form is stable: the first line counts, then two lines for each problem.
//!
//! ```text
//! streamgate.yaml: 2 errors
//!   tenants[1].max_in_flight (line 12): out of range, found 0
//!     fix: write a whole number from 1 to 1000000
//! ```

use serde::Serialize;
use std::fmt;

mod report;

pub(super) use report::{Report, join};

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigError {
    /// The key, such as `tenants[1].max_in_flight`; empty: the file as a whole.
    pub path: String,
    /// 1-based line of the key, or of the section it is missing from.
    pub line: Option<u64>,
    /// The value as written; `***` where it may be a secret; `None` if it is absent or not a
    /// single value.
    pub value: Option<String>,
    /// What is wrong.
    pub problem: String,
    /// What to write instead.
    pub remedy: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.path.is_empty() { "file" } else { &self.path })?;
        if let Some(line) = self.line {
            write!(f, " (line {line})")?;
        }
        write!(f, ": {}", self.problem)?;
        if let Some(value) = &self.value {
            write!(f, ", found {value}")?;
        }
        write!(f, "\n    fix: {}", self.remedy)
    }
}

/// Every problem of one configuration, by line. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors {
    origin: String,
    errors: Vec<ConfigError>,
}

impl ConfigErrors {
    /// The problems, in the order of their lines.
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// The same problems, of the file called `origin`.
    pub(super) fn named(self, origin: &str) -> Self {
        Self { origin: origin.to_owned(), ..self }
    }

    /// A file that could not be read.
    pub(super) fn unreadable(origin: &str, problem: String) -> Self {
        Self::of_file(None, problem, "name a readable file").named(origin)
    }

    /// A text that is not YAML.
    pub(super) fn malformed(line: Option<u64>, problem: String) -> Self {
        Self::of_file(line, problem, "correct the YAML syntax; nothing else was checked")
    }

    fn of_file(line: Option<u64>, problem: String, remedy: &str) -> Self {
        let error = ConfigError {
            path: String::new(),
            line: line.filter(|line| *line > 0),
            value: None,
            problem,
            remedy: remedy.to_owned(),
        };
        Self { origin: "configuration".to_owned(), errors: vec![error] }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.errors.len() == 1 { "" } else { "s" };
        write!(f, "{}: {} error{plural}", self.origin, self.errors.len())?;
        self.errors.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}
