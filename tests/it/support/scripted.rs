//! An engine of which a test writes every byte and decides every close.

use super::bounded;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// Accepts connections and hands over their requests; health probes are answered.
pub struct Scripted {
    pub addr: SocketAddr,
    requests: mpsc::UnboundedReceiver<Taken>,
    _task: AbortOnDropHandle<()>,
}

/// A request whose answer is the test's.
pub struct Taken {
    pub head: String,
    pub body: Vec<u8>,
    pub stream: TcpStream,
}

/// The head of a stream as vLLM sends it.
pub const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                               transfer-encoding: chunked\r\n\r\n";

impl Scripted {
    pub async fn start() -> Self {
        Self::listen(true).await
    }

    /// One that hands a request over when its head has come, and leaves the body unread.
    pub async fn start_unread() -> Self {
        Self::listen(false).await
    }

    async fn listen(whole: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (send, requests) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(take(stream, whole, send.clone()));
            }
        });
        Self { addr, requests, _task: AbortOnDropHandle::new(task) }
    }

    /// The next request.
    pub async fn next(&mut self) -> Taken {
        bounded("a request at the engine", self.requests.recv()).await.unwrap()
    }

    /// A request that has already come.
    pub fn try_next(&mut self) -> Option<Taken> {
        self.requests.try_recv().ok()
    }
}

async fn take(mut stream: TcpStream, whole: bool, to: mpsc::UnboundedSender<Taken>) {
    let _ = stream.set_nodelay(true);
    if let Some((head, body)) = read_request(&mut stream, whole).await {
        if head.starts_with("GET /health ") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        } else {
            let _ = to.send(Taken { head, body, stream });
        }
    }
}

async fn read_request(stream: &mut TcpStream, whole: bool) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?.to_ascii_lowercase();
    let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    let mut body = bytes.split_off(end);
    while whole && body.len() < length {
        (stream.read_buf(&mut body).await.ok()? > 0).then_some(())?;
    }
    // The path keeps its case.
    let first = String::from_utf8(bytes).ok()?;
    let line = first.split("\r\n").next()?.to_owned();
    let rest = head.split_once("\r\n")?.1;
    Some((format!("{line}\r\n{rest}"), body))
}

impl Taken {
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Write if the other side still takes it.
    pub async fn try_write(&mut self, text: &str) -> std::io::Result<()> {
        self.stream.write_all(text.as_bytes()).await
    }

    /// Write one chunk if the other side still takes it.
    pub async fn try_chunk(&mut self, text: &str) -> std::io::Result<()> {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.stream.write_all(chunk.as_bytes()).await
    }

    /// Write one chunk of a chunked body.
    pub async fn chunk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let head = format!("{:x}\r\n", bytes.len());
        self.write([head.as_bytes(), bytes, b"\r\n"].concat()).await;
    }

    /// Write the proper end of a chunked body.
    pub async fn end(&mut self) {
        self.write("0\r\n\r\n").await;
    }

    /// Wait until the other side has closed; no byte may come before.
    pub async fn closed(&mut self) {
        let mut byte = [0];
        match bounded("the proxy closes", self.stream.read(&mut byte)).await {
            Ok(0) | Err(_) => {}
            Ok(_) => panic!("a byte after the request"),
        }
    }

    /// Read on until the other side has closed; what comes is part of the request.
    pub async fn drained(&mut self) {
        let mut bytes = vec![0; 64 * 1024];
        let read = async { while matches!(self.stream.read(&mut bytes).await, Ok(1..)) {} };
        bounded("the proxy closes", read).await;
    }

    /// Bytes of the next read of the request.
    pub async fn read_some(&mut self) -> usize {
        let mut bytes = vec![0; 64 * 1024];
        bounded("more of the request", self.stream.read(&mut bytes)).await.unwrap()
    }

    /// Send FIN; nothing is read.
    pub async fn half_close(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Its close will be a reset.
    pub fn reset(&self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    }

    /// The next request on the same connection.
    pub async fn again(mut self) -> Option<Self> {
        let (head, body) =
            bounded("the next request", read_request(&mut self.stream, true)).await?;
        Some(Self { head, body, stream: self.stream })
    }
}

/// One event of a chat stream with this text.
pub fn chat_event(text: &str) -> String {
    format!(
        "data: {{\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"sim\",\
         \"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

/// The events that end a chat stream properly.
pub const CHAT_END: &str = "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\
     \"model\":\"sim\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
     data: [DONE]\n\n";
