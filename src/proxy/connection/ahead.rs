//! A client's connection that can be watched for its end while its request runs.
//!
//! That a client has left is seen only by reading. What is read meanwhile is the start of its next
//! request, or a stray line end; it is kept here until the session reads on. pingora's own way to
//! watch stops at the first such byte, and a client that leaves after it would hold its slot. Of a
//! client that sends more than is kept the rest is read and dropped: its leaving comes after its
//! last byte. Such a connection serves no further request.

use super::held::Held;
use crate::core::sync::lock;
use async_trait::async_trait;
use bytes::BytesMut;
use pingora_core::protocols::l4::ext::TCP_INFO;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::SslDigest;
use pingora_core::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream,
    TimingDigest, UniqueID, UniqueIDType,
};
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are kept.
const KEPT: usize = 64 * 1024;
/// Bytes of one read ahead.
const READ: usize = 4 * 1024;

/// The connection, for the session.
#[derive(Debug)]
pub struct Ahead(Arc<Mutex<Shared>>);

/// The connection, for whoever waits for its end.
#[derive(Clone, Debug)]
pub struct Watch(Arc<Mutex<Shared>>);

/// Never locked across an await; both holders are parts of one task.
#[derive(Debug)]
struct Shared {
    stream: Stream,
    kept: BytesMut,
    /// More has come than is kept, and was dropped: what comes next begins nowhere.
    overrun: bool,
    ended: bool,
    held: Held,
}

impl Ahead {
    /// `stream`, and what watches it.
    pub fn new(stream: Stream) -> (Self, Watch) {
        let shared = Shared {
            stream,
            kept: BytesMut::new(),
            overrun: false,
            ended: false,
            held: Held::default(),
        };
        let shared = Arc::new(Mutex::new(shared));
        (Self(Arc::clone(&shared)), Watch(shared))
    }

    fn write<R>(&self, action: impl FnOnce(&mut Held, &mut Stream) -> R) -> R {
        let Shared { stream, held, .. } = &mut *lock(&self.0);
        action(held, stream)
    }
}

impl Watch {
    /// Resolves when the client has closed, half-closed or reset the connection. A head that was
    /// held back for its body goes out meanwhile. Cancel-safe; must not be awaited while a
    /// request's body is still to be read.
    pub async fn ended(&self) {
        poll_fn(|context| lock(&self.0).poll_ended(context)).await;
    }

    /// The client has sent more ahead of its turn than is kept, so the present request is the last
    /// of this connection.
    pub fn has_overrun(&self) -> bool {
        lock(&self.0).overrun
    }

    /// A next request has come, or a part of it.
    pub fn has_more(&self) -> bool {
        !lock(&self.0).kept.is_empty()
    }

    /// Bytes that the client's side of the connection has acknowledged so far, TLS records
    /// included. `None`: not known here.
    pub fn acknowledged(&self) -> Option<u64> {
        self.look(|info| info.tcpi_bytes_acked)
    }

    /// Whether the client's side has still to acknowledge bytes that were written; `false` where
    /// that is not known.
    pub fn owes_acknowledgement(&self) -> bool {
        self.look(|info| info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0).unwrap_or(false)
    }

    /// What the kernel knows of the connection. `None`: nothing, since only Linux tells.
    fn look<T>(&self, what: impl FnOnce(&TCP_INFO) -> T) -> Option<T> {
        // Held, so that the number still means this connection.
        let shared = lock(&self.0);
        let info = SocketDigest::from_raw_fd(shared.stream.id()).tcp_info();
        // Elsewhere the state is none that exists.
        info.filter(|info| info.tcpi_state != 0).map(|info| what(&info))
    }
}

