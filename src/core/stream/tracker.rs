//! The tracker of one streamed answer: a byte filter and an observer.
//!
//! ```text
//!   Open ── error event, hidden abort, unfounded terminal event ──▶ Sealed
//!    └───── terminal event ──▶ Ended
//! ```
//!
//! * **Open**: whole events pass; the extra usage chunk is taken out if asked. When an Anthropic
//!   stream says that it ends but not why, the next event tells whether that is the engine's
//!   abort; with `hide_abort` the frames in between are held until then.
//! * **Sealed**: nothing passes any more, but events are still read (usage comes after an abort).
//! * **Ended**: the answer is over; later bytes pass unread.

use super::adapter;
use super::facts::Facts;
use super::outlet::Outlet;
use super::pattern::Pattern;
use super::reading::{Reading, Step};
use crate::core::api::Api;
use crate::core::sse::{Frame, FrameKind, Scanner};
use bytes::Bytes;
use std::time::Instant;

/// What a [`StreamTracker`] does to the bytes beside watching them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackerOptions {
    /// Take out the extra chunk of `stream_options.include_usage` (`choices: []` with usage),
    /// because the client did not ask for it. Usage in other chunks is left alone.
    pub hide_usage: bool,
    /// Withhold the event by which the engine says that it gave the request up, and all later
    /// bytes (`on_engine_abort: error`). Off: they pass; the stream is truncated all the same.
    pub hide_abort: bool,
    /// Largest event that is read, in bytes; a larger one passes unread.
    pub max_event: usize,
}

impl Default for TrackerOptions {
    fn default() -> Self {
        Self { hide_usage: false, hide_abort: true, max_event: 1 << 20 }
    }
}

/// Whether bytes pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    Sealed,
    Ended,
}

/// What happens to one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fate {
    #[default]
    Forward,
    Hold,
    Withhold,
}

/// Watches one streamed answer and lets through what its client may see.
///
/// Events pass whole and unchanged, as soon as they are complete. What never passes: an engine's
/// error event and everything after it; with `hide_abort` its abort and everything after; the
/// extra usage chunk with `hide_usage`; a terminal event that ends an answer that said nothing, or
/// that lacks the finish reason its API gives; and an event that the end of the stream cut. So when the verdict is not
/// complete, the caller can append its own error event (see [`mid_event`](Self::mid_event)) and
/// the client has seen no terminal event.
///
/// With several choices (`n > 1`) the first choice that aborts ends the stream for all: the answer
/// as a whole can no longer be complete, and its client is better told at once.
///
/// Cheap to clone (for tests and for asking "what if"); memory is bounded by `max_event` and one
/// chunk.
#[derive(Clone, Debug)]
pub struct StreamTracker {
    pub(super) api: Api,
    options: TrackerOptions,
    pub(super) scanner: Scanner,
    pub(super) gate: Gate,
    pub(super) facts: Facts,
    pattern: Pattern,
    /// Frames since an end without a reason, in order.
    held: Vec<Bytes>,
    pub(super) held_bytes: usize,
    /// What happened to the frame before, whose line feed may follow.
    last_fate: Fate,
    /// The answer was said to end, without a reason.
    unexplained_end: bool,
    /// An event above the limit is passing; what is known of it, to be recorded at its end.
    opaque: Option<Reading>,
    /// The bytes forwarded so far end inside an event above the limit.
    pub(super) mid_event: bool,
    last_fed: Option<Instant>,
    pub(super) input_ended: bool,
    pub(super) forwarded: u64,
    pub(super) withheld: u64,
}

impl StreamTracker {
    /// A tracker at the start of a body. A stream of [`Api::Plain`] passes unread.
    pub fn new(api: Api, options: TrackerOptions) -> Self {
        let gate = if api == Api::Plain { Gate::Ended } else { Gate::Open };
        Self {
            api,
            options,
            scanner: Scanner::new(options.max_event),
            gate,
            facts: Facts::default(),
            pattern: Pattern::default(),
            held: Vec::new(),
            held_bytes: 0,
            last_fate: Fate::default(),
            unexplained_end: false,
            opaque: None,
            mid_event: false,
            last_fed: None,
            input_ended: false,
            forwarded: 0,
            withheld: 0,
        }
    }

    /// Take the next bytes of the body, received at `now`; append to `out` what the client may
    /// have of them (nothing is removed from `out`).
    pub fn feed(&mut self, chunk: Bytes, now: Instant, out: &mut Vec<Bytes>) {
        if chunk.is_empty() {
            return;
        }
        self.last_fed = Some(now);
        if self.gate == Gate::Ended {
            return self.pass(chunk, now, out);
        }
        let mut outlet = Outlet::new(chunk.clone(), self.scanner.position(), out);
        self.scanner.push(chunk);
        while let Some(frame) = self.scanner.next() {
            self.on_frame(frame, now, &mut outlet);
            if self.gate == Gate::Ended {
                self.scanner.take_pending().into_iter().for_each(|bytes| outlet.push(bytes));
            }
        }
        self.forwarded += outlet.close();
    }

