//! One captured answer, and what a client must see of it when it is cut at a byte.
//!
//! Everything here is found by searching the captured bytes; nothing is asked of the product.

use serde_json::Value;
use std::path::Path;
use streamgate_loadtests::replay::Transcript;

use super::table::{self, Api};

/// Headers that are set anew at each hop, or by the gate.
const HOP: [&str; 5] = ["connection", "date", "keep-alive", "transfer-encoding", "x-request-id"];

/// A captured answer and the request it answers.
pub struct Capture {
    pub name: String,
    pub method: String,
    pub path: String,
    pub request: String,
    pub raw: Vec<u8>,
    pub status: u16,
    pub body: Vec<u8>,
    pub headers: Vec<(String, String)>,
    head_len: usize,
    /// Where each piece of the body begins: on the wire, in the body.
    pieces: Vec<(usize, usize)>,
    shape: Shape,
}

/// How an answer of this kind passes.
enum Shape {
    /// An understood event stream.
    Stream(Box<Stream>),
    /// An understood plain answer: held until it is whole.
    Held,
    /// An error of the engine: read whole; the reason if the gate answers instead of it.
    Failed(Option<&'static str>),
    /// Passed on as it comes.
    Passed,
}

struct Stream {
    events: Vec<Event>,
}

/// One event; `end` is the offset after its blank line.
struct Event {
    start: usize,
    end: usize,
    content: bool,
    usage: Option<(u64, u64)>,
    extra_usage: bool,
    decides: Option<Decision>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Terminal,
    Error,
    Abort,
}

/// What a client and the log must show.
#[derive(Debug, PartialEq)]
pub struct Expected {
    pub status: u16,
    /// `x-streamgate-reason` of the gate's own answer; else the body is the engine's.
    pub reason: Option<&'static str>,
    /// The engine's bytes that the client gets.
    pub body: Vec<u8>,
    /// The code of the error event that follows them.
    pub event: Option<&'static str>,
    pub whole: bool,
    pub outcome: &'static str,
    pub tokens: Tokens,
    /// Bytes of `body` that must have come before the engine's connection ends.
    pub before_end: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    pub prompt: Option<u64>,
    pub completion: Option<u64>,
    pub estimated: bool,
}

impl Capture {
    /// Load `NAME.raw`; `None` if it holds no answer.
    pub fn load(path: &Path) -> Option<Self> {
        let transcript = Transcript::load(path).ok()?;
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let (method, path, request) = table::request(&name, transcript.request());
        Some(Self::new(name, [method, path, request], &transcript))
    }

    fn new(name: String, request: [String; 3], transcript: &Transcript) -> Self {
        let [method, path, request] = request;
        let raw = transcript.raw().to_vec();
        let base = transcript.raw().as_ptr() as usize;
        let (mut pieces, mut at) = (Vec::new(), 0);
        for chunk in transcript.chunks() {
            pieces.push((chunk.as_ptr() as usize - base, at));
            at += chunk.len();
        }
        let body = transcript.body();
        let event_stream = transcript.header("content-type").unwrap_or_default();
        let shape = match (Api::of(&path), transcript.status()) {
            (_, 500..) => Shape::Failed(table::answered_instead(&name)),
            (Some(api), 200) if event_stream.starts_with("text/event-stream") => {
                Shape::Stream(Box::new(Stream { events: events(api, &body) }))
            }
            (Some(_), 200) => Shape::Held,
            _ => Shape::Passed,
        };
        let head_len = transcript.head().len();
        let (status, headers) = (transcript.status(), transcript.headers().to_vec());
        Self { name, method, path, request, raw, status, body, headers, head_len, pieces, shape }
    }

