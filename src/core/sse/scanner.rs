//! Cuts a stream of chunks into frames.

use super::event::Event;
use super::lines::{Boundary, End};
use bytes::{Bytes, BytesMut};

/// A piece of the stream. The frames, one after the other, are exactly the bytes fed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Offset of the first byte in the stream.
    pub start: u64,
    /// The bytes as they came; a slice of the chunk when they lie inside one.
    pub bytes: Bytes,
    pub kind: FrameKind,
}

/// What a [`Frame`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// One event with the blank line that ends it. Comments and lone blank lines are events
    /// without data.
    Event,
    /// Part of an event above the limit. `name` is its `event` field, given with the first part
    /// when that line lies within the limit.
    Opaque { first: bool, last: bool, name: Option<Box<[u8]>> },
    /// The LF of a blank line that ended with CR LF. It belongs to the frame before it, and is
    /// apart because it may come a chunk later while the event is complete without it.
    LineFeed,
    /// An event that the end of the stream left without its blank line.
    Rest,
}

impl Frame {
    /// The fields of this frame.
    pub fn event(&self) -> Event<'_> {
        Event::parse(&self.bytes, self.start == 0)
    }
}

/// Incremental cutter: [`push`](Scanner::push) a chunk, take frames by [`next`](Scanner::next)
/// until there is none, push the next chunk; [`finish`](Scanner::finish) at the end.
#[derive(Clone, Debug)]
pub struct Scanner {
    max_event: usize,
    boundary: Boundary,
    /// Not yet searched.
    chunk: Bytes,
    /// Searched, part of an event that is not complete.
    carry: BytesMut,
    /// Offset of the first byte that is in no frame yet.
    start: u64,
    in_opaque: bool,
    line_feed_due: bool,
}

impl Scanner {
    /// Events of more than `max_event` bytes pass as opaque parts.
    pub fn new(max_event: usize) -> Self {
        Self {
            max_event,
            boundary: Boundary::default(),
            chunk: Bytes::new(),
            carry: BytesMut::new(),
            start: 0,
            in_opaque: false,
            line_feed_due: false,
        }
    }

    /// Add the next bytes of the stream. Bytes of an earlier chunk for which
    /// [`next`](Scanner::next) was not called are kept (and copied).
    pub fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            let mut joined = BytesMut::from(std::mem::take(&mut self.chunk));
            joined.extend_from_slice(&chunk);
            self.chunk = joined.freeze();
        }
    }

    /// The next frame, `None` when more bytes are needed.
    #[expect(clippy::should_implement_trait, reason = "not fused: a push makes more frames")]
    pub fn next(&mut self) -> Option<Frame> {
        if self.chunk.is_empty() {
            return None;
        }
        if std::mem::take(&mut self.line_feed_due) && self.chunk[0] == b'\n' {
            let bytes = self.chunk.split_to(1);
            return Some(self.frame(bytes, FrameKind::LineFeed));
        }
        match self.boundary.find(&self.chunk) {
            Some(end) => Some(self.close(end)),
            None => self.keep(),
        }
    }

    /// The end of the stream: what is left of an event without its blank line.
    pub fn finish(&mut self) -> Option<Frame> {
        if self.carry.is_empty() {
            return None;
        }
        let bytes = self.carry.split().freeze();
        Some(self.frame(bytes, FrameKind::Rest))
    }

    /// Take back the bytes that are in no frame yet, to forward them unread.
    pub fn take_pending(&mut self) -> [Bytes; 2] {
        let taken = [self.carry.split().freeze(), std::mem::take(&mut self.chunk)];
        self.start += taken.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
        taken
    }

    /// Bytes that are in no frame yet.
    pub fn pending(&self) -> usize {
        self.carry.len() + self.chunk.len()
    }

    /// Offset of the next byte to be pushed.
    pub fn position(&self) -> u64 {
        self.start + self.pending() as u64
    }

    fn close(&mut self, end: End) -> Frame {
        self.line_feed_due = end.cr;
        let tail = self.chunk.split_to(end.at);
        if std::mem::take(&mut self.in_opaque) {
            return self.frame(tail, FrameKind::Opaque { first: false, last: true, name: None });
        }
        let bytes = if self.carry.is_empty() {
            tail
        } else {
            self.carry.extend_from_slice(&tail);
            self.carry.split().freeze()
        };
        let kind =
            if bytes.len() > self.max_event { self.opaque(&bytes, true) } else { FrameKind::Event };
        self.frame(bytes, kind)
    }

    /// Put the rest of the chunk aside; if the event outgrew the limit, pass it on instead.
    fn keep(&mut self) -> Option<Frame> {
        let rest = std::mem::take(&mut self.chunk);
        if self.in_opaque {
            let kind = FrameKind::Opaque { first: false, last: false, name: None };
            return Some(self.frame(rest, kind));
        }
        self.carry.extend_from_slice(&rest);
        if self.carry.len() <= self.max_event {
            return None;
        }
        self.in_opaque = true;
        let bytes = self.carry.split().freeze();
        let kind = self.opaque(&bytes, false);
        Some(self.frame(bytes, kind))
    }

    /// The first part of an opaque event. Only the bytes within the limit are read, so that the
    /// name does not depend on the chunking.
    fn opaque(&self, bytes: &[u8], last: bool) -> FrameKind {
        let read = &bytes[..self.max_event];
        let lines = memchr::memrchr2(b'\n', b'\r', read).map_or(0, |end| end + 1);
        let name = Event::parse(&read[..lines], self.start == 0).name.map(Box::from);
        FrameKind::Opaque { first: true, last, name }
    }

    fn frame(&mut self, bytes: Bytes, kind: FrameKind) -> Frame {
        let start = self.start;
        self.start += bytes.len() as u64;
        Frame { start, bytes, kind }
    }
}
