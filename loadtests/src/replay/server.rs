//! The server that replays.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::transcript::{Position, Transcript};
use crate::engine::{CloseBy, RecordedRequest, body_hash};
use crate::http1::{Answer, Io, PeerGone, read_body, read_head};
use crate::sync::lock;

const HEAD_LIMIT: usize = 64 * 1024;
const BODY_LIMIT: usize = 64 * 1024 * 1024;
const KEPT_BODY: usize = 64 * 1024;

/// How an answer is replayed.
#[derive(Debug, Clone)]
pub struct Replay {
    /// What was captured.
    pub transcript: Transcript,
    /// Stop there; `None`: all of it.
    pub until: Option<Position>,
    /// How the bytes are split into writes.
    pub split: Split,
    /// What follows the last byte.
    pub ending: Ending,
    /// Between writes (real time), so that they reach the reader apart.
    pub pause: Duration,
}

/// How bytes are split into writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// One write.
    Whole,
    /// One write a byte.
    EveryByte,
    /// Two writes.
    At(Position),
    /// One write for the head, then one for each chunk.
    Chunks,
}

/// What follows the last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The next request, if all of a complete answer was sent that does not say
    /// `connection: close`; else an orderly close.
    Natural,
    /// A close.
    Close(CloseBy),
    /// Nothing, until the client goes.
    Silence,
}

impl Replay {
    /// All of it in one write, then what is natural.
    #[must_use]
    pub fn whole(transcript: Transcript) -> Self {
        Self {
            transcript,
            until: None,
            split: Split::Whole,
            ending: Ending::Natural,
            pause: Duration::ZERO,
        }
    }

    /// The writes.
    fn parts(&self) -> Vec<&[u8]> {
        let t = &self.transcript;
        let end = self.until.map_or(t.raw().len(), |p| t.raw_offset(p));
        let bytes = &t.raw()[..end];
        match self.split {
            Split::Whole => vec![bytes],
            Split::EveryByte => bytes.chunks(1).collect(),
            Split::At(position) => {
                let (a, b) = bytes.split_at(t.raw_offset(position).min(end));
                vec![a, b]
            }
            Split::Chunks => self.chunks(bytes),
        }
    }

    fn chunks<'a>(&self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let t = &self.transcript;
        let mut body = 0;
        let mut edges = vec![t.head().len()];
        for chunk in t.chunks() {
            body += chunk.len();
            // The chunk's data and the line end after it.
            edges.push(t.raw_offset(Position::Body(body)) + 2);
        }
        let mut parts = Vec::new();
        let mut from = 0;
        for edge in edges.into_iter().chain([bytes.len()]) {
            let edge = edge.min(bytes.len());
            parts.push(&bytes[from..edge]);
            from = edge;
        }
        parts
    }
}

/// Replays answers by path. Dropping it stops it and resets its connections.
pub struct ReplayServer {
    state: Arc<State>,
    addr: SocketAddr,
}

#[derive(Default)]
struct State {
    replays: Mutex<HashMap<String, Arc<Replay>>>,
    requests: Mutex<Vec<RecordedRequest>>,
    stop: CancellationToken,
}

impl State {
    fn record(&self, request: RecordedRequest) {
        let mut requests = lock(&self.requests);
        let seq = requests.len() as u64;
        requests.push(RecordedRequest { seq, ..request });
    }
}

impl ReplayServer {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// There is no port.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let state = Arc::new(State::default());
        tokio::spawn(listen(listener, Arc::clone(&state)));
        Ok(Self { state, addr })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers requests to `path` so from now on. Other paths get 404.
    pub fn serve(&self, path: &str, replay: Replay) {
        lock(&self.state.replays).insert(path.to_owned(), Arc::new(replay));
    }

    /// All requests so far; bodies up to 64 KiB are kept.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.state.requests).clone()
    }
}

impl Drop for ReplayServer {
    fn drop(&mut self) {
        self.state.stop.cancel();
    }
}

async fn listen(listener: TcpListener, state: Arc<State>) {
    let started = Instant::now();
    for connection in 1.. {
        let stream = tokio::select! {
            () = state.stop.cancelled() => return,
            stream = listener.accept() => stream,
        };
        let Ok((stream, _)) = stream else { continue };
        let state = Arc::clone(&state);
        tokio::spawn(async move { run(stream, &state, connection, started).await });
    }
}

async fn run(stream: TcpStream, state: &State, connection: u64, started: Instant) {
    let mut io = Io::new(stream);
    let by = tokio::select! {
        biased;
        () = state.stop.cancelled() => CloseBy::Rst,
        by = serve(&mut io, state, connection, started) => by,
    };
    io.close(by).await;
}

async fn serve(io: &mut Io, state: &State, connection: u64, started: Instant) -> CloseBy {
    loop {
        let Ok(head) = read_head(io, HEAD_LIMIT).await else { return CloseBy::Fin };
        let Ok(body) = read_body(io, &head, BODY_LIMIT).await else { return CloseBy::Fin };
        let replay = lock(&state.replays).get(&head.path).cloned();
        let status = replay.as_ref().map_or(404, |r| r.transcript.status());
        state.record(RecordedRequest {
            connection,
            at_ms: started.elapsed().as_secs_f64() * 1e3,
            method: head.method,
            path: head.path,
            query: head.query,
            headers: head.headers,
            body_len: Some(body.len()),
            body_hash: Some(format!("{:016x}", body_hash(&body))),
            status: Some(status),
            body: (body.len() <= KEPT_BODY).then_some(body),
            ..RecordedRequest::default()
        });
        match answer(io, replay.as_deref()).await {
            Ok(Some(by)) => return by,
            Ok(None) => {}
            Err(PeerGone) => return CloseBy::Fin,
        }
    }
}

/// Sends an answer; `Some` if the connection is to be closed.
async fn answer(io: &mut Io, replay: Option<&Replay>) -> Result<Option<CloseBy>, PeerGone> {
    let Some(replay) = replay else {
        let answer = Answer::json(404, r#"{"detail":"Not Found"}"#);
        io.write(&[answer.head(), answer.body].concat()).await?;
        return Ok(None);
    };
    for (at, part) in replay.parts().into_iter().enumerate() {
        if at > 0 {
            pause(io, replay.pause).await?;
        }
        io.write(part).await?;
    }
    match replay.ending {
        Ending::Close(by) => Ok(Some(by)),
        Ending::Silence => {
            io.closed().await;
            Err(PeerGone)
        }
        Ending::Natural => {
            let t = &replay.transcript;
            let all = replay.until.is_none_or(|p| t.raw_offset(p) == t.raw().len());
            let close = t.header("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"));
            Ok((!all || close || !t.is_complete()).then_some(CloseBy::Fin))
        }
    }
}

async fn pause(io: &mut Io, length: Duration) -> Result<(), PeerGone> {
    if length.is_zero() {
        tokio::task::yield_now().await;
        return Ok(());
    }
    tokio::select! {
        () = io.closed() => Err(PeerGone),
        () = tokio::time::sleep(length) => Ok(()),
    }
}
