//! What a check of manifests found, for people and for machines.

use super::finding::{Finding, Level, Place};
use super::input::Unreadable;
use super::objects::{Container, Workload};
use crate::check::report::count;
use crate::core::budget::{Moment, Seconds};
use serde::{Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// The outcome. `Display` is the form for people.
#[derive(Clone, Debug)]
pub struct ManifestReport {
    pub(super) timelines: Vec<Timeline>,
    pub(super) findings: Vec<Finding>,
    pub(super) unreadable: Vec<Unreadable>,
}

/// When what happens to the pods of a workload, counted from their deletion.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    #[serde(flatten)]
    place: Place,
    /// What the container is.
    role: &'static str,
    #[serde(rename = "grace_seconds", serialize_with = "seconds")]
    grace: Duration,
    #[serde(skip)]
    grace_written: bool,
    #[serde(rename = "longest_stream_seconds", serialize_with = "seconds")]
    longest: Duration,
    #[serde(rename = "timeline", serialize_with = "moments")]
    moments: Vec<Moment>,
}

impl Timeline {
    pub(super) fn new(
        workload: &Workload,
        container: &Container,
        role: &'static str,
        grace: Duration,
        moments: Vec<Moment>,
        longest: Duration,
    ) -> Self {
        let key = workload.pod_key("terminationGracePeriodSeconds");
        let place = Place { key, ..container.scope.place().clone() };
        Self { place, role, grace, grace_written: workload.grace.1, longest, moments }
    }
}

/// The JSON form of the whole.
#[derive(Serialize)]
pub(in crate::check) struct Json<'r> {
    ok: bool,
    workloads: &'r [Timeline],
    findings: &'r [Finding],
    unreadable: Vec<Failure<'r>>,
}

#[derive(Serialize)]
struct Failure<'r> {
    document: &'r str,
    problem: &'r str,
}

impl ManifestReport {
    /// Nothing breaks and everything was read. Warnings and notes may be there.
    pub fn passed(&self) -> bool {
        self.is_readable() && self.count(Level::Error) == 0
    }

    /// Everything could be read.
    pub fn is_readable(&self) -> bool {
        self.unreadable.is_empty()
    }

    /// The findings, the gravest first.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// What could not be read.
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    pub(in crate::check) fn json(&self) -> Json<'_> {
        Json {
            ok: self.passed(),
            workloads: &self.timelines,
            findings: &self.findings,
            unreadable: self
                .unreadable
                .iter()
                .map(|one| Failure { document: &one.name, problem: &one.problem })
                .collect(),
        }
    }
}

/// First the timelines, then what could not be read, then the findings, then how many.
///
/// ```text
/// Deployment llm/vllm, container vllm (vLLM), grace 180s
///        0s  deleted; preStop waits, new requests still arrive at first
///       10s  SIGTERM at the latest; vLLM lets running streams end
///      100s  vLLM gives up what still runs
///      120s  vLLM has exited
///      180s  SIGKILL, if the container still runs
///     a stream of up to 95s completes, whenever the pod is deleted
/// ```
impl fmt::Display for ManifestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for timeline in &self.timelines {
            writeln!(f, "{timeline}\n")?;
        }
        for Unreadable { name, problem } in &self.unreadable {
            writeln!(f, "unreadable  {name}: {problem}")?;
        }
        for Finding { level, code, place, problem, remedy } in &self.findings {
            writeln!(f, "{level}  {code}  {place}\n    {problem}\n    fix: {remedy}")?;
        }
        let verdict = if self.passed() { "the shutdown budget holds" } else { "not proven" };
        let counts = [Level::Error, Level::Warning, Level::Note]
            .map(|level| count(self.count(level), &level.to_string()));
        write!(f, "manifests: {verdict} ({})", counts.join(", "))
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = Place { key: String::new(), document: None, ..self.place.clone() };
        let default = if self.grace_written { "" } else { " (default)" };
        writeln!(f, "{place} ({}), grace {}{default}", self.role, Seconds(self.grace))?;
        for Moment { at, event } in &self.moments {
            writeln!(f, "  {:>8}  {event}", Seconds(*at).to_string())?;
        }
        match self.longest {
            Duration::ZERO => write!(f, "    no stream surely completes"),
            longest => {
                write!(
                    f,
                    "    a stream of up to {} completes, whenever the pod is deleted",
                    Seconds(longest)
                )
            }
        }
    }
}

fn seconds<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(value.as_secs_f64())
}

fn moments<S: Serializer>(moments: &[Moment], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Row {
        at_seconds: f64,
        event: &'static str,
    }
    let row = |moment: &Moment| Row { at_seconds: moment.at.as_secs_f64(), event: moment.event };
    serializer.collect_seq(moments.iter().map(row))
}
