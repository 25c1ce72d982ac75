//! Shared by the tests: a client that sees every byte, ordered JSON, fixtures.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod json;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use streamgate_loadtests::replay::Transcript;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A bound on every wait; far above what anything takes.
pub const BOUND: Duration = Duration::from_secs(20);

pub fn fixture(name: &str) -> Transcript {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/vllm");
    Transcript::load(format!("{dir}/{name}.raw")).unwrap()
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its framing was complete; the connection is still open.
    Complete,
    Fin,
    Reset,
    /// Nothing came for the given time.
    Silent,
}

/// A connection of which every byte is kept.
pub struct Client {
    pub stream: TcpStream,
    pub raw: Vec<u8>,
    /// When each read arrived, and its length.
    pub reads: Vec<(Instant, usize)>,
}

impl Client {
    pub async fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, raw: Vec::new(), reads: Vec::new() }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads once more; how it ended if it did.
    pub async fn read(&mut self, within: Duration) -> Option<End> {
        let mut buffer = vec![0; 64 * 1024];
        match tokio::time::timeout(within, self.stream.read(&mut buffer)).await {
            Err(_) => Some(End::Silent),
            Ok(Ok(0)) => Some(End::Fin),
            Ok(Err(_)) => Some(End::Reset),
            Ok(Ok(n)) => {
                self.raw.extend_from_slice(&buffer[..n]);
                self.reads.push((Instant::now(), n));
                None
            }
        }
    }

    /// Reads until `done`, or an end.
    pub async fn until(&mut self, done: impl Fn(&[u8]) -> bool) -> End {
        loop {
            if done(&self.raw) {
                return End::Complete;
            }
            if let Some(end) = self.read(BOUND).await {
                return end;
            }
        }
    }

    /// Reads a whole answer.
    pub async fn answer(&mut self) -> (Option<Transcript>, End) {
        let end = self.until(complete).await;
        (Transcript::from_bytes(std::mem::take(&mut self.raw)).ok(), end)
    }

    /// Reads until `done`, and then sees nothing more for a while.
    pub async fn falls_silent(&mut self, done: impl Fn(&[u8]) -> bool) {
        assert_eq!(self.until(done).await, End::Complete);
        assert_eq!(self.read(Duration::from_millis(150)).await, Some(End::Silent));
    }

    /// Reads until the connection has ended.
    pub async fn read_to_end(&mut self) -> End {
        self.until(|_| false).await
    }

    /// A reset.
    pub fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

fn complete(raw: &[u8]) -> bool {
    // Parsing everything after every read would cost more than the engine under test.
    let head = &raw[..raw.len().min(400)];
    if head.windows(7).any(|w| w == b"chunked") && !raw.ends_with(b"0\r\n\r\n") {
        return false;
    }
    Transcript::from_bytes(raw.to_vec()).is_ok_and(|t| t.is_complete())
}

pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: engine\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() {
        text += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    }
    text + "\r\n" + body
}

/// Number of events, or `None` before the head is whole.
pub fn event_count(raw: &[u8]) -> Option<usize> {
    let head = raw.windows(4).position(|w| w == b"\r\n\r\n")?;
    Some(raw[head..].windows(2).filter(|w| w == b"\n\n").count())
}

/// Repeats a measurement that a busy machine may spoil: it must succeed once.
pub async fn at_best<F: Future<Output = Result<(), String>>>(measure: impl Fn() -> F) {
    let mut failures = Vec::new();
    for _ in 0..8 {
        match measure().await {
            Ok(()) => return,
            Err(failure) => failures.push(failure),
        }
    }
    panic!("never in {} times: {failures:?}", failures.len());
}

/// One request on its own connection.
pub async fn ask(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (Option<Transcript>, End) {
    let mut client = Client::connect(addr).await;
    client.send(request(method, path, headers, body)).await;
    client.answer().await
}

/// One request that is answered completely.
pub async fn get(addr: SocketAddr, path: &str) -> Transcript {
    whole(ask(addr, "GET", path, &[], "").await)
}

pub async fn post(
    addr: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Transcript {
    whole(ask(addr, "POST", path, headers, body).await)
}

pub fn whole((transcript, end): (Option<Transcript>, End)) -> Transcript {
    assert_eq!(end, End::Complete);
    transcript.unwrap()
}

/// A streaming completion of that many tokens.
pub fn completion(tokens: u32) -> String {
    format!(
        r#"{{"prompt":"hello there","max_tokens":{tokens},"stream":true,"stream_options":{{"include_usage":true}}}}"#
    )
}

/// The same, not streaming.
pub fn plain_completion(tokens: u32) -> String {
    format!(r#"{{"prompt":"hello there","max_tokens":{tokens}}}"#)
}

/// Name and data of each event of a stream in vLLM's plain form; one event a chunk.
pub fn events(transcript: &Transcript) -> Vec<(Option<String>, String)> {
    transcript
        .chunks()
        .map(|chunk| std::str::from_utf8(chunk).unwrap())
        .filter(|chunk| !chunk.starts_with(':'))
        .map(|chunk| {
            let block = chunk.strip_suffix("\n\n").unwrap_or_else(|| panic!("no event: {chunk}"));
            assert!(!block.contains("\n\n"), "two events in a chunk: {chunk}");
            match block.strip_prefix("event: ") {
                None => (None, block.strip_prefix("data: ").unwrap().to_owned()),
                Some(rest) => {
                    let (name, data) = rest.split_once("\ndata: ").unwrap();
                    (Some(name.to_owned()), data.to_owned())
                }
            }
        })
        .collect()
}

pub fn text(transcript: &Transcript) -> String {
    String::from_utf8(transcript.body()).unwrap()
}
