//! Clients of the replayed captures.

use super::capture::{Capture, Expected};
use crate::support::gate::key;
use crate::support::replayer::Replayer;
use crate::support::wire::{Ending, Wire};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

/// One request for one capture, cut or whole.
pub struct Job {
    pub id: String,
    capture: Arc<Capture>,
    script: usize,
    cut: Option<usize>,
    rst: bool,
    hide: bool,
    split: bool,
    http10: bool,
}

/// What the client saw of a job; compared already, save for the log.
pub struct Seen {
    pub id: String,
    pub bytes: usize,
    pub faults: Faults,
}

impl Job {
    pub fn new(capture: Arc<Capture>, script: usize) -> Self {
        let id = format!("{}.{script}", capture.name);
        Self {
            id,
            capture,
            script,
            cut: None,
            rst: false,
            hide: false,
            split: false,
            http10: false,
        }
    }

    fn named(mut self, part: &str) -> Self {
        let _ = write!(self.id, ".{part}");
        self
    }

    pub fn cut(self, at: usize, rst: bool) -> Self {
        let end = if rst { "rst" } else { "fin" };
        Self { cut: Some(at), rst, ..self }.named(&format!("{at}.{end}"))
    }

    pub fn hide(self, hide: bool) -> Self {
        if hide { Self { hide, ..self }.named("hide") } else { self }
    }

    pub fn split(self) -> Self {
        Self { split: true, ..self }.named("split")
    }

    pub fn http10(self) -> Self {
        Self { http10: true, ..self }.named("http10")
    }

    pub fn expected(&self) -> Expected {
        let at = self.cut.unwrap_or(self.capture.raw.len());
        self.capture.expected(at, self.hide)
    }

    /// Whether the engine's end waits until the client has all that came before it. A FIN comes
    /// in order anyway; a reset may overtake bytes.
    fn is_gated(&self, expected: &Expected) -> bool {
        self.rst && expected.before_end > 0
    }

    fn bytes(&self, expected: &Expected) -> Vec<u8> {
        let Capture { method, path, request, .. } = &*self.capture;
        let body = if self.hide { &self.capture.request_without_options() } else { request };
        let version = if self.http10 { "1.0" } else { "1.1" };
        let mut head = format!("{method} {path} HTTP/{version}\r\nhost: gate\r\n");
        let mut header = |name: &str, value: &str| {
            let _ = write!(head, "{name}: {value}\r\n");
        };
        header("authorization", &format!("Bearer {}", key("a")));
        header("x-request-id", &self.id);
        header("x-replay", &self.script.to_string());
        if let Some(cut) = self.cut {
            header("x-cut", &cut.to_string());
        }
        for (name, on) in [("x-gate", self.is_gated(expected)), ("x-split", self.split)] {
            if on {
                header(name, "1");
            }
        }
        if self.rst {
            header("x-end", "rst");
        }
        if !body.is_empty() {
            header("content-type", "application/json");
            header("content-length", &body.len().to_string());
        }
        head.push_str("\r\n");
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

/// One client that keeps its connection as long as it may.
pub struct Lane {
    to: SocketAddr,
    replayer: Arc<Replayer>,
    wire: Option<Wire>,
}

impl Lane {
    pub fn new(to: SocketAddr, replayer: Arc<Replayer>) -> Self {
        Self { to, replayer, wire: None }
    }

    /// Ask, and compare the answer with what it must be.
    pub async fn ask(&mut self, job: &Job, expected: &Expected) -> Seen {
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => Wire::connect(self.to).await,
        };
        wire.send(&job.bytes(expected)).await;
        let Some((status, headers)) = wire.head().await else {
            let faults = Faults(vec![format!("{}: no answer", job.id)]);
            return Seen { id: job.id.clone(), bytes: 0, faults };
        };
        let gate = job.is_gated(expected).then_some(expected.before_end);
        let mut body = Body { job, gate, replayer: &self.replayer, bytes: Vec::new() };
        let ending = body.read(&mut wire, status, &headers).await;
        let answer = Answer { status, headers, body: body.bytes, ending };
        let closes = answer.headers.get("connection").is_some_and(|value| value == "close");
        if ending == Ending::Whole && !closes && !job.http10 {
            self.wire = Some(wire);
        }
        let faults = compare(job, expected, &answer);
        Seen { id: job.id.clone(), bytes: answer.body.len(), faults }
    }
}

struct Body<'a> {
    job: &'a Job,
    /// Bytes after which the engine's connection may end.
    gate: Option<usize>,
    replayer: &'a Replayer,
    bytes: Vec<u8>,
}

