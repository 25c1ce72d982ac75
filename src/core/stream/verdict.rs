//! How a stream would end if it ended now.

use crate::core::outcome::Outcome;

/// The part of [`Outcome`] that the bytes of an answer decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Terminal event, no error, no abort, and content or a finish reason was seen. Bytes after
    /// the terminal event, or a connection that breaks after it, change nothing. A plain answer:
    /// its body ended.
    Complete,
    /// Ended without its terminal event, with nothing before it, or with the engine's own abort.
    Truncated,
    /// The engine wrote an error into the stream.
    UpstreamError,
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Complete => Self::Complete,
            Verdict::Truncated => Self::Truncated,
            Verdict::UpstreamError => Self::UpstreamError,
        }
    }
}
