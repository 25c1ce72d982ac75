//! What is wrong, and where.

use serde::Serialize;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Streams or requests break, or nothing can be proven. The check fails.
    Error,
    /// Worth a change, but no running stream breaks by it.
    Warning,
    /// What was assumed, or what it costs.
    Note,
}

/// Where something stands. Parts that do not apply are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Place {
    /// The input and which of its documents, with its first line.
    pub document: Option<Rc<str>>,
    /// `Deployment llm/vllm`
    pub object: Option<Rc<str>>,
    pub container: Option<Rc<str>>,
    /// The key path inside the document; empty: the whole of it.
    pub key: String,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Finding {
    pub level: Level,
    /// A fixed word for each kind; `docs/rolling-updates.md` lists them.
    pub code: &'static str,
    #[serde(flatten)]
    pub place: Place,
    /// With its numbers.
    pub problem: String,
    /// What to change.
    pub remedy: String,
}

/// Where findings go, and from where they are reported. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    place: Place,
    /// Each with its place in the order of the reports. A value that two rules look at is wrong
    /// once.
    sink: Rc<RefCell<HashMap<Finding, usize>>>,
}

impl Scope {
    pub fn document(&self, label: &str) -> Self {
        let place = Place { document: Some(label.into()), ..Place::default() };
        Self { place, sink: Rc::clone(&self.sink) }
    }

    pub fn object(&self, label: &str) -> Self {
        let place = Place { object: Some(label.into()), ..self.place.clone() };
        Self { place, sink: Rc::clone(&self.sink) }
    }

    pub fn container(&self, name: &str) -> Self {
        let place = Place { container: Some(name.into()), ..self.place.clone() };
        Self { place, sink: Rc::clone(&self.sink) }
    }

    /// Where this is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    pub fn error(
        &self,
        code: &'static str,
        key: &str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.report(Level::Error, code, key, problem.into(), remedy.into());
    }

    pub fn warning(
        &self,
        code: &'static str,
        key: &str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.report(Level::Warning, code, key, problem.into(), remedy.into());
    }

    pub fn note(
        &self,
        code: &'static str,
        key: &str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.report(Level::Note, code, key, problem.into(), remedy.into());
    }

    pub fn report(
        &self,
        level: Level,
        code: &'static str,
        key: &str,
        problem: String,
        remedy: String,
    ) {
        let place = Place { key: key.to_owned(), ..self.place.clone() };
        let finding = Finding { level, code, place, problem, remedy };
        let mut sink = self.sink.borrow_mut();
        let next = sink.len();
        sink.entry(finding).or_insert(next);
    }

    /// Everything that was reported, the gravest first, otherwise in the order of the input.
    pub fn take(&self) -> Vec<Finding> {
        let mut findings: Vec<_> = self.sink.take().into_iter().collect();
        findings.sort_by_key(|(finding, at)| (finding.level, *at));
        findings.into_iter().map(|(finding, _)| finding).collect()
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// `Deployment llm/vllm, container vllm: spec.replicas`, then the document.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let container = self.container.as_ref().map(|name| format!("container {name}"));
        let whole = self.object.as_deref().into_iter().chain(container.as_deref());
        let whole = whole.collect::<Vec<_>>().join(", ");
        let key = (!self.key.is_empty()).then_some(self.key.as_str());
        let parts: Vec<&str> =
            [Some(whole.as_str()).filter(|w| !w.is_empty()), key].into_iter().flatten().collect();
        f.write_str(&parts.join(": "))?;
        match &self.document {
            Some(document) if parts.is_empty() => f.write_str(document),
            Some(document) => write!(f, " ({document})"),
            None => Ok(()),
        }
    }
}
