//! HTTP/1.1 on a bare socket.

use super::{Answer, Ask, PATH};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A kept-alive connection.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were read from.
    at: usize,
}

/// How the body is framed.
enum Framing {
    Length(usize),
    Chunked,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(16 * 1024), at: 0 })
    }

    pub async fn ask(&mut self, ask: &Ask, answer: &mut Answer) -> Result<()> {
        match self.send(ask).await? {
            Framing::Length(length) => self.sized(length, answer).await?,
            Framing::Chunked => while self.chunk(answer).await? {},
        }
        answer.end();
        Ok(())
    }

    pub async fn ask_some(&mut self, ask: &Ask, answer: &mut Answer, events: u64) -> Result<()> {
        let Framing::Chunked = self.send(ask).await? else { bail!("the answer is no stream") };
        while answer.events < events {
            ensure!(self.chunk(answer).await?, "the stream ended early");
        }
        Ok(())
    }

    async fn send(&mut self, ask: &Ask) -> Result<Framing> {
        self.stream.write_all(encode(ask).as_bytes()).await?;
        self.head().await
    }

    async fn head(&mut self) -> Result<Framing> {
        let length = loop {
            let unread = &self.buffer[self.at..];
            if let Some(end) = memchr::memmem::find(unread, b"\r\n\r\n") {
                break end;
            }
            self.fill().await?;
        };
        let head = std::str::from_utf8(&self.buffer[self.at..self.at + length])?;
        ensure!(head.starts_with("HTTP/1.1 200"), "answered {head:?}");
        let field = |name: &str| {
            let fields = head.lines().filter_map(|line| line.split_once(':'));
            fields.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim()).next()
        };
        let framing = match field("content-length") {
            Some(length) => Framing::Length(length.parse()?),
            None if field("transfer-encoding") == Some("chunked") => Framing::Chunked,
            None => bail!("an answer without framing: {head:?}"),
        };
        self.at += length + 4;
        Ok(framing)
    }

    async fn sized(&mut self, length: usize, answer: &mut Answer) -> Result<()> {
        self.have(length).await?;
        answer.bytes(&self.buffer[self.at..self.at + length]);
        self.at += length;
        Ok(())
    }

    /// Hand on one chunk; `false` after the last one.
    async fn chunk(&mut self, answer: &mut Answer) -> Result<bool> {
        let line = loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[self.at..]) {
                break end;
            }
            self.fill().await?;
        };
        let digits = std::str::from_utf8(&self.buffer[self.at..self.at + line])?;
        let size = usize::from_str_radix(digits.trim_end(), 16).context("no chunk size")?;
        self.at += line + 1;
        self.have(size + 2).await?;
        if size > 0 {
            answer.bytes(&self.buffer[self.at..self.at + size]);
        }
        self.at += size + 2;
        Ok(size > 0)
    }

    async fn have(&mut self, length: usize) -> Result<()> {
        while self.buffer.len() - self.at < length {
            self.fill().await?;
        }
        Ok(())
    }

    async fn fill(&mut self) -> Result<()> {
        self.buffer.drain(..std::mem::take(&mut self.at));
        let read = self.stream.read_buf(&mut self.buffer).await?;
        ensure!(read > 0, "the connection was closed");
        Ok(())
    }
}

fn encode(ask: &Ask) -> String {
    let mut text = format!("POST {PATH} HTTP/1.1\r\nhost: gate\r\n");
    for (name, value) in &ask.headers {
        // Writing to a string cannot fail.
        let _ = write!(text, "{name}: {value}\r\n");
    }
    let _ = write!(text, "content-length: {}\r\n\r\n{}", ask.body.len(), ask.body);
    text
}
