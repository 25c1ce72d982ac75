//! A goodbye over HTTP/2 that gives requests time to arrive.
//!
//! h2 says goodbye in two steps: a GOAWAY that forbids nothing yet, with a PING behind it, and when
//! the client has answered that, a GOAWAY that names the last request which is served. But the
//! answer to a PING overtakes: clients write it ahead of requests that they had begun before they
//! knew of the goodbye. Those would be turned away although nothing told their client in time. Here
//! the answer reaches h2 a moment later than it came, and what it overtook is served.

use async_trait::async_trait;
use bytes::{Buf, BytesMut};
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::SslDigest;
use pingora_core::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream,
    TimingDigest, UniqueID, UniqueIDType,
};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How much later the answer is heard.
const LATER: Duration = Duration::from_millis(500);
/// The client's first bytes are no frame.
const PREFACE: usize = 24;
const HEAD: usize = 9;
const PONG: usize = HEAD + 8;
/// Type and flag of the frame that answers a PING.
const PING: u8 = 6;
const ACK: u8 = 1;

/// A connection whose client's answer to a PING is heard late.
#[derive(Debug)]
pub struct LatePong {
    stream: Stream,
    frames: Frames,
    due: Option<Pin<Box<Sleep>>>,
}

/// The frames of a client, without the answer that is held.
#[derive(Debug)]
struct Frames {
    /// What may be read.
    out: BytesMut,
    /// Bytes of the present frame that are passed on unseen.
    pass: usize,
    /// The start of a frame, as long as it may be an answer.
    start: BytesMut,
    held: BytesMut,
}

impl LatePong {
    pub fn new(stream: Stream) -> Self {
        Self { stream, frames: Frames::new(), due: None }
    }

    /// The answer that is held is heard when it is time for it, between two frames.
    fn poll_due(&mut self, context: &mut Context<'_>) {
        if self.due.is_none() && !self.frames.held.is_empty() {
            self.due = Some(Box::pin(sleep(LATER)));
        }
        let Some(due) = &mut self.due else { return };
        if self.frames.between() && due.as_mut().poll(context).is_ready() {
            self.due = None;
            self.frames.let_out();
        }
    }
}

impl Frames {
    fn new() -> Self {
        let (out, start, held) = (BytesMut::new(), BytesMut::new(), BytesMut::new());
        Self { out, pass: PREFACE, start, held }
    }

    fn between(&self) -> bool {
        self.pass == 0 && self.start.is_empty()
    }

    fn let_out(&mut self) {
        self.out.extend_from_slice(&self.held.split());
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = match self.pass {
                0 => (self.wanted() - self.start.len()).min(bytes.len()),
                pass => pass.min(bytes.len()),
            };
            let (now, rest) = bytes.split_at(count);
            bytes = rest;
            if self.pass > 0 {
                self.pass -= count;
                self.out.extend_from_slice(now);
            } else {
                self.start.extend_from_slice(now);
                self.sort();
            }
        }
    }

    /// Bytes of a frame's start that tell whether it is to be held.
    fn wanted(&self) -> usize {
        if self.is_pong() { PONG } else { HEAD }
    }

    fn is_pong(&self) -> bool {
        matches!(self.start[..], [0, 0, 8, PING, flags, ..] if flags & ACK != 0)
    }

    /// Decide on a frame whose start is known.
    fn sort(&mut self) {
        if self.start.len() < self.wanted() {
            return;
        }
        // One is asked for; a second one is the client's own idea.
        if self.is_pong() && self.held.is_empty() {
            self.held = self.start.split();
            return;
        }
        if !self.is_pong() {
            let length = [0, self.start[0], self.start[1], self.start[2]];
            self.pass = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        }
        self.out.extend_from_slice(&self.start.split());
    }
}

