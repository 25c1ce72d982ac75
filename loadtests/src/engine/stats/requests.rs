//! The last requests, with what a proxy made of them.

use std::collections::VecDeque;

use bytes::Bytes;
use serde::Serialize;

/// Requests kept.
const KEPT: usize = 1000;
/// Largest body kept with a request; of larger ones only length and hash.
pub(crate) const KEPT_BODY: usize = 16 * 1024;

/// One request as it arrived.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RecordedRequest {
    /// Counts requests from 0.
    pub seq: u64,
    /// Connection it came on, counted from 1.
    pub connection: u64,
    /// Milliseconds since the engine's start (real time).
    pub at_ms: f64,
    /// Method.
    pub method: String,
    /// Path without query.
    pub path: String,
    /// Query; may be empty.
    pub query: String,
    /// Header names and values in the order and spelling received.
    pub headers: Vec<(String, String)>,
    /// Bytes of the body; `None` while it is being read.
    pub body_len: Option<usize>,
    /// [`body_hash`](crate::engine::body_hash) as 16 hexadecimal digits.
    pub body_hash: Option<String>,
    /// The body, if it has at most 16 KiB.
    #[serde(skip)]
    pub body: Option<Bytes>,
    /// Tenant of a generation request, once known.
    pub tenant: Option<String>,
    /// Status of the answer, once its head was written.
    pub status: Option<u16>,
}

impl RecordedRequest {
    /// The first header with that name, in any spelling.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
}

/// A request's place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestId(u64);

#[derive(Debug, Default)]
pub(super) struct RequestLog {
    next: u64,
    kept: VecDeque<RecordedRequest>,
}

impl RequestLog {
    pub(super) fn push(&mut self, mut request: RecordedRequest) -> RequestId {
        request.seq = self.next;
        self.next += 1;
        self.kept.push_back(request);
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
        RequestId(self.next - 1)
    }

    /// Changes a request if it is still kept.
    pub(super) fn update(&mut self, id: RequestId, change: impl FnOnce(&mut RecordedRequest)) {
        let first = self.next - self.kept.len() as u64;
        let at = id.0.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        if let Some(request) = at.and_then(|at| self.kept.get_mut(at)) {
            change(request);
        }
    }

    pub(super) fn all(&self) -> Vec<RecordedRequest> {
        self.kept.iter().cloned().collect()
    }

    /// Forgets all; numbers go on, so that late updates find nothing.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }
}
