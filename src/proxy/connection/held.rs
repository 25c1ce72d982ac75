//! The head of an answer and the start of its body in one write.
//!
//! pingora writes a head that announces a length without a flush and leaves it to the transport to
//! hold it until the body comes. A plain socket holds nothing: each write is a packet, a system
//! call and a wake-up of the client.

use bytes::{Buf, BytesMut};
use pingora_core::protocols::Stream;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// A larger first write does not mind a packet of its own.
const HELD: usize = 4 * 1024;

/// Holds the first write after a flush until the next write, a flush, the end, or the moment when
/// whoever writes begins to wait. Nothing else is ever held, so no byte of a body waits for those
/// after it, and no head for a body that is not there yet.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: BytesMut,
    /// Something was written since the last flush.
    begun: bool,
}

impl Held {
    pub(super) fn poll_write(
        &mut self,
        stream: &mut Stream,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let first = !std::mem::replace(&mut self.begun, true);
        if first && bytes.len() <= HELD {
            self.bytes.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        match ready!(self.poll_out(stream, context, bytes))? {
            0 => Pin::new(stream).poll_write(context, bytes),
            wrote => Poll::Ready(Ok(wrote)),
        }
    }

    pub(super) fn poll_write_vectored(
        &mut self,
        stream: &mut Stream,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.begun = true;
        ready!(self.poll_out(stream, context, &[]))?;
        Pin::new(stream).poll_write_vectored(context, slices)
    }

    pub(super) fn poll_flush(
        &mut self,
        stream: &mut Stream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_out(stream, context, &[]))?;
        ready!(Pin::new(stream).poll_flush(context))?;
        self.begun = false;
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_shutdown(
        &mut self,
        stream: &mut Stream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_out(stream, context, &[]))?;
        Pin::new(stream).poll_shutdown(context)
    }

    /// Write what is held as far as the socket takes it. An error is that of the connection.
    pub(super) fn poll_let_out(
        &mut self,
        stream: &mut Stream,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        match self.poll_out(stream, context, &[]) {
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(_)) | Poll::Pending => Ok(()),
        }
    }

    /// Write what is held and as much of `next` as goes with it; gives the bytes of `next` that
    /// went.
    fn poll_out(
        &mut self,
        stream: &mut Stream,
        context: &mut Context<'_>,
        next: &[u8],
    ) -> Poll<io::Result<usize>> {
        while !self.bytes.is_empty() {
            let both = [IoSlice::new(&self.bytes), IoSlice::new(next)];
            let wrote = ready!(Pin::new(&mut *stream).poll_write_vectored(context, &both))?;
            if wrote == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_held = wrote.min(self.bytes.len());
            self.bytes.advance(of_held);
            if self.bytes.is_empty() {
                // An idle connection keeps no room.
                self.bytes = BytesMut::new();
                return Poll::Ready(Ok(wrote - of_held));
            }
        }
        Poll::Ready(Ok(0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ahead::{Ahead, Watch};
    use super::*;
    use pingora_core::protocols::Shutdown;
    use pingora_core::protocols::l4::stream::Stream as TcpIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    async fn pair() -> (Ahead, TcpStream) {
        let (near, _, far) = watched_pair().await;
        (near, far)
    }

    /// Both ends of a connection, the first as a session has it, with its watch.
    async fn watched_pair() -> (Ahead, Watch, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (near, watch) = Ahead::new(Box::new(TcpIo::from(near.unwrap())));
        (near, watch, far.unwrap().0)
    }

    /// The bytes that one read gives.
    async fn read(from: &mut TcpStream) -> Vec<u8> {
        let mut bytes = vec![0; 64 * 1024];
        let length = from.read(&mut bytes).await.unwrap();
        bytes.truncate(length);
        bytes
    }

    fn nothing_came(at: &TcpStream) -> bool {
        matches!(at.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    #[tokio::test]
    async fn the_first_write_goes_with_the_second_and_no_other_waits() {
        let (mut near, mut far) = pair().await;
        for _ in 0..2 {
            near.write_all(b"head").await.unwrap();
            assert!(nothing_came(&far));
            near.write_all(b"body").await.unwrap();
            assert_eq!(read(&mut far).await, b"headbody");
            near.write_all(b"more").await.unwrap();
            assert_eq!(read(&mut far).await, b"more");
            near.flush().await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_flush_a_vectored_write_and_the_end_let_it_out() {
        let (mut near, mut far) = pair().await;
        near.write_all(b"head").await.unwrap();
        near.flush().await.unwrap();
        assert_eq!(read(&mut far).await, b"head");
        near.write_all(b"next").await.unwrap();
        let wrote = near.write_vectored(&[IoSlice::new(b"a"), IoSlice::new(b"b")]).await;
        assert_eq!(wrote.unwrap(), 2);
        let mut both = [0; 6];
        far.read_exact(&mut both).await.unwrap();
        assert_eq!(&both, b"nextab");
        near.flush().await.unwrap();
        near.write_all(b"last").await.unwrap();
        Shutdown::shutdown(&mut near).await;
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"last");
    }

    #[tokio::test]
    async fn it_goes_out_when_the_writer_begins_to_wait() {
        let (mut near, watch, mut far) = watched_pair().await;
        near.write_all(b"head").await.unwrap();
        let client = async {
            assert_eq!(read(&mut far).await, b"head");
            drop(far);
        };
        tokio::join!(watch.ended(), client);
    }

    #[tokio::test]
    async fn a_large_write_is_not_held() {
        let (mut near, mut far) = pair().await;
        near.write_all(&[7; HELD + 1]).await.unwrap();
        assert!(!read(&mut far).await.is_empty());
    }

    #[tokio::test]
    async fn a_body_that_the_socket_takes_in_parts_arrives_whole() {
        let (mut near, mut far) = pair().await;
        let body: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let send = async {
            near.write_all(b"head").await.unwrap();
            near.write_all(&body).await.unwrap();
            AsyncWriteExt::shutdown(&mut near).await.unwrap();
        };
        let mut came = Vec::new();
        let ((), length) = tokio::join!(send, far.read_to_end(&mut came));
        assert_eq!(length.unwrap(), body.len() + 4);
        assert!(came.starts_with(b"head") && came[4..] == body);
    }
}