impl AsyncRead for LatePong {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            this.poll_due(context);
            if !this.frames.out.is_empty() {
                let count = this.frames.out.len().min(to.remaining());
                to.put_slice(&this.frames.out[..count]);
                this.frames.out.advance(count);
                return Poll::Ready(Ok(()));
            }
            let before = to.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(context, to))?;
            if to.filled().len() == before {
                return Poll::Ready(Ok(()));
            }
            this.frames.take(&to.filled()[before..]);
            to.set_filled(before);
        }
    }
}

impl AsyncWrite for LatePong {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[async_trait]
impl Shutdown for LatePong {
    async fn shutdown(&mut self) {
        self.stream.shutdown().await;
    }
}

impl UniqueID for LatePong {
    fn id(&self) -> UniqueIDType {
        self.stream.id()
    }
}

impl Ssl for LatePong {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.stream.get_ssl_digest()
    }
}

impl GetTimingDigest for LatePong {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.stream.get_timing_digest()
    }
}

impl GetProxyDigest for LatePong {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.stream.get_proxy_digest()
    }
}

impl GetSocketDigest for LatePong {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.stream.get_socket_digest()
    }
}

impl Peek for LatePong {}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    const PREFACE_BYTES: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const ANSWER: &[u8] = &[0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    /// A PING of the client, and a frame of data whose content looks like an answer.
    const QUESTION: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1];
    const DATA: &[u8] = &[0, 0, 17, 0, 1, 0, 0, 0, 1];
    const SETTINGS_ACK: &[u8] = &[0, 0, 0, 4, 1, 0, 0, 0, 0];

    #[tokio::test(start_paused = true)]
    async fn only_the_answer_comes_later() {
        let (mut client, server) = duplex(1000);
        let mut late = LatePong::new(Box::new(server));
        let others = [QUESTION, DATA, ANSWER, SETTINGS_ACK].concat();
        client.write_all(&[PREFACE_BYTES, SETTINGS_ACK, ANSWER, &others].concat()).await.unwrap();
        let began = Instant::now();
        let mut first = vec![0; PREFACE + SETTINGS_ACK.len() + others.len()];
        late.read_exact(&mut first).await.unwrap();
        assert_eq!(first, [PREFACE_BYTES, SETTINGS_ACK, &others].concat());
        assert_eq!(began.elapsed(), Duration::ZERO);
        let mut answer = [0; PONG];
        late.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, ANSWER);
        assert!(began.elapsed() >= LATER);
    }

    #[tokio::test(start_paused = true)]
    async fn however_the_bytes_come_in_pieces() {
        let frames = [QUESTION, ANSWER, DATA, ANSWER, ANSWER, SETTINGS_ACK].concat();
        let sent = [PREFACE_BYTES, &frames].concat();
        // The first answer is held; the one after the data, too many, is not.
        let expected = [PREFACE_BYTES, QUESTION, DATA, ANSWER, ANSWER, SETTINGS_ACK].concat();
        for size in 1..sent.len() {
            let mut taken = Frames::new();
            sent.chunks(size).for_each(|piece| taken.take(piece));
            assert_eq!((&taken.out[..], &taken.held[..]), (&expected[..], ANSWER), "{size}");
            assert!(taken.between());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_let_out_between_two_frames_only() {
        let (mut client, server) = duplex(1000);
        let mut late = LatePong::new(Box::new(server));
        let (half, rest) = SETTINGS_ACK.split_at(4);
        client.write_all(&[PREFACE_BYTES, ANSWER, half].concat()).await.unwrap();
        let mut preface = [0; PREFACE];
        late.read_exact(&mut preface).await.unwrap();
        let mut next = vec![0; PONG + SETTINGS_ACK.len()];
        let later = async {
            sleep(LATER * 2).await;
            client.write_all(rest).await.unwrap();
        };
        let (read, ()) = tokio::join!(late.read_exact(&mut next), later);
        read.unwrap();
        assert_eq!(next, [SETTINGS_ACK, ANSWER].concat());
        drop(client);
        assert_eq!(late.read(&mut next).await.unwrap(), 0);
    }
}
