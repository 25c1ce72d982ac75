//! HTTP/1.1 on a bare socket: tests see framing, resets and silence as they are.

use super::bounded;
pub use super::request::{Request, chat};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Header names in lower case, and values.
pub type Headers = BTreeMap<String, String>;

/// How the bytes of an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The last chunk, or as many bytes as Content-Length said.
    Whole,
    /// The connection closed before that.
    Cut,
    /// The connection was reset before that.
    Reset,
}

/// A received answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Headers,
    pub body: Vec<u8>,
    pub ending: Ending,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn reason(&self) -> Option<&str> {
        self.headers.get("x-streamgate-reason").map(String::as_str)
    }
}

/// One client connection.
pub struct Wire {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    pub async fn connect(to: SocketAddr) -> Self {
        Self::try_connect(to).await.unwrap()
    }

    /// A connection to somebody who may be gone.
    pub async fn try_connect(to: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Send if the other side still takes it.
    pub async fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Read the body of an answer with this head.
    pub async fn rest_of(&mut self, (status, headers): (u16, Headers)) -> Answer {
        self.body(Answer { status, headers, body: Vec::new(), ending: Ending::Whole }).await
    }

    /// One request, one answer.
    pub async fn call(&mut self, request: &Request) -> Answer {
        self.send(&request.bytes()).await;
        self.answer().await
    }

    /// Send while reading: an answer may come before everything is sent, and a refused upload is
    /// not sent to its end.
    pub async fn duplex(&mut self, bytes: &[u8]) -> Answer {
        let (mut read, mut write) = self.stream.split();
        let mut first = Vec::new();
        tokio::select! {
            sent = write.write_all(bytes) => drop(sent),
            _ = read.read_buf(&mut first) => {}
        }
        self.buffer.append(&mut first);
        self.answer().await
    }

    /// Read one answer to its end.
    pub async fn answer(&mut self) -> Answer {
        self.try_answer().await.expect("an answer's head")
    }

    /// Read one answer to its end; `None` if the connection ends before its head.
    pub async fn try_answer(&mut self) -> Option<Answer> {
        let (status, headers) = self.head().await?;
        let answer = Answer { status, headers, body: Vec::new(), ending: Ending::Whole };
        Some(self.body(answer).await)
    }

    async fn body(&mut self, mut answer: Answer) -> Answer {
        let length = answer.headers.get("content-length").and_then(|n| n.parse().ok());
        if matches!(answer.status, 204 | 304) {
            return answer;
        }
        answer.ending = match length {
            Some(length) => self.exactly(length, &mut answer.body).await,
            None if answer.headers.contains_key("transfer-encoding") => {
                self.chunks(&mut answer.body).await
            }
            None => self.to_close(&mut answer.body).await,
        };
        answer
    }

    /// Status and headers of the next answer, interim ones skipped; `None` if the connection ends
    /// first.
    pub async fn head(&mut self) -> Option<(u16, Headers)> {
        loop {
            let end = loop {
                if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                    break at + 4;
                }
                if self.more().await.is_err() {
                    return None;
                }
            };
            let head: Vec<u8> = self.buffer.drain(..end).collect();
            let head = String::from_utf8(head).unwrap();
            let mut lines = head.split("\r\n");
            let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
            if status < 200 {
                continue;
            }
            let headers = lines.filter_map(|line| line.split_once(": "));
            return Some((status, headers.map(|(k, v)| (k.to_lowercase(), v.into())).collect()));
        }
    }

    /// The next chunk of a chunked body; `Ok(None)` after the last one.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Ending> {
        let at = loop {
            if let Some(at) = find(&self.buffer, b"\r\n") {
                break at;
            }
            self.more().await?;
        };
        let size = usize::from_str_radix(std::str::from_utf8(&self.buffer[..at]).unwrap(), 16);
        let (size, start) = (size.unwrap(), at + 2);
        while self.buffer.len() < start + size + 2 {
            self.more().await?;
        }
        let chunk = self.buffer[start..start + size].to_vec();
        self.buffer.drain(..start + size + 2);
        Ok((size > 0).then_some(chunk))
    }

    /// Read chunks until their joined text contains `needle`.
    pub async fn until(&mut self, needle: &str) -> String {
        let mut text = String::new();
        while !text.contains(needle) {
            let chunk = self.chunk().await.expect("the stream goes on");
            text.push_str(&String::from_utf8_lossy(&chunk.expect("the stream goes on")));
        }
        text
    }

    /// Whether the peer stays silent for `time`.
    pub async fn silent_for(&mut self, time: Duration) -> bool {
        self.buffer.is_empty()
            && tokio::time::timeout(time, self.stream.read_buf(&mut self.buffer)).await.is_err()
    }

    /// The connection is closed by the peer, nothing more was sent.
    pub async fn closed(&mut self) -> bool {
        self.buffer.is_empty() && self.more().await.is_err()
    }

    /// Close with a reset.
    pub fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Send FIN; reading goes on.
    pub async fn half_close(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Everything that still comes, and how it ended.
    pub async fn raw_rest(&mut self) -> (Vec<u8>, Ending) {
        let mut bytes = std::mem::take(&mut self.buffer);
        loop {
            match self.more().await {
                Ok(()) => bytes.append(&mut self.buffer),
                Err(ending) => return (bytes, ending),
            }
        }
    }

    /// What comes until the end, or until nothing more came for `silence`.
    pub async fn raw_rest_within(&mut self, silence: Duration) -> (Vec<u8>, bool) {
        loop {
            match tokio::time::timeout(silence, self.stream.read_buf(&mut self.buffer)).await {
                Ok(Ok(1..)) => {}
                Ok(_) => return (std::mem::take(&mut self.buffer), true),
                Err(_) => return (std::mem::take(&mut self.buffer), false),
            }
        }
    }

    async fn exactly(&mut self, length: usize, body: &mut Vec<u8>) -> Ending {
        while self.buffer.len() < length {
            if let Err(ending) = self.more().await {
                body.append(&mut self.buffer);
                return ending;
            }
        }
        body.extend(self.buffer.drain(..length));
        Ending::Whole
    }

    async fn chunks(&mut self, body: &mut Vec<u8>) -> Ending {
        loop {
            match self.chunk().await {
                Ok(Some(chunk)) => body.extend(chunk),
                Ok(None) => return Ending::Whole,
                Err(ending) => return ending,
            }
        }
    }

    async fn to_close(&mut self, body: &mut Vec<u8>) -> Ending {
        loop {
            match self.more().await {
                Ok(()) => {}
                Err(Ending::Reset) => return Ending::Reset,
                Err(_) => {
                    body.append(&mut self.buffer);
                    return Ending::Whole;
                }
            }
        }
    }

    /// Up to `most` bytes that have come and were not looked at yet.
    pub fn take_buffered(&mut self, most: usize) -> Vec<u8> {
        let most = most.min(self.buffer.len());
        self.buffer.drain(..most).collect()
    }

    /// Wait for more bytes.
    pub async fn more(&mut self) -> Result<(), Ending> {
        match bounded("bytes or the end", self.stream.read_buf(&mut self.buffer)).await {
            Ok(0) => Err(Ending::Cut),
            Ok(_) => Ok(()),
            Err(_) => Err(Ending::Reset),
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
