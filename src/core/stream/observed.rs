//! What a [`StreamTracker`] can be asked. Every answer holds for the bytes fed so far.

use super::error::EngineError;
use super::facts::Progress;
use super::reading::FinishReason;
use super::tracker::{Gate, StreamTracker};
use super::usage::Usage;
use super::verdict::Verdict;
use crate::core::api::Api;
use crate::core::outcome::Outcome;
use std::time::Instant;

impl StreamTracker {
    /// How the stream ends if no further byte comes.
    pub fn verdict(&self) -> Verdict {
        let complete = match self.api {
            Api::Plain => self.input_ended,
            api => self.facts.is_complete(api),
        };
        if self.facts.error.is_some() {
            Verdict::UpstreamError
        } else if complete {
            Verdict::Complete
        } else {
            Verdict::Truncated
        }
    }

    /// [`verdict`](Self::verdict) as an [`Outcome`].
    pub fn outcome_if_ended_now(&self) -> Outcome {
        self.verdict().into()
    }

    /// How far the answer has come.
    pub fn progress(&self) -> Progress {
        self.facts.progress()
    }

    /// The terminal event was seen, whether or not it was forwarded: the engine is done.
    pub fn terminal(&self) -> bool {
        self.facts.terminal
    }

    /// Nothing will be forwarded any more; the caller writes the final error event. Reading on
    /// may still bring the usage.
    pub fn is_sealed(&self) -> bool {
        self.gate == Gate::Sealed
    }

    /// The forwarded bytes end inside an event (one above the limit): an error event appended now
    /// would run into it, so the connection can only be aborted.
    pub fn mid_event(&self) -> bool {
        self.mid_event
    }

    /// When the first event with content was complete.
    pub fn first_content(&self) -> Option<Instant> {
        self.facts.first_content
    }

    /// When the last event with content was complete.
    pub fn last_content(&self) -> Option<Instant> {
        self.facts.last_content
    }

    /// What the engine reported last, field by field. While choices report for themselves, the
    /// completion tokens are their sum.
    pub fn usage(&self) -> Usage {
        self.facts.usage.usage()
    }

    /// The answer is over and its completion tokens were not reported after the last content.
    /// Always false for [`Api::Plain`].
    pub fn usage_missing(&self) -> bool {
        self.facts.terminal && !self.facts.usage.is_settled()
    }

    /// At least this many tokens were generated: the engine's last report plus one for each event
    /// with content since. What a cancelled stream is charged.
    pub fn tokens_at_least(&self) -> u64 {
        if self.api == Api::Plain { 0 } else { self.facts.usage.at_least() }
    }

    /// The finish reasons in the order they came.
    pub fn finish_reasons(&self) -> &[FinishReason] {
        &self.facts.finish
    }

    /// The first error the engine wrote into the stream.
    pub fn error(&self) -> Option<&EngineError> {
        self.facts.error.as_ref()
    }

    /// The error, if it came before any content: nothing the client needs was forwarded, so the
    /// request can be answered with an honest status, or moved to another engine.
    pub fn early_error(&self) -> Option<&EngineError> {
        self.error().filter(|error| error.before_content)
    }

    /// The engine gave the request up (`finish_reason: "abort"` and its like).
    pub fn aborted(&self) -> bool {
        self.facts.abort.is_some()
    }

    /// The engine gave the request up before any content.
    pub fn early_abort(&self) -> bool {
        self.facts.abort == Some(true)
    }

    /// Events with data, of any kind.
    pub fn events(&self) -> u64 {
        self.facts.events
    }

    /// Events with content that passed. Engines merge tokens: this is no token count.
    pub fn content_events(&self) -> u64 {
        self.facts.content_events
    }

    /// Events with data that the API does not define or that were too large to read.
    pub fn unread_events(&self) -> u64 {
        self.facts.unread_events
    }

    /// The number of an event appended now: one above the last that passed, 0 where events have
    /// none.
    pub fn next_sequence_number(&self) -> u64 {
        self.facts.next_sequence
    }

    /// Bytes put into `out`.
    pub fn forwarded_bytes(&self) -> u64 {
        self.forwarded
    }

    /// Bytes that the client will never see.
    pub fn withheld_bytes(&self) -> u64 {
        self.withheld
    }

    /// Bytes whose fate is open: an incomplete event, or an end without a reason. Fed bytes =
    /// forwarded + withheld + pending.
    pub fn pending_bytes(&self) -> u64 {
        (self.scanner.pending() + self.held_bytes) as u64
    }
}
