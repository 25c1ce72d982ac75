//! The HTTP client: one request, one answer, exact times.
//!
//! It is plain HTTP/1.1 over TCP, cheap enough for thousands of requests a second on one core,
//! and never retries: what happened to a request is what its record says.

mod exchange;
mod framing;
mod pool;
mod sse;
mod stream;

pub use exchange::{Ended, Exchange};
pub use sse::{Event, SseReader, TooLong};
pub use stream::Usage;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pool::{Conn, Pool};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long the client waits, in real time.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For a connection.
    pub connect: Duration,
    /// For the next byte of an answer.
    pub silence: Duration,
    /// For the whole exchange; `None` is without end.
    pub total: Option<Duration>,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Where to connect.
    pub addr: SocketAddr,
    /// The `host` field.
    pub host: &'a str,
    /// The path.
    pub path: &'a str,
    /// Further fields of the head.
    pub headers: &'a [(String, String)],
    /// A JSON body.
    pub body: &'a [u8],
    /// Output tokens that a complete answer has; `None` if any number will do.
    pub tokens: Option<u32>,
}

/// A client with its connections.
#[derive(Debug)]
pub struct Client {
    pool: Pool,
    limits: Limits,
}

impl Client {
    /// A client without connections.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { pool: Pool::default(), limits }
    }

    /// Sends a request and reads its answer to the end, whatever that is. Times count from the
    /// call. Cancel safe: dropping it closes the connection.
    pub async fn exchange(&self, call: &Call<'_>) -> Exchange {
        let mut seen = Exchange::begin(Instant::now());
        let talk = exchange::talk(self, call, &mut seen);
        let ended = match self.limits.total {
            Some(limit) => timeout(limit, talk).await.unwrap_or(Ended::TotalTimeout),
            None => talk.await,
        };
        seen.end(ended);
        seen
    }

    /// Closes the connections that are not in use.
    pub fn close_idle(&self) {
        self.pool.clear();
    }

    async fn connect(&self, addr: SocketAddr) -> Result<Conn, Ended> {
        if let Some(conn) = self.pool.take(addr) {
            return Ok(conn);
        }
        let stream = timeout(self.limits.connect, TcpStream::connect(addr))
            .await
            .map_err(|_| Ended::ConnectTimeout)?
            .map_err(|_| Ended::ConnectFailed)?;
        // Fails only on a dead socket, which the first write reports.
        let _ = stream.set_nodelay(true);
        Ok(Conn::new(stream))
    }
}
