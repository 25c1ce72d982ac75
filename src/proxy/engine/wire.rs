//! An engine's connection that is listened to while it is written to.
//!
//! An engine may answer (413, 400, also 200) without reading the rest of the request, and may then
//! keep the connection open: whoever wrote on would wait for room in its socket and not see the
//! answer. pingora's session either writes or reads, so the connection itself listens: every write
//! first looks for an answer, and ends with an error once a final one has begun or none can come.
//! What was heard is kept for the session, which reads it next.

use async_trait::async_trait;
use bytes::BytesMut;
use httparse::{EMPTY_HEADER, Response, Status};
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::SslDigest;
use pingora_core::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream,
    TimingDigest, UniqueID, UniqueIDType,
};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of one look.
const READ: usize = 1024;
/// Interim answers that are kept while a request is sent; with more the sending ends.
const KEPT: usize = 64 * 1024;
/// Headers of an interim answer.
const HEADERS: usize = 64;

/// The connection, for one request.
#[derive(Debug)]
pub(super) struct Wire {
    stream: Stream,
    /// Heard while writing, not yet read by the session.
    kept: BytesMut,
    /// The engine's side ended while it was written to: in order, or by this error.
    ended: Option<Option<io::ErrorKind>>,
    heard: bool,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, kept: BytesMut::new(), ended: None, heard: false }
    }

    /// A byte of an answer has come.
    pub(super) fn heard(&self) -> bool {
        self.heard
    }

    /// The connection, for the pool.
    pub(super) fn into_inner(self) -> Stream {
        self.stream
    }

    /// Take what the engine says. Ready when no more of the request is worth sending.
    fn poll_answered(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            if let Some(ended) = self.ended {
                return Poll::Ready(ended.unwrap_or(io::ErrorKind::BrokenPipe).into());
            }
            if self.kept.len() >= KEPT || has_final(&self.kept) {
                return Poll::Ready(io::Error::other("answered before the request was sent"));
            }
            let mut space = [const { MaybeUninit::uninit() }; READ];
            let mut read = ReadBuf::uninit(&mut space);
            match Pin::new(&mut self.stream).poll_read(context, &mut read) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => self.ended = Some(Some(error.kind())),
                Poll::Ready(Ok(())) if read.filled().is_empty() => self.ended = Some(None),
                Poll::Ready(Ok(())) => {
                    self.heard = true;
                    self.kept.extend_from_slice(read.filled());
                }
            }
        }
    }
}

/// Whether a final answer begins in `bytes`, after any interim ones. What is no answer at all
/// counts: the session will say so.
fn has_final(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let mut headers = [EMPTY_HEADER; HEADERS];
        let mut head = Response::new(&mut headers);
        match head.parse(bytes) {
            Ok(Status::Complete(length)) if head.code.is_some_and(is_interim) => {
                bytes = &bytes[length..];
            }
            Ok(Status::Partial) => return head.code.is_some_and(|code| !is_interim(code)),
            Ok(Status::Complete(_)) | Err(_) => return true,
        }
    }
    false
}

const fn is_interim(code: u16) -> bool {
    matches!(code, 100..=199) && code != 101
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.kept.is_empty() {
            let count = self.kept.len().min(to.remaining());
            to.put_slice(&self.kept.split_to(count));
            return Poll::Ready(Ok(()));
        }
        match self.ended {
            Some(None) => return Poll::Ready(Ok(())),
            Some(Some(kind)) => return Poll::Ready(Err(kind.into())),
            None => {}
        }
        let before = to.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, to);
        self.heard |= to.filled().len() > before;
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(error) = self.poll_answered(context) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(error) = self.poll_answered(context) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Once all is written an answer is no reason to stop.
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_pending()
            && let Poll::Ready(error) = self.poll_answered(context)
        {
            return Poll::Ready(Err(error));
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[async_trait]
impl Shutdown for Wire {
    async fn shutdown(&mut self) {
        self.stream.shutdown().await;
    }
}

impl UniqueID for Wire {
    fn id(&self) -> UniqueIDType {
        self.stream.id()
    }
}

impl Ssl for Wire {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.stream.get_ssl_digest()
    }
}

impl GetTimingDigest for Wire {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.stream.get_timing_digest()
    }
}

impl GetProxyDigest for Wire {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.stream.get_proxy_digest()
    }
}

impl GetSocketDigest for Wire {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.stream.get_socket_digest()
    }
}

impl Peek for Wire {}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[test]
    fn a_final_answer_is_told_by_its_first_line() {
        for none in ["", "HT", "HTTP/1.1 20", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early"]
        {
            assert!(!has_final(none.as_bytes()), "{none:?}");
        }
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
        assert!(!has_final(interim.as_bytes()));
        for begun in ["HTTP/1.1 413 Too Large\r\n", "HTTP/1.0 200 OK\r\nx: y\r\n\r\nbody"] {
            assert!(has_final(begun.as_bytes()), "{begun:?}");
            assert!(has_final(format!("{interim}{begun}").as_bytes()), "{begun:?}");
        }
        for odd in ["hello", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "\0\x01"] {
            assert!(has_final(odd.as_bytes()), "{odd:?}");
        }
    }

    #[tokio::test]
    async fn writing_ends_when_an_answer_has_begun_and_the_answer_is_read_whole() {
        let (mut engine, near) = duplex(64);
        let mut wire = Wire::new(Box::new(near));
        let engine = tokio::spawn(async move {
            engine.write_all(b"HTTP/1.1 413 X\r\n").await.unwrap();
            engine.write_all(b"content-length: 0\r\n\r\n").await.unwrap();
            engine
        });
        let written = wire.write_all(&[b'x'; 100_000]).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::Other);
        assert!(wire.heard());
        drop(engine.await.unwrap());
        let mut answer = String::new();
        wire.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "HTTP/1.1 413 X\r\ncontent-length: 0\r\n\r\n");
    }

    #[tokio::test]
    async fn interim_answers_do_not_end_it_and_a_close_does() {
        let (mut engine, near) = duplex(64);
        let mut wire = Wire::new(Box::new(near));
        engine.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        wire.write_all(b"request").await.unwrap();
        let mut taken = [0; 7];
        engine.read_exact(&mut taken).await.unwrap();
        AsyncWriteExt::shutdown(&mut engine).await.unwrap();
        let written = wire.write_all(&[b'x'; 100_000]).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let mut heard = Vec::new();
        wire.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"HTTP/1.1 100 Continue\r\n\r\n");
    }
}
