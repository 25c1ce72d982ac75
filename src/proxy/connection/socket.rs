//! A client's TCP connection, which can be made to end with a reset instead of an orderly close, or
//! with a close that comes with the last bytes.

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
    close: Close,
}

/// Says how a [`ClientSocket`] ends.
#[derive(Clone, Debug, Default)]
pub struct Close(Arc<Manner>);

#[derive(Debug, Default)]
struct Manner {
    reset: AtomicBool,
    joined: AtomicBool,
}

impl Close {
    /// From now on a drop resets the connection (RST), which no client takes for the end of a
    /// body: HTTP/1.0 has no other mark of the end than the close. A reset discards what the
    /// client's side has not taken yet.
    pub fn arm(&self) {
        self.0.reset.store(true, Ordering::Relaxed);
    }

    pub fn disarm(&self) {
        self.0.reset.store(false, Ordering::Relaxed);
    }

    pub fn is_armed(&self) -> bool {
        self.0.reset.load(Ordering::Relaxed)
    }

    /// What is written from now on is followed by the close at once, in one packet if it fits: a
    /// client that has read the one and looks for the other finds it. Only where the system can
    /// (Linux); elsewhere the close comes in a packet of its own.
    pub fn joins_last_write(&self) {
        self.0.joined.store(true, Ordering::Relaxed);
    }

    fn is_joined(&self) -> bool {
        self.0.joined.load(Ordering::Relaxed)
    }
}

impl ClientSocket {
    /// `stream`, and what decides how it ends.
    pub fn new(stream: TcpStream) -> (Self, Close) {
        let close = Close::default();
        (Self { stream, peeked: BytesMut::new(), close: close.clone() }, close)
    }

    /// Keep a packet that is not full back until the close.
    fn keep_back_if_last(&self) {
        #[cfg(target_os = "linux")]
        if self.close.is_joined() {
            // Without it the close comes a moment later.
            let _ = socket2::SockRef::from(&self.stream).set_tcp_cork(true);
        }
    }
}

impl Drop for ClientSocket {
    fn drop(&mut self) {
        if self.close.is_armed() {
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
        self.keep_back_if_last();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.keep_back_if_last();
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

    async fn pair() -> (ClientSocket, Close, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (socket, close) = ClientSocket::new(near.unwrap());
        (socket, close, far.unwrap().0)
    }

    #[tokio::test]
    async fn it_ends_as_it_was_told() {
        for armed in [false, true] {
            let (mut socket, close, mut far) = pair().await;
            socket.write_all(b"said").await.unwrap();
            let mut said = [0; 4];
            far.read_exact(&mut said).await.unwrap();
            close.arm();
            if !armed {
                close.disarm();
            }
            drop(socket);
            let end = far.read(&mut said).await;
            assert_eq!(end.is_err(), armed, "{end:?}");
        }
    }

    /// Segments that came to `socket`: all, and those with data.
    #[cfg(target_os = "linux")]
    fn segments(socket: &TcpStream) -> (u32, u32) {
        let info = SocketDigest::from_raw_fd(socket.as_raw_fd()).tcp_info().unwrap();
        (info.tcpi_segs_in, info.tcpi_data_segs_in)
    }

    /// Whoever has read the last bytes and looks for the end finds it.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_close_comes_with_the_last_bytes() {
        let mut came = Vec::new();
        // The system keeps bytes back for 200 ms at most, so a stop of this process shows.
        while came.len() < 10 && !came.contains(&(1, 1)) {
            let (mut socket, close, mut far) = pair().await;
            let before = segments(&far);
            close.joins_last_write();
            socket.write_all(b"last ").await.unwrap();
            socket.write_all(b"words").await.unwrap();
            AsyncWriteExt::shutdown(&mut socket).await.unwrap();
            let mut said = Vec::new();
            far.read_to_end(&mut said).await.unwrap();
            assert_eq!(said, b"last words");
            let after = segments(&far);
            came.push((after.0 - before.0, after.1 - before.1));
        }
        assert!(came.contains(&(1, 1)), "{came:?}");
    }

    #[tokio::test]
    async fn what_was_looked_at_is_read_again() {
        let (mut socket, _close, mut far) = pair().await;
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
