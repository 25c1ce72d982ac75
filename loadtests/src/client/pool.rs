//! Kept-alive connections, by address.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::net::TcpStream;

/// Real time after which an idle connection is not used again: below the 5 s after which vLLM
/// closes its side.
const IDLE: Duration = Duration::from_secs(4);

/// One connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) stream: TcpStream,
    /// Bytes read and not yet consumed.
    pub(super) buffer: BytesMut,
    /// It has carried a request before.
    pub(super) reused: bool,
}

#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Mutex<HashMap<SocketAddr, Vec<(Instant, Conn)>>>,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, HashMap<SocketAddr, Vec<(Instant, Conn)>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that was alive a moment ago, if there is one.
    pub(super) fn take(&self, addr: SocketAddr) -> Option<Conn> {
        loop {
            let (since, conn) = self.lock().get_mut(&addr)?.pop()?;
            if since.elapsed() < IDLE && conn.quiet() {
                return Some(conn);
            }
        }
    }

    /// Keeps a connection whose last answer was read to its end.
    pub(super) fn put(&self, addr: SocketAddr, mut conn: Conn) {
        conn.reused = true;
        self.lock().entry(addr).or_default().push((Instant::now(), conn));
    }

    /// Closes all idle connections.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }
}

impl Conn {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: BytesMut::new(), reused: false }
    }

    /// Open, and nothing unexpected was sent on it.
    fn quiet(&self) -> bool {
        let would_block = |e: &std::io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
        self.stream.try_read(&mut [0; 1]).as_ref().is_err_and(would_block)
    }
}
