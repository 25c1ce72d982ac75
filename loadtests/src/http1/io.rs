//! One accepted connection: reads ahead, notices the peer's close while it writes or waits.

use std::future::pending;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;

/// Bytes of a pipelined next request that are kept while an answer is under way. Beyond it the
/// socket is left alone, so a close behind so much unread data is noticed only by a failed write.
const READ_AHEAD: usize = 64 * 1024;
const READ_CHUNK: usize = 16 * 1024;

/// The peer closed (or half-closed) its side, or reset the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer closed the connection")]
pub(crate) struct PeerGone;

/// How a connection is closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CloseBy {
    /// An orderly close.
    #[default]
    Fin,
    /// A reset: `SO_LINGER` 0, then close.
    Rst,
}

pub(crate) struct Io {
    stream: TcpStream,
    inbuf: BytesMut,
    gone: bool,
}

impl Io {
    pub(crate) fn new(stream: TcpStream) -> Self {
        // Every write is its own segment, so that faults about write boundaries mean something.
        // It fails only on a socket that is already dead, which the first read reports.
        let _ = stream.set_nodelay(true);
        Self { stream, inbuf: BytesMut::new(), gone: false }
    }

    /// Bytes read and not yet consumed.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.inbuf
    }

    /// Reads more. `false` at the end of input or on an error. Cancel safe.
    pub(crate) async fn fill(&mut self) -> bool {
        if self.gone {
            return false;
        }
        self.inbuf.reserve(READ_CHUNK);
        match self.stream.read_buf(&mut self.inbuf).await {
            Ok(n) if n > 0 => true,
            _ => {
                self.gone = true;
                false
            }
        }
    }

    /// Makes room for a body of `len` bytes that is about to be read.
    pub(crate) fn reserve(&mut self, len: usize) {
        self.inbuf.reserve(len.saturating_sub(self.inbuf.len()));
    }

    /// Waits until the peer has closed, half-closed or reset. Cancel safe.
    pub(crate) async fn closed(&mut self) {
        loop {
            if self.gone {
                return;
            }
            if self.inbuf.len() >= READ_AHEAD {
                return pending().await;
            }
            self.fill().await;
        }
    }

    /// Writes all of `data` while watching for the peer's close. Not cancel safe.
    pub(crate) async fn write(&mut self, mut data: &[u8]) -> Result<(), PeerGone> {
        while !data.is_empty() {
            if self.gone {
                return Err(PeerGone);
            }
            match self.stream.try_write(data) {
                Ok(0) => self.gone = true,
                Ok(n) => data = &data[n..],
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => self.wait_writable().await,
                Err(_) => self.gone = true,
            }
        }
        Ok(())
    }

    async fn wait_writable(&mut self) {
        let room = READ_AHEAD.saturating_sub(self.inbuf.len());
        let interest =
            if room == 0 { Interest::WRITABLE } else { Interest::WRITABLE | Interest::READABLE };
        match self.stream.ready(interest).await {
            Ok(ready) if ready.is_readable() && room > 0 => self.try_fill(),
            Ok(_) => {}
            Err(_) => self.gone = true,
        }
    }

    fn try_fill(&mut self) {
        self.inbuf.reserve(READ_CHUNK);
        match self.stream.try_read_buf(&mut self.inbuf) {
            Ok(0) => self.gone = true,
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => self.gone = true,
        }
    }

    /// Closes the connection. With [`CloseBy::Fin`] all bytes written are still delivered.
    pub(crate) async fn close(mut self, by: CloseBy) {
        match by {
            // A socket that cannot be closed politely is closed by the drop that follows.
            CloseBy::Fin => drop(self.stream.shutdown().await),
            CloseBy::Rst => self.set_reset(),
        }
    }

    /// From now on dropping the connection resets it.
    pub(crate) fn set_reset(&mut self) {
        // Fails only on a dead socket, for which a reset is moot.
        let _ = self.stream.set_zero_linger();
    }
}
