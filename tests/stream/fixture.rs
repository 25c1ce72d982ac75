//! Captured answers: head, chunk framing and body taken apart.

use bytes::Bytes;
use std::path::Path;
use std::time::Instant;
use streamgate::core::api::Api;
use streamgate::core::stream::{StreamTracker, TrackerOptions};

/// A captured answer.
pub struct Answer {
    pub status: u16,
    /// The chunks of the body as the engine framed them; one for an unframed body.
    pub chunks: Vec<Bytes>,
}

impl Answer {
    pub fn load(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vllm").join(name);
        let raw = std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let head_end = memchr::memmem::find(&raw, b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8(raw[..head_end].to_vec()).unwrap().to_ascii_lowercase();
        let body = Bytes::from(raw).slice(head_end..);
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let chunked = head.contains("transfer-encoding: chunked");
        Self { status, chunks: if chunked { dechunk(body) } else { vec![body] } }
    }

    pub fn body(&self) -> Bytes {
        Bytes::from(self.chunks.concat())
    }
}

/// Take the chunk framing away; a capture that was cut ends where its bytes end.
fn dechunk(mut body: Bytes) -> Vec<Bytes> {
    let mut chunks = Vec::new();
    while let Some(line) = memchr::memmem::find(&body, b"\r\n") {
        let size = std::str::from_utf8(&body[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        let data = line + 2..line + 2 + size;
        chunks.push(body.slice(data.clone()));
        assert_eq!(&body[data.end..data.end + 2], b"\r\n");
        body = body.slice(data.end + 2..);
    }
    chunks
}

/// Neither hides anything but the engine's abort.
pub const DEFAULT: TrackerOptions =
    TrackerOptions { hide_usage: false, hide_abort: true, max_event: 1 << 20 };

/// A tracker and everything it let through.
#[derive(Clone)]
pub struct Run {
    pub tracker: StreamTracker,
    pub forwarded: Vec<u8>,
    fed: u64,
}

impl Run {
    pub fn new(api: Api, options: TrackerOptions) -> Self {
        Self { tracker: StreamTracker::new(api, options), forwarded: Vec::new(), fed: 0 }
    }

    /// Feed one chunk; every byte must be accounted for.
    pub fn feed(&mut self, chunk: Bytes) {
        self.fed += chunk.len() as u64;
        let mut out = Vec::new();
        self.tracker.feed(chunk, Instant::now(), &mut out);
        self.took(&out);
    }

    pub fn finish(&mut self) {
        let mut out = Vec::new();
        self.tracker.finish_input(&mut out);
        self.took(&out);
        assert_eq!(self.tracker.pending_bytes(), 0, "the end decides about every byte");
    }

    fn took(&mut self, out: &[Bytes]) {
        assert!(out.iter().all(|bytes| !bytes.is_empty()));
        out.iter().for_each(|bytes| self.forwarded.extend_from_slice(bytes));
        let tracker = &self.tracker;
        assert_eq!(self.forwarded.len() as u64, tracker.forwarded_bytes());
        assert_eq!(
            self.fed,
            tracker.forwarded_bytes() + tracker.withheld_bytes() + tracker.pending_bytes()
        );
    }

    /// The whole of `chunks`, cleanly ended.
    pub fn whole(api: Api, options: TrackerOptions, chunks: &[Bytes]) -> Self {
        let mut run = Self::new(api, options);
        chunks.iter().for_each(|chunk| run.feed(chunk.clone()));
        run.finish();
        run
    }

    /// The whole of `body` in one chunk, cleanly ended.
    pub fn once(api: Api, options: TrackerOptions, body: &Bytes) -> Self {
        Self::whole(api, options, std::slice::from_ref(body))
    }

    /// What the tracker learned, without times, for comparison.
    pub fn facts(&self) -> String {
        let t = &self.tracker;
        format!(
            "{:?} {:?} {:?} missing={} {:?} {:?} aborted={} early={} events={}/{}/{} tokens={} sealed={}",
            t.verdict(),
            t.progress(),
            t.usage(),
            t.usage_missing(),
            t.finish_reasons(),
            t.error(),
            t.aborted(),
            t.early_abort(),
            t.events(),
            t.content_events(),
            t.unread_events(),
            t.tokens_at_least(),
            t.is_sealed(),
        )
    }
}

/// One-byte chunks of `body`.
pub fn bytewise(body: &Bytes) -> Vec<Bytes> {
    (0..body.len()).map(|at| body.slice(at..=at)).collect()
}
