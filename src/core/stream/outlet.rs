//! Hands frames on, joined where they lie side by side in one chunk.

use crate::core::sse::Frame;
use bytes::Bytes;
use std::ops::Range;

/// Collects what one chunk lets through. Neighbouring frames go out as one slice of the chunk, so
/// that a chunk of many events is one write.
pub(super) struct Outlet<'a> {
    chunk: Bytes,
    /// Offset of the chunk in the stream.
    base: u64,
    run: Range<usize>,
    forwarded: u64,
    out: &'a mut Vec<Bytes>,
}

impl<'a> Outlet<'a> {
    pub(super) fn new(chunk: Bytes, base: u64, out: &'a mut Vec<Bytes>) -> Self {
        Self { chunk, base, run: 0..0, forwarded: 0, out }
    }

    pub(super) fn forward(&mut self, frame: Frame) {
        let in_chunk = frame.start.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        let Some(from) = in_chunk else { return self.push(frame.bytes) };
        let to = from + frame.bytes.len();
        if self.run.end != from {
            self.flush();
            self.run.start = from;
        }
        self.run.end = to;
    }

    /// Forward bytes of an earlier chunk, or copied ones.
    pub(super) fn push(&mut self, bytes: Bytes) {
        self.flush();
        if !bytes.is_empty() {
            self.forwarded += bytes.len() as u64;
            self.out.push(bytes);
        }
    }

    /// The number of bytes handed on.
    pub(super) fn close(mut self) -> u64 {
        self.flush();
        self.forwarded
    }

    fn flush(&mut self) {
        let run = std::mem::replace(&mut self.run, 0..0);
        if !run.is_empty() {
            self.forwarded += run.len() as u64;
            self.out.push(self.chunk.slice(run));
        }
    }
}