impl Body<'_> {
    async fn read(
        &mut self,
        wire: &mut Wire,
        status: u16,
        headers: &BTreeMap<String, String>,
    ) -> Ending {
        let length = headers.get("content-length").map(|length| length.parse::<usize>().unwrap());
        if self.job.capture.method == "HEAD" || status == 204 {
            return Ending::Whole;
        }
        if length.is_none() && headers.contains_key("transfer-encoding") {
            return loop {
                match wire.chunk().await {
                    Ok(Some(chunk)) => self.take(&chunk),
                    Ok(None) => break Ending::Whole,
                    Err(ending) => break ending,
                }
            };
        }
        loop {
            let some = wire.take_buffered(length.map_or(usize::MAX, |l| l - self.bytes.len()));
            self.take(&some);
            if length == Some(self.bytes.len()) {
                return Ending::Whole;
            }
            match wire.more().await {
                Ok(()) => {}
                Err(Ending::Cut) if length.is_none() => return Ending::Whole,
                Err(ending) => return ending,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.gate.take_if(|gate| self.bytes.len() >= *gate).is_some() {
            self.replayer.release(&self.job.id);
        }
    }
}

/// What differs from what must be, collected: the first of thousands of jobs is not the most
/// telling one.
#[derive(Default)]
pub struct Faults(pub Vec<String>);

impl Faults {
    pub fn equal<T: PartialEq + Debug>(&mut self, id: &str, what: &str, is: T, must: T) {
        if is != must {
            self.0.push(format!("{id}: {what} is {is:?}, must be {must:?}"));
        }
    }
}

/// An answer as a client sees it.
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
    ending: Ending,
}

fn compare(job: &Job, expected: &Expected, answer: &Answer) -> Faults {
    let (id, mut faults) = (&job.id, Faults::default());
    let header = |name: &str| answer.headers.get(name).map(String::as_str);
    faults.equal(id, "status", answer.status, expected.status);
    faults.equal(id, "x-request-id", header("x-request-id"), Some(id));
    faults.equal(id, "reason", header("x-streamgate-reason"), expected.reason);
    faults.equal(id, "ending", answer.ending == Ending::Whole, expected.whole);
    if expected.reason.is_some() {
        if job.capture.method != "HEAD" {
            compare_refusal(job, expected, &answer.body, &mut faults);
        }
        return faults;
    }
    let headers = Capture::comparable(&answer.headers);
    faults.equal(id, "headers", headers, job.capture.passed_headers());
    let (start, tail) = answer.body.split_at(expected.body.len().min(answer.body.len()));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    faults.equal(id, "body", text(start), text(&expected.body));
    match expected.event {
        None => faults.equal(id, "tail", text(tail), String::new()),
        Some(code) => compare_event(job, code, &text(tail), &mut faults),
    }
    faults
}

fn is_anthropic(job: &Job) -> bool {
    job.capture.path.starts_with("/v1/messages")
}

fn compare_refusal(job: &Job, expected: &Expected, body: &[u8], faults: &mut Faults) {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    if is_anthropic(job) {
        faults.equal(&job.id, "type", body["type"].as_str(), Some("error"));
        faults.equal(&job.id, "request_id", body["request_id"].as_str(), Some(&job.id));
    } else {
        faults.equal(&job.id, "code", body["error"]["code"].as_str(), expected.reason);
    }
    faults.equal(&job.id, "a message", body["error"]["message"].is_string(), true);
}

/// One event in the shape of the API, which its client library takes for an error.
fn compare_event(job: &Job, code: &str, tail: &str, faults: &mut Faults) {
    let data = tail.strip_prefix("event: error\ndata: ").and_then(|d| d.strip_suffix("\n\n"));
    faults.equal(&job.id, &format!("one event in {tail:?}"), data.is_some(), true);
    let data: Value = serde_json::from_str(data.unwrap_or_default()).unwrap_or_default();
    if is_anthropic(job) {
        let kinds = (data["type"].as_str(), data["error"]["type"].as_str());
        faults.equal(&job.id, "event", kinds, (Some("error"), Some("api_error")));
    } else {
        faults.equal(&job.id, "event", data["error"]["code"].as_str(), Some(code));
    }
}
