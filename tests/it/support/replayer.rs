//! An engine that answers each request with the bytes the request names, cut where it says.
//!
//! | request header | meaning |
//! |---|---|
//! | `x-replay: N` | the script to send, as numbered by [`Replayer::add`]; without it an empty 200 |
//! | `x-cut: N` | only its first N bytes, then a close |
//! | `x-end: rst` | close by a reset, not a FIN |
//! | `x-gate: 1` | close only after [`Replayer::release`] with the request's id |
//! | `x-split: 1` | one byte a write |

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A running replayer; stopped by drop.
pub struct Replayer {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    listener: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    scripts: Mutex<Vec<Arc<Vec<u8>>>>,
    gates: Mutex<HashMap<String, Arc<Notify>>>,
    heads: Mutex<Vec<String>>,
}

impl Shared {
    fn gate(&self, id: &str) -> Arc<Notify> {
        self.gates.lock().unwrap().entry(id.to_owned()).or_default().clone()
    }
}

impl Replayer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let task = listen(listener, shared.clone());
        Self { addr, shared, listener: tokio::spawn(task) }
    }

    /// A script, whole: head, framing and body. Its number goes into `x-replay`.
    pub fn add(&self, bytes: impl Into<Vec<u8>>) -> usize {
        let mut scripts = self.shared.scripts.lock().unwrap();
        scripts.push(Arc::new(bytes.into()));
        scripts.len() - 1
    }

    /// Let the gated request with this `x-request-id` end.
    pub fn release(&self, id: &str) {
        self.shared.gate(id).notify_one();
    }

    /// Heads of the requests that got a whole script, in order of arrival; each is told once.
    pub fn heads(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.heads.lock().unwrap())
    }
}

impl Drop for Replayer {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        tokio::spawn(serve(stream, shared.clone()));
    }
}

/// A request as far as it matters here.
struct Ask {
    head: String,
}

impl Ask {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.header(name)?.parse().ok()
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut buffer = Vec::new();
    while let Some(ask) = read_request(&mut stream, &mut buffer).await {
        if !answer(&mut stream, &ask, &shared).await {
            return;
        }
    }
}

/// The next request, its body read and dropped; `None` if the connection ends first.
async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Ask> {
    let end = loop {
        if let Some(at) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            break at + 4;
        }
        read(stream, buffer).await?;
    };
    let ask = Ask { head: String::from_utf8_lossy(&buffer[..end]).into_owned() };
    let whole = end + ask.number("content-length").unwrap_or(0);
    while buffer.len() < whole {
        read(stream, buffer).await?;
    }
    buffer.drain(..whole);
    Some(ask)
}

async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    let read = stream.read_buf(buffer).await.ok()?;
    (read > 0).then_some(())
}

/// Send the answer; `false` if the connection is over.
async fn answer(stream: &mut TcpStream, ask: &Ask, shared: &Shared) -> bool {
    let Some(script) = ask.number("x-replay") else {
        return stream.write_all(EMPTY).await.is_ok();
    };
    let script = shared.scripts.lock().unwrap()[script].clone();
    let cut = ask.number("x-cut");
    if cut.is_none() {
        shared.heads.lock().unwrap().push(ask.head.clone());
    }
    let bytes = &script[..cut.unwrap_or(script.len())];
    if ask.header("x-split").is_some() {
        for byte in bytes.chunks(1) {
            if stream.write_all(byte).await.is_err() {
                return false;
            }
        }
    } else if stream.write_all(bytes).await.is_err() {
        return false;
    }
    if cut.is_none() && ends_by_itself(&script) {
        return true;
    }
    close(stream, ask, shared).await;
    false
}

/// The script's framing says where it ends, and that the connection goes on.
fn ends_by_itself(script: &[u8]) -> bool {
    let head = memchr::memmem::find(script, b"\r\n\r\n").unwrap_or(script.len());
    let head = String::from_utf8_lossy(&script[..head]).to_lowercase();
    let chunked = head.contains("transfer-encoding: chunked") && script.ends_with(b"\r\n0\r\n\r\n");
    !head.contains("connection: close") && (chunked || head.contains("content-length:"))
}

async fn close(stream: &mut TcpStream, ask: &Ask, shared: &Shared) {
    if ask.header("x-gate").is_some() {
        let id = ask.header("x-request-id").unwrap_or_default();
        // A peer that goes away ends the wait too.
        let gate = shared.gate(id);
        tokio::select! {
            () = gate.notified() => {}
            () = gone(stream) => {}
            () = tokio::time::sleep(Duration::from_secs(30)) => {}
        }
        shared.gates.lock().unwrap().remove(id);
    }
    if ask.header("x-end") == Some("rst") {
        let _ = socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO));
    } else {
        let _ = stream.shutdown().await;
        // Unread bytes would turn the close into a reset.
        tokio::select! {
            () = gone(stream) => {}
            () = tokio::time::sleep(Duration::from_secs(5)) => {}
        }
    }
}

async fn gone(stream: &mut TcpStream) {
    let mut sink = [0; 1024];
    while matches!(stream.read(&mut sink).await, Ok(1..)) {}
}