    /// The same with whole chunks left out of its middle, so that it ends with at least `edge`
    /// bytes of this one's end. What cuts there meet is the same, without the way to it.
    pub fn abridged(&self, edge: usize) -> Option<Self> {
        // Where the size lines of chunks begin; the first piece's is right after the head.
        let lines: Vec<usize> = (1..self.pieces.len())
            .map(|at| {
                let ((wire, start), next) = (self.pieces[at - 1], self.pieces[at].1);
                wire + (next - start) + 2
            })
            .collect();
        let from = *lines.iter().find(|line| **line >= edge)?;
        let to = *lines.iter().rev().find(|line| self.raw.len() - **line >= edge)?;
        let raw = [&self.raw[..from], self.raw.get(to..).filter(|_| from < to)?].concat();
        let transcript = Transcript::from_bytes(raw).unwrap();
        let request = [&self.method, &self.path, &self.request].map(Clone::clone);
        Some(Self::new(format!("{}.abridged", self.name), request, &transcript))
    }

    /// The headers that must reach the client as they are, sorted.
    pub fn passed_headers(&self) -> Vec<(String, String)> {
        let mut passed: Vec<_> = self
            .headers
            .iter()
            .map(|(name, value)| (name.to_lowercase(), value.clone()))
            .filter(|(name, _)| !HOP.contains(&name.as_str()))
            .collect();
        passed.sort();
        passed
    }

    /// `headers` of an answer without those that are set anew.
    pub fn comparable(
        headers: &std::collections::BTreeMap<String, String>,
    ) -> Vec<(String, String)> {
        let kept = headers.iter().filter(|(name, _)| !HOP.contains(&name.as_str()));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// An event stream with the extra usage chunk that a client may not have asked for.
    pub fn has_extra_usage(&self) -> bool {
        matches!(&self.shape, Shape::Stream(stream) if stream.events.iter().any(|e| e.extra_usage))
    }

    /// The engine says that it drains, and is not asked again.
    pub fn drains(&self) -> bool {
        matches!(self.shape, Shape::Failed(Some("no_endpoint")))
    }

    /// The request without `stream_options`.
    pub fn request_without_options(&self) -> String {
        let mut request: Value = serde_json::from_str(&self.request).unwrap();
        request.as_object_mut().unwrap().remove("stream_options");
        request.to_string()
    }

    /// How many bytes of the body the first `cut` bytes on the wire hold.
    fn body_at(&self, cut: usize) -> usize {
        let piece = self.pieces.partition_point(|(wire, _)| *wire <= cut);
        let Some((wire, start)) = piece.checked_sub(1).map(|at| self.pieces[at]) else { return 0 };
        let end = self.pieces.get(piece).map_or(self.body.len(), |(_, start)| *start);
        (start + cut - wire).min(end)
    }

    /// What must come of the first `cut` bytes. `hide`: the client did not ask for usage.
    pub fn expected(&self, cut: usize, hide: bool) -> Expected {
        let (have, head) = (self.body_at(cut), cut >= self.head_len);
        let all = have == self.body.len();
        match &self.shape {
            Shape::Stream(stream) if head => {
                stream.expected(&self.body, have, hide).unwrap_or_else(Expected::unreachable)
            }
            Shape::Held if head && all => Expected {
                tokens: plain_tokens(&self.body),
                ..Expected::passed(self.status, &self.body, true, "complete")
            },
            Shape::Failed(Some(reason)) if head && all => Expected {
                reason: Some(reason),
                status: 503,
                body: Vec::new(),
                ..Expected::passed(503, b"", true, "upstream_error")
            },
            Shape::Failed(None) if head && all => {
                Expected::passed(self.status, &self.body, true, "upstream_error")
            }
            Shape::Passed if head => {
                let outcome = match (all, self.status) {
                    (false, _) => "truncated",
                    (true, 400..) => "upstream_error",
                    (true, _) => "complete",
                };
                let expected = Expected::passed(self.status, &self.body[..have], all, outcome);
                Expected { before_end: if all { 0 } else { have }, ..expected }
            }
            _ => Expected::unreachable(),
        }
    }
}

impl Expected {
    fn passed(status: u16, body: &[u8], whole: bool, outcome: &'static str) -> Self {
        Self {
            status,
            reason: None,
            body: body.to_vec(),
            event: None,
            whole,
            outcome,
            tokens: Tokens::default(),
            before_end: 0,
        }
    }