impl Shared {
    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Who waits for the client has nothing more to write for now.
        self.ended |= self.held.poll_let_out(&mut self.stream, context).is_err();
        while !self.ended {
            let mut space = [const { MaybeUninit::uninit() }; READ];
            let mut read = ReadBuf::uninit(&mut space);
            let result = ready!(Pin::new(&mut self.stream).poll_read(context, &mut read));
            self.ended = result.is_err() || read.filled().is_empty();
            self.overrun |= self.kept.len() + read.filled().len() > KEPT;
            if self.overrun {
                self.kept = BytesMut::new();
            } else {
                self.kept.extend_from_slice(read.filled());
            }
        }
        Poll::Ready(())
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.kept.is_empty() {
            return match self.ended || self.overrun {
                true => Poll::Ready(Ok(())),
                false => Pin::new(&mut self.stream).poll_read(context, to),
            };
        }
        let count = self.kept.len().min(to.remaining());
        to.put_slice(&self.kept.split_to(count));
        if self.kept.is_empty() {
            self.kept = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Ahead {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        lock(&self.0).poll_read(context, to)
    }
}

impl AsyncWrite for Ahead {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(|held, stream| held.poll_write(stream, context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(|held, stream| held.poll_write_vectored(stream, context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        lock(&self.0).stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(|held, stream| held.poll_flush(stream, context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(|held, stream| held.poll_shutdown(stream, context))
    }
}

#[async_trait]
impl Shutdown for Ahead {
    async fn shutdown(&mut self) {
        // A connection that cannot be closed politely is closed by its drop.
        let _ =
            poll_fn(|context| self.write(|held, stream| held.poll_shutdown(stream, context))).await;
    }
}

impl UniqueID for Ahead {
    fn id(&self) -> UniqueIDType {
        lock(&self.0).stream.id()
    }
}

impl Ssl for Ahead {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        lock(&self.0).stream.get_ssl_digest()
    }
}

impl GetTimingDigest for Ahead {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        lock(&self.0).stream.get_timing_digest()
    }
}

impl GetProxyDigest for Ahead {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        lock(&self.0).stream.get_proxy_digest()
    }
}

impl GetSocketDigest for Ahead {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        lock(&self.0).stream.get_socket_digest()
    }
}

impl Peek for Ahead {}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio_util::task::AbortOnDropHandle;

    #[tokio::test]
    async fn what_is_read_ahead_is_read_in_order() {
        let (mut client, server) = duplex(100_000);
        let (mut ahead, watch) = Ahead::new(Box::new(server));
        client.write_all(b"first").await.unwrap();
        let mut first = [0; 5];
        ahead.read_exact(&mut first).await.unwrap();
        client.write_all(&[7; 5000]).await.unwrap();
        let seen = tokio::spawn(async move {
            watch.ended().await;
            watch
        });
        let seen = AbortOnDropHandle::new(seen);
        client.write_all(b"last").await.unwrap();
        drop(client);
        seen.await.unwrap();
        let mut rest = Vec::new();
        ahead.read_to_end(&mut rest).await.unwrap();
        assert_eq!((&rest[..5000], &rest[5000..]), (&[7; 5000][..], &b"last"[..]));
    }

    #[tokio::test]
    async fn the_end_is_seen_after_bytes_and_once_seen_stays() {
        let (mut client, server) = duplex(100);
        let (_ahead, watch) = Ahead::new(Box::new(server));
        client.write_all(b"\r\n").await.unwrap();
        let soon = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, watch.ended()).await.is_err());
        drop(client);
        watch.ended().await;
        watch.ended().await;
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_and_what_is_not_kept_does_not_hide_the_end() {
        let (mut client, server) = duplex(KEPT);
        let (mut ahead, watch) = Ahead::new(Box::new(server));
        let flood = async {
            client.write_all(&vec![1; KEPT]).await.unwrap();
            assert!(lock(&watch.0).kept.len() <= KEPT);
            client.write_all(&vec![1; 9 * KEPT]).await.unwrap();
            drop(client);
        };
        tokio::join!(flood, watch.ended());
        assert!(watch.has_overrun());
        assert_eq!(lock(&watch.0).kept.capacity(), 0);
        // A part of what was sent would be another request than was meant.
        assert_eq!(ahead.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn as_much_as_is_kept_is_read_whole() {
        let (mut client, server) = duplex(KEPT);
        let (mut ahead, watch) = Ahead::new(Box::new(server));
        client.write_all(&vec![1; KEPT]).await.unwrap();
        drop(client);
        watch.ended().await;
        assert!(!watch.has_overrun());
        let mut all = Vec::new();
        ahead.read_to_end(&mut all).await.unwrap();
        assert_eq!(all.len(), KEPT);
    }
}