    /// The body ended cleanly. An event without its final blank line is still understood; it is
    /// forwarded if it ends the answer, else withheld, as it would run into the error event that
    /// must follow.
    pub fn finish_input(&mut self, out: &mut Vec<Bytes>) {
        self.input_ended = true;
        if let (Some(frame), Some(now)) = (self.scanner.finish(), self.last_fed) {
            let fate = self.on_event(&frame, now);
            if fate == Fate::Forward && self.gate == Gate::Ended {
                self.forwarded += frame.bytes.len() as u64;
                out.push(frame.bytes);
            } else {
                self.withheld += frame.bytes.len() as u64;
            }
        }
        self.withhold_held();
    }

    /// Bytes that need no reading: after the terminal event, or of an API that is not understood,
    /// where any byte is content.
    fn pass(&mut self, chunk: Bytes, now: Instant, out: &mut Vec<Bytes>) {
        if self.api == Api::Plain {
            self.facts.touch(now);
        }
        self.forwarded += chunk.len() as u64;
        out.push(chunk);
    }

    fn on_frame(&mut self, frame: Frame, now: Instant, outlet: &mut Outlet<'_>) {
        let fate = match &frame.kind {
            FrameKind::Event | FrameKind::Rest => self.on_event(&frame, now),
            FrameKind::LineFeed => self.last_fate,
            FrameKind::Opaque { first, last, name } => {
                if *first {
                    self.begin_opaque(name.as_deref(), now);
                }
                let fate = self.on_opaque(*last, now);
                self.mid_event = fate == Fate::Forward && !last;
                fate
            }
        };
        self.last_fate = fate;
        match fate {
            Fate::Hold => {
                self.held_bytes += frame.bytes.len();
                self.held.push(frame.bytes);
            }
            Fate::Forward => {
                self.held_bytes = 0;
                self.held.drain(..).for_each(|bytes| outlet.push(bytes));
                outlet.forward(frame);
            }
            Fate::Withhold => {
                self.withheld += frame.bytes.len() as u64;
                if self.gate == Gate::Sealed {
                    self.withhold_held();
                }
            }
        }
    }

    fn withhold_held(&mut self) {
        self.held.clear();
        self.withheld += std::mem::take(&mut self.held_bytes) as u64;
    }

    fn on_event(&mut self, frame: &Frame, now: Instant) -> Fate {
        if let Some(reading) = self.pattern.recognise(&frame.bytes) {
            return self.judge(reading, now);
        }
        match adapter::read(self.api, &frame.event()) {
            Some(reading) => {
                self.pattern.learn(self.api, &frame.bytes, &reading);
                self.judge(reading, now)
            }
            None => self.wait_or_forward(),
        }
    }

    /// Record an event and decide whether it passes.
    fn judge(&mut self, mut reading: Reading, now: Instant) -> Fate {
        let abort = reading.abort || (self.unexplained_end && reading.terminal);
        let error = reading.error.take();
        let hidden =
            self.gate == Gate::Sealed || error.is_some() || (abort && self.options.hide_abort);
        if let Some(error) = error {
            self.facts.fail(error);
        }
        if abort {
            self.facts.give_up();
        }
        if !hidden {
            self.facts.advance(reading.step, now);
            if let Some(sequence) = reading.sequence {
                self.facts.next_sequence = sequence.saturating_add(1);
            }
        }
        self.facts.record(&mut reading);
        if hidden {
            return self.seal();
        }
        if reading.terminal {
            return self.end();
        }
        if reading.step > Step::Opening {
            self.unexplained_end = reading.unexplained_end;
        }
        if reading.only_usage && self.options.hide_usage {
            return Fate::Withhold;
        }
        self.wait_or_forward()
    }

    /// The terminal event (of an abort too, when that passes). It is withheld when it ends an
    /// answer that said nothing at all or was never finished: a client would take that for success.
    fn end(&mut self) -> Fate {
        if self.facts.abort.is_none() && !self.facts.is_complete(self.api) {
            return self.seal();
        }
        self.gate = Gate::Ended;
        Fate::Forward
    }

    fn seal(&mut self) -> Fate {
        self.gate = Gate::Sealed;
        Fate::Withhold
    }

    /// The fate of an event that decides nothing. What is held is bounded: an endless row of
    /// comments after an end without a reason passes.
    fn wait_or_forward(&self) -> Fate {
        match self.gate {
            Gate::Sealed => Fate::Withhold,
            Gate::Open
                if self.unexplained_end
                    && self.options.hide_abort
                    && self.held_bytes <= self.options.max_event =>
            {
                Fate::Hold
            }
            Gate::Open | Gate::Ended => Fate::Forward,
        }
    }

    /// An event above the limit begins. It counts as content at once; what its name tells counts
    /// when it is complete, except for an error, which must not pass.
    fn begin_opaque(&mut self, name: Option<&[u8]>, now: Instant) {
        let reading = adapter::read_opaque(self.api, name);
        if reading.error.is_some() {
            self.judge(reading, now);
            return;
        }
        if self.gate == Gate::Open {
            self.unexplained_end = false;
            self.facts.advance(Step::Content, now);
        }
        self.facts.opaque = true;
        self.opaque = Some(reading);
    }

    fn on_opaque(&mut self, last: bool, now: Instant) -> Fate {
        match self.opaque.take_if(|_| last) {
            Some(reading) => self.judge(reading, now),
            None => self.wait_or_forward(),
        }
    }
}
