//! Switches for misbehaviour.
//!
#![doc = include_str!("faults.md")]

mod parse;
mod queue;

pub use parse::FaultError;
pub(crate) use parse::{TENANT_HEADER, duration, pairs};
pub(crate) use queue::FaultQueue;
pub use queue::FaultRule;

use std::time::Duration;

pub use crate::http1::CloseBy;

/// The table of all faults, as the module docs show it.
pub const TABLE: &str = include_str!("faults.md");

/// What goes wrong with one answer. The default is nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faults {
    /// `delay-head`.
    pub delay_head: Option<Duration>,
    /// `delay-first`.
    pub delay_first: Option<Duration>,
    /// `cut`.
    pub cut: Option<Cut>,
    /// `cut-by`.
    pub cut_by: CloseBy,
    /// `end-after`.
    pub end_after: Option<u64>,
    /// `error-after`.
    pub error_after: Option<u64>,
    /// `abort-after`.
    pub abort_after: Option<u64>,
    /// `stall-after`.
    pub stall_after: Option<u64>,
    /// `stop-after`.
    pub stop_after: Option<u32>,
    /// `status`.
    pub status: Option<u16>,
    /// `retry-after`.
    pub retry_after: Option<String>,
    /// `drain-500`.
    pub drain_500: bool,
    /// `refuse`.
    pub refuse: bool,
    /// `opening-silence`.
    pub opening_silence: Option<Silence>,
    /// `one-byte`.
    pub one_byte: bool,
    /// `chunk-bytes`, at least 1.
    pub chunk_bytes: Option<usize>,
    /// `line-end`.
    pub line_end: LineEnd,
    /// `no-space`.
    pub no_space: bool,
    /// `comments`.
    pub comments: bool,
    /// `split-data`.
    pub split_data: bool,
    /// `bom`.
    pub bom: bool,
    /// `no-usage`.
    pub no_usage: bool,
    /// `keep-alive`.
    pub keep_alive: Option<Duration>,
    /// `big-event`.
    pub big_event: Option<usize>,
    /// `tokens-per-event`, at least 1.
    pub tokens_per_event: Option<u32>,
    /// `interval`.
    pub interval: Option<Duration>,
    /// `stamp`.
    pub stamp: bool,
}

/// Where a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// After the whole request was read, without a byte of answer.
    BeforeHead,
    /// After the response head.
    AfterHead,
    /// After that many events.
    Events(u64),
    /// After that many bytes of the decoded body.
    Bytes(u64),
}

/// How long an `opening-silence` lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// That long (virtual time).
    For(Duration),
    /// Until the client goes.
    Forever,
}

/// Line ends of a stream. The format allows all three.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LineEnd {
    /// `\n`, as vLLM.
    #[default]
    Lf,
    /// `\r\n`.
    CrLf,
    /// `\r`.
    Cr,
}

impl LineEnd {
    pub(crate) fn bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::CrLf => b"\r\n",
            Self::Cr => b"\r",
        }
    }
}

/// What a stream does when it has sent a number of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    Cut,
    End,
    Error,
    Abort,
    Stall,
}

impl Faults {
    /// What happens after exactly `events` events, if anything. Of several the harshest.
    pub(crate) fn trigger(&self, events: u64) -> Option<Trigger> {
        let at = Some(events);
        match self.cut {
            Some(Cut::AfterHead) if events == 0 => return Some(Trigger::Cut),
            Some(Cut::Events(n)) if n == events => return Some(Trigger::Cut),
            _ => {}
        }
        let table = [
            (self.stall_after, Trigger::Stall),
            (self.end_after, Trigger::End),
            (self.error_after, Trigger::Error),
            (self.abort_after, Trigger::Abort),
        ];
        table.into_iter().find(|(n, _)| *n == at).map(|(_, trigger)| trigger)
    }
}
