//! What a stream has shown so far.

use super::error::EngineError;
use super::reading::{FinishReason, Reading, Step};
use super::usage::UsageMeter;
use crate::core::api::Api;
use std::time::Instant;

/// How far a stream has come, for whoever holds the response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// Nothing but openings: comments, pings, a role chunk, `response.created`, `message_start`.
    /// The request can still move to another engine unseen.
    Opening,
    /// Content, a tool call, reasoning, a finish reason or an error came.
    Progressed,
    /// The terminal event came.
    Terminal,
}

/// Choices whose finish reason is kept. Only bounds memory.
const MAX_FINISHES: usize = 256;

/// Accumulated evidence. Plain data: what is done about it is decided elsewhere.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub events: u64,
    pub content_events: u64,
    pub unread_events: u64,
    /// An event above the limit passed, in which a finish reason may have been.
    pub opaque: bool,
    pub first_content: Option<Instant>,
    pub last_content: Option<Instant>,
    pub progressed: bool,
    pub terminal: bool,
    pub finish: Vec<FinishReason>,
    pub error: Option<EngineError>,
    /// The engine gave the request up; the value: before any content.
    pub abort: Option<bool>,
    pub usage: UsageMeter,
    /// One above the number of the last event that the client sees.
    pub next_sequence: u64,
}

impl Facts {
    pub(super) fn progress(&self) -> Progress {
        if self.terminal {
            Progress::Terminal
        } else if self.progressed {
            Progress::Progressed
        } else {
            Progress::Opening
        }
    }

    /// Record what holds whether or not the client sees the event.
    pub(super) fn record(&mut self, reading: &mut Reading) {
        self.events += 1;
        self.unread_events += u64::from(reading.unread);
        self.terminal |= reading.terminal;
        if let Some((usage, scope)) = reading.usage {
            self.usage.report(usage, scope);
        }
        for finish in reading.finish.drain(..) {
            if self.finish.len() < MAX_FINISHES {
                self.finish.push(finish);
            }
        }
    }

    /// Record how far an event that the client sees brings the answer. Call before
    /// [`record`](Self::record), whose usage report covers this event's content.
    pub(super) fn advance(&mut self, step: Step, now: Instant) {
        if step >= Step::Progress {
            self.progressed = true;
        }
        let content = match step {
            Step::Content => true,
            Step::Restated => self.content_events == 0,
            Step::Opening | Step::Progress => false,
        };
        if content {
            self.content_events += 1;
            self.usage.content();
            self.touch(now);
        }
    }

    /// Content came, in a form that is not counted.
    pub(super) fn touch(&mut self, now: Instant) {
        self.progressed = true;
        self.first_content.get_or_insert(now);
        self.last_content = Some(now);
    }

    /// The first error counts; what follows it are its echoes.
    pub(super) fn fail(&mut self, error: EngineError) {
        let before_content = !self.progressed;
        self.error.get_or_insert(EngineError { before_content, ..error });
        self.progressed = true;
    }

    pub(super) fn give_up(&mut self) {
        self.abort.get_or_insert(!self.progressed);
        self.progressed = true;
    }

    /// Whether the answer is whole. Where the reason of the end has an event of its own, a terminal
    /// event without it closes an answer that nobody finished; in the responses API the terminal
    /// event is that reason. Usage is not asked for: not every engine reports it.
    pub(super) fn is_complete(&self, api: Api) -> bool {
        let said = self.content_events > 0;
        let explained = !self.finish.is_empty()
            || match api {
                Api::Completions | Api::Chat | Api::Messages => said && self.opaque,
                Api::Responses | Api::Plain => said,
            };
        self.terminal && self.error.is_none() && self.abort.is_none() && explained
    }
}
