//! What one event means, in words that all APIs share.

use super::error::EngineError;
use super::usage::{Scope, Usage};

/// Why one choice of an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishReason {
    /// The choice's index; 0 where the API has one answer only.
    pub choice: u64,
    /// The engine's own word: `stop`, `length`, `abort`, `end_turn`, `max_output_tokens`, …
    pub reason: Box<str>,
}

/// How far an event brings the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Says nothing yet: a role, an opened block, a ping.
    #[default]
    Opening,
    /// The engine is at work on the answer, or the event is not understood.
    Progress,
    /// Says again what deltas said before; counts as content only if there were none.
    Restated,
    /// New text, reasoning, tool call or the like.
    Content,
}

/// One event as an adapter understood it.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub step: Step,
    pub finish: Vec<FinishReason>,
    pub usage: Option<(Usage, Scope)>,
    pub error: Option<EngineError>,
    /// The engine gave the request up.
    pub abort: bool,
    /// The answer is said to end without a reason: an abort if the terminal event comes next.
    pub unexplained_end: bool,
    /// The API's terminal event.
    pub terminal: bool,
    /// The extra chunk of `include_usage`, which says nothing but usage.
    pub only_usage: bool,
    /// The data is not what the API sends.
    pub unread: bool,
    /// The event's number, where the API has them.
    pub sequence: Option<u64>,
}

impl Reading {
    pub(super) fn terminal() -> Self {
        Self { step: Step::Progress, terminal: true, ..Self::default() }
    }

    pub(super) fn error(error: EngineError) -> Self {
        Self { step: Step::Progress, error: Some(error), ..Self::default() }
    }

    /// An event that nobody understands is passed on like progress: holding it back could hide
    /// something the client waits for.
    pub(super) fn unread() -> Self {
        Self { step: Step::Progress, unread: true, ..Self::default() }
    }

    pub(super) fn finished(&mut self, choice: u64, reason: &str) {
        self.abort |= is_abort(reason);
        self.finish.push(FinishReason { choice, reason: Box::from(shorten(reason)) });
    }
}

/// Reasons by which an engine says that it gave the request up (vLLM and SGLang: `abort`).
pub(super) fn is_abort(reason: &str) -> bool {
    matches!(reason, "abort" | "aborted" | "cancelled" | "canceled")
}

/// Finish reasons are words; more is noise. Cut at a character.
fn shorten(reason: &str) -> &str {
    reason.char_indices().nth(64).map_or(reason, |(end, _)| &reason[..end])
}
