//! Scenario files: what is run, and what should come of it.

mod check;
mod shape;
mod span;
mod types;

pub use span::Span;
pub use types::{
    Action, ActionSpec, Api, AutoscaleSpec, ClientSpec, ClosedSpec, DirectSpec, EngineProfile,
    EngineSpec, GroupSpec, HistorySpec, OpenSpec, PhaseSpec, Policy, Prepare, PromptKind,
    PromptSpec, RequestSpec, Scenario, Segment, SloSpec, Spacing, StreamgateSpec, TargetSpec,
    UrlSpec,
};

use std::path::Path;

/// A scenario that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Not YAML, or not of a scenario's shape.
    #[error("{path}: {message}")]
    Shape {
        /// Which.
        path: String,
        /// Where and what.
        message: String,
    },
    /// Well-formed but wrong.
    #[error("{path}: {} mistakes\n  {}", .mistakes.len(), .mistakes.join("\n  "))]
    Wrong {
        /// Which.
        path: String,
        /// Each with its key path.
        mistakes: Vec<String>,
    },
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ScenarioError`], with every mistake at once where the shape is right.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScenarioError::Read { path: name.clone(), source })?;
        Self::parse(&name, &text)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// As [`Scenario::read`].
    pub fn parse(name: &str, text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = match serde_saphyr::from_str(text) {
            Ok(scenario) => scenario,
            Err(first) => return Err(unfit(name, text, &first.to_string())),
        };
        let mistakes = check::mistakes(&scenario);
        if mistakes.is_empty() {
            return Ok(scenario);
        }
        Err(ScenarioError::Wrong { path: name.to_owned(), mistakes })
    }
}

/// Every mistake of a text that does not fit; the parser's own words where it is no YAML.
fn unfit(name: &str, text: &str, first: &str) -> ScenarioError {
    let path = name.to_owned();
    let mistakes = serde_saphyr::from_str(text).map(shape::mistakes).unwrap_or_default();
    if mistakes.is_empty() {
        return ScenarioError::Shape { path, message: first.to_owned() };
    }
    ScenarioError::Wrong { path, mistakes }
}
