//! Records: what was planned and what became of it, one JSON line each.
//!
//! A file starts with a [`Header`] and ends with a [`Trailer`]; between them stands one
//! [`Arrival`] for every planned request, whatever happened to it, with the actions and the
//! engines' evidence in between. Every figure of a report can be computed from such a file alone.
//! Times are virtual microseconds since the start of the run unless said otherwise.

mod expect;
mod read;
mod write;

pub use expect::Expect;
pub use read::{BrokenLine, Records, read_records};
pub use write::{RecordSender, RecordWriter, WriteError};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of this format.
pub const FORMAT: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// First line.
    Run(Header),
    /// A planned request.
    Arrival(Box<Arrival>),
    /// Something that was done at a time.
    Action(ActionTaken),
    /// What an engine (or the router) counted in one phase.
    Evidence(Evidence),
    /// Last line.
    End(Trailer),
}

/// What a run was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: u32,
    /// Name of the scenario.
    pub scenario: String,
    /// What the scenario shows.
    pub about: String,
    /// Seeds, in the order they were run.
    pub seeds: Vec<u64>,
    /// Times faster than real.
    pub time_scale: f64,
    /// What is good.
    pub slo: Slo,
    /// Largest P99 of the generator's own lag (virtual microseconds) for a valid run.
    pub lag_bound_us: u64,
    /// What the requests were sent to.
    pub target: String,
    /// Published figures to compare with.
    #[serde(default)]
    pub expect: Vec<Expect>,
    /// Wall time at the start, RFC 3339.
    pub started: String,
    /// The command line.
    pub command: String,
    /// Version of this program.
    pub version: String,
}

/// Bounds of a good request, virtual microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slo {
    /// Time to first token.
    pub ttft_us: u64,
    /// Time per output token.
    pub tpot_us: u64,
    /// End to end.
    pub e2e_us: u64,
}

impl Default for Slo {
    fn default() -> Self {
        Self { ttft_us: 2_000_000, tpot_us: 150_000, e2e_us: 30_000_000 }
    }
}

/// How a planned request ended. Every one ends in exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Content, terminal event, and usage with the configured number of output tokens.
    Complete,
    /// Never sent: the client had as many in flight as it may.
    DroppedArrival,
    /// Answered by a status other than 200.
    Refused,
    /// Answered 200 and not complete.
    Broken,
    /// No answer at all.
    Failed,
    /// The run was stopped before its time came or before it ended. Not counted as planned.
    Interrupted,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 6] = [
        Self::Complete,
        Self::DroppedArrival,
        Self::Refused,
        Self::Broken,
        Self::Failed,
        Self::Interrupted,
    ];

    /// The word in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::DroppedArrival => "dropped_arrival",
            Self::Refused => "refused",
            Self::Broken => "broken",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// One planned request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arrival {
    /// Seed of the run.
    pub seed: u64,
    /// Phase of the scenario.
    pub phase: String,
    /// Number in the phase, from 0; names the body together with seed and phase.
    pub index: u64,
    /// Sent to warm up: in no figure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm_up: bool,
    /// Tenant.
    pub tenant: String,
    /// Name of the prompt in the scenario.
    pub prompt: String,
    /// Prefix group, for prompts that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// Lane, in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<u32>,
    /// Output tokens asked for.
    pub max_tokens: u32,
    /// When it was to start.
    pub schedule_us: u64,
    /// When it started; absent if it was never sent.
    pub start_us: Option<u64>,
    /// Real microseconds from schedule to start: the generator's own fault.
    pub lag_us: Option<u64>,
    /// Response head.
    pub head_us: Option<u64>,
    /// First content.
    pub first_us: Option<u64>,
    /// Last content.
    pub last_us: Option<u64>,
    /// End of the answer, or of the wait for it.
    pub end_us: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, where it is not complete.
    pub reason: Option<String>,
    /// HTTP status.
    pub status: Option<u16>,
    /// Seconds after which to come back, as the refusal said (real time).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<f64>,
    /// Prompt tokens, as the engine counts.
    pub prompt_tokens: Option<u32>,
    /// Output tokens, as the engine counts.
    pub output_tokens: Option<u32>,
    /// Prompt tokens from the engine's cache, where the engine tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u32>,
    /// Replica, where known.
    pub target: Option<String>,
    /// How the router chose it, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<String>,
    /// Match percent that the router saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_percent: Option<u32>,
    /// The server's id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// First 16 hexadecimal digits of the body's SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_sha256: Option<String>,
}

impl Arrival {
    /// Time to first token in seconds.
    #[must_use]
    pub fn ttft(&self) -> Option<f64> {
        between(self.start_us, self.first_us)
    }

    /// Mean time per output token in seconds; 0 for a single token.
    #[must_use]
    pub fn tpot(&self) -> Option<f64> {
        let tokens = self.output_tokens?;
        let span = between(self.first_us, self.last_us)?;
        Some(if tokens > 1 { span / f64::from(tokens - 1) } else { 0.0 })
    }

    /// Seconds from start to end.
    #[must_use]
    pub fn e2e(&self) -> Option<f64> {
        between(self.start_us, self.end_us)
    }

    /// Complete within all three bounds.
    #[must_use]
    pub fn good(&self, slo: &Slo) -> bool {
        let within = |value: Option<f64>, bound: u64| {
            value.is_some_and(|v| v <= crate::clock::seconds(bound))
        };
        self.outcome == Outcome::Complete
            && within(self.ttft(), slo.ttft_us)
            && within(self.tpot(), slo.tpot_us)
            && within(self.e2e(), slo.e2e_us)
    }
}

fn between(from: Option<u64>, to: Option<u64>) -> Option<f64> {
    Some(crate::clock::seconds(to?.saturating_sub(from?)))
}

/// How the result of an action begins that could not be done.
pub const FAILED: &str = "failed: ";

/// Something that was done at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionTaken {
    /// Seed of the run.
    pub seed: u64,
    /// Phase of the scenario.
    pub phase: String,
    /// When it was due.
    pub due_us: u64,
    /// When it was done.
    pub done_us: u64,
    /// What.
    pub what: String,
    /// What came of it.
    pub result: String,
}

/// What one engine, or the router, counted in one phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Seed of the run.
    pub seed: u64,
    /// Phase of the scenario.
    pub phase: String,
    /// `engine A`, `router`.
    pub source: String,
    /// Counts by name.
    pub counts: BTreeMap<String, u64>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trailer {
    /// Virtual time of the end.
    pub end_us: u64,
    /// Arrivals written, warm-up included.
    pub arrivals: u64,
    /// The user stopped it.
    pub interrupted: bool,
}