    fn unreachable() -> Self {
        let reason = Some("upstream_unreachable");
        Self { reason, ..Self::passed(502, b"", true, "upstream_error") }
    }
}

impl Stream {
    /// What is seen of the first `have` bytes of the body; `None`: nothing, since none of it
    /// shows progress.
    fn expected(&self, body: &[u8], have: usize, hide: bool) -> Option<Expected> {
        let whole = &self.events[..self.events.partition_point(|event| event.end <= have)];
        whole.iter().find(|event| event.content)?;
        let decision = whole.iter().find_map(|event| Some((event.start, event.decides?)));
        let last = whole.last().map_or(0, |event| event.end);
        let (until, event, outcome) = match decision {
            Some((_, Decision::Terminal)) => (have, None, "complete"),
            Some((start, Decision::Error)) => (start, Some("upstream_error"), "upstream_error"),
            Some((start, Decision::Abort)) => (start, Some("upstream_abort"), "truncated"),
            None => (last, Some("upstream_truncated"), "truncated"),
        };
        let mut seen = body[..until].to_vec();
        if hide {
            let shown = whole.iter().filter(|event| event.end <= until);
            for event in shown.filter(|event| event.extra_usage).rev() {
                seen.drain(event.start..event.end);
            }
        }
        let held_terminal = match decision {
            Some((start, Decision::Terminal)) => body[start..until].len(),
            _ => 0,
        };
        Some(Expected {
            before_end: seen.len() - held_terminal,
            body: seen,
            event,
            whole: event.is_none(),
            tokens: self.tokens(whole),
            ..Expected::passed(200, b"", true, outcome)
        })
    }

    /// What the request is charged: the engine's last report, and one token for each event with
    /// content after it.
    fn tokens(&self, whole: &[Event]) -> Tokens {
        let (mut reported, mut since, mut any) = (None, 0, false);
        for event in whole {
            if matches!(event.decides, Some(Decision::Error)) {
                break;
            }
            // The abort's own chunk is withheld, so its content is not delivered.
            since += u64::from(event.content && event.decides.is_none());
            any |= event.content;
            if let Some(usage) = event.usage {
                (reported, since) = (Some(usage), 0);
            }
        }
        Tokens {
            prompt: reported.map(|(prompt, _)| prompt),
            completion: any.then(|| reported.map_or(0, |(_, completion)| completion) + since),
            estimated: since > 0,
        }
    }
}

fn events(api: Api, body: &[u8]) -> Vec<Event> {
    let (mut found, mut start) = (Vec::new(), 0);
    while let Some(at) = memchr::memmem::find(&body[start..], b"\n\n") {
        let end = start + at + 2;
        let text = std::str::from_utf8(&body[start..end]).unwrap();
        found.push(event(api, text, start, end));
        start = end;
    }
    found
}

fn event(api: Api, text: &str, start: usize, end: usize) -> Event {
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default();
    let named_error = text.starts_with("event: error\n");
    let json: Value = serde_json::from_str(data).unwrap_or_default();
    let decides = match data {
        "[DONE]" => Some(Decision::Terminal),
        _ if named_error || json.get("error").is_some_and(|error| !error.is_null()) => {
            Some(Decision::Error)
        }
        _ if data.contains("\"finish_reason\":\"abort\"") => Some(Decision::Abort),
        _ => api.is_terminal(&json).then_some(Decision::Terminal),
    };
    Event {
        start,
        end,
        content: api.has_content(&json),
        usage: api.usage(&json),
        extra_usage: json["choices"].as_array().is_some_and(Vec::is_empty)
            && json["usage"].is_object(),
        decides,
    }
}

fn plain_tokens(body: &[u8]) -> Tokens {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let usage = &json["usage"];
    let first = |names: [&str; 2]| names.iter().find_map(|name| usage[*name].as_u64());
    Tokens {
        prompt: first(["prompt_tokens", "input_tokens"]),
        completion: first(["completion_tokens", "output_tokens"]),
        estimated: false,
    }
}
