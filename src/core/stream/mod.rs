//! Streamed answers: whether one is complete, what it cost, and which of its bytes a client sees.
//!
//! HTTP 200 is not success, and neither is a terminal event: an engine that is shut down ends its
//! streams with `finish_reason: "abort"` and `[DONE]`, or with an error event and `[DONE]`. Client
//! libraries take a clean end for success. So a [`StreamTracker`] reads every event on its way
//! through and keeps back whatever would make a broken answer look whole.
//!
//! ```text
//! out.clear();
//! tracker.feed(chunk, now, &mut out);
//! for bytes in out.drain(..) { write(bytes) }
//! ```
//!
//! After each feed, ask [`StreamTracker::is_sealed`] before [`StreamTracker::progress`]: a sealed
//! stream forwards nothing more. While the response head is held, `early_error` and `early_abort`
//! say that the request can be answered honestly or moved. Otherwise write the final error event,
//! unless `mid_event`, and abort. The same holds when the body ends, or breaks, and the verdict is
//! not complete.
//!
//! | API | terminal event | error | the engine gave up |
//! |---|---|---|---|
//! | completions, chat | `data: [DONE]` | `{"error":…}`, `event: error`, `finish_reason: "error"` | `finish_reason: "abort"` |
//! | responses | `response.completed`, `response.incomplete` | `error`, `response.failed` | `status: "cancelled"`, or incomplete without a reason |
//! | messages | `message_stop` | `error` | `stop_reason: null` before `message_stop` |
//!
//! A terminal event alone does not make an answer complete. Completions, chat and messages must have
//! given a finish reason (`finish_reason`, `stop_reason`) before it. Usage that is missing leaves an
//! answer complete, with [`StreamTracker::usage_missing`]: it is always asked for, but not every
//! engine reports it.
//!
//! Known limits: an event above `max_event` is known by its `event` field only, so a chat error of
//! that size passes, and it may have been the finish reason; vLLM's responses API writes `status: "completed"` for some aborted requests,
//! which cannot be told from a short answer.

mod adapter;
mod chat;
mod chunk;
mod completions;
mod error;
mod facts;
mod json;
mod messages;
mod observed;
mod outlet;
mod pattern;
mod plain;
mod reading;
mod responses;
mod tracker;
mod usage;
mod verdict;

pub use error::EngineError;
pub use facts::Progress;
pub use plain::{PlainAnswer, plain_answer, plain_usage};
pub use reading::FinishReason;
pub use tracker::{StreamTracker, TrackerOptions};
pub use usage::Usage;
pub use verdict::Verdict;
