//! How a request ended: a closed set, and every arrival ends in exactly one of them.

use std::fmt;

/// The end of one arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Content, terminal event and usage where the API gives it; a plain answer's whole body.
    Complete,
    /// The stream or body ended without its terminal event, or with the engine's own abort.
    Truncated,
    /// The engine answered an error status, or an error event inside its stream.
    UpstreamError,
    /// The client left before the end.
    ClientCancelled,
    /// One of our deadlines passed (first byte, idle stream, write stall, total).
    TimedOut,
    /// This replica's or the engine's drain deadline cut the stream.
    DrainCut,
    /// Refused by us before anything was asked of an engine.
    Rejected,
    /// Our own fault; must stay zero.
    Failed,
}

impl Outcome {
    /// Every outcome, in the order of [`Outcome::index`].
    pub const ALL: [Self; 8] = [
        Self::Complete,
        Self::Truncated,
        Self::UpstreamError,
        Self::ClientCancelled,
        Self::TimedOut,
        Self::DrainCut,
        Self::Rejected,
        Self::Failed,
    ];

    /// The label value used in metrics, logs and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Truncated => "truncated",
            Self::UpstreamError => "upstream_error",
            Self::ClientCancelled => "client_cancelled",
            Self::TimedOut => "timed_out",
            Self::DrainCut => "drain_cut",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
        }
    }

    /// Position in [`Outcome::ALL`], for counters kept in arrays.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
