//! A client's TCP connection, which can be made to end with a reset instead of an orderly close.

use async_trait::async_trait;
use bytes::BytesMut;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl,
    TimingDigest, UniqueID, UniqueIDType,
};
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// A connection as it was accepted.
#[derive(Debug)]
pub struct ClientSocket {
    stream: TcpStream,
    /// Looked at, to be read again.
    peeked: BytesMut,
    reset: Reset,
}

/// Says how a [`ClientSocket`] ends when it is dropped. While it is armed that is a reset (RST), which
/// no client takes for the end of a body: HTTP/1.0 has no other mark of the end than the close. A
/// reset discards what the client's side has not taken yet.
#[derive(Clone, Debug, Default)]
pub struct Reset(Arc<AtomicBool>);

impl Reset {
    pub fn arm(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn disarm(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    pub fn is_armed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl ClientSocket {
    /// `stream`, and what decides how it ends.
    pub fn new(stream: TcpStream) -> (Self, Reset) {
        let reset = Reset::default();
        (Self { stream, peeked: BytesMut::new(), reset: reset.clone() }, reset)
    }
}

impl Drop for ClientSocket {
    fn drop(&mut self) {
        if self.reset.is_armed() {
            // A socket that refuses is broken already.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.peeked.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, to);
        }
        let count = self.peeked.len().min(to.remaining());
        to.put_slice(&self.peeked.split_to(count));
        if self.peeked.is_empty() {
            self.peeked = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientSocket {
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
        slices: &[IoSlice<'_>],
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
impl Shutdown for ClientSocket {
    async fn shutdown(&mut self) {
        // A connection that cannot be closed politely is closed by its drop.
        let _ = AsyncWriteExt::shutdown(&mut self.stream).await;
    }
}

#[async_trait]
impl Peek for ClientSocket {
    /// Fill `into` from the start of what comes, without consuming it.
    async fn try_peek(&mut self, into: &mut [u8]) -> io::Result<bool> {
        while self.peeked.len() < into.len() {
            if self.stream.read_buf(&mut self.peeked).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        into.copy_from_slice(&self.peeked[..into.len()]);
        Ok(true)
    }
}

impl UniqueID for ClientSocket {
    fn id(&self) -> UniqueIDType {
        self.stream.as_raw_fd()
    }
}

impl Ssl for ClientSocket {}

impl GetTimingDigest for ClientSocket {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for ClientSocket {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl GetSocketDigest for ClientSocket {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    async fn pair() -> (ClientSocket, Reset, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (socket, reset) = ClientSocket::new(near.unwrap());
        (socket, reset, far.unwrap().0)
    }

    #[tokio::test]
    async fn it_ends_as_it_was_told() {
        for armed in [false, true] {
            let (mut socket, reset, mut far) = pair().await;
            socket.write_all(b"said").await.unwrap();
            let mut said = [0; 4];
            far.read_exact(&mut said).await.unwrap();
            reset.arm();
            if !armed {
                reset.disarm();
            }
            drop(socket);
            let end = far.read(&mut said).await;
            assert_eq!(end.is_err(), armed, "{end:?}");
        }
    }

    #[tokio::test]
    async fn what_was_looked_at_is_read_again() {
        let (mut socket, _reset, mut far) = pair().await;
        far.write_all(b"look").await.unwrap();
        let mut look = [0; 3];
        assert!(socket.try_peek(&mut look).await.unwrap());
        assert_eq!(&look, b"loo");
        let mut longer = [0; 6];
        let (more, peeked) = tokio::join!(far.write_all(b"ing on"), socket.try_peek(&mut longer));
        more.unwrap();
        peeked.unwrap();
        assert_eq!(&longer, b"lookin");
        let mut all = [0; 10];
        socket.read_exact(&mut all).await.unwrap();
        assert_eq!(&all, b"looking on");
        drop(far);
        socket.try_peek(&mut look).await.unwrap_err();
    }
}
