//! The engine's side of one attempt: connect, send the request, read the head and the body.
//!
//! The [`wire`] listens while the request is sent: an engine may answer without reading all of it.
//!
//! A connection goes back to the pool only after a clean exchange. An abandoned one is closed at
//! once, and the close is confirmed so that a slot is not given away while the engine still works.

mod wire;

use bytes::{Bytes, BytesMut};
use http::{StatusCode, header};
use pingora_core::connectors::{ConnectorOptions, TransportConnector};
use pingora_core::protocols::http::v1::client::HttpSession;
use pingora_core::protocols::l4::ext::TcpKeepalive;
use pingora_core::upstreams::peer::{HttpPeer, Peer};
use pingora_core::{BError, Error, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio::time::timeout;
use wire::Wire;

/// Ready chunks are joined into one piece up to this size.
const JOIN_BYTES: usize = 16 * 1024;
/// How long an abandoned engine connection is watched for the engine's own close. vLLM aborts
/// within 0.16 s of the client's FIN (measured); an engine that needs longer, or never answers a
/// FIN, is closed hard after this.
const ABORT_CONFIRM: Duration = Duration::from_millis(300);
/// Keep-alive probes find an engine host that vanished without a word during a silent stream.
const PROBE_IDLE: Duration = Duration::from_secs(15);
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_COUNT: usize = 3;

/// Connections to engines, pooled while idle.
pub struct Engines {
    connector: TransportConnector,
    timeouts: EngineTimeouts,
}

/// Deadlines of an engine connection itself; those of a request are the exchange's.
#[derive(Clone, Debug)]
pub struct EngineTimeouts {
    pub connect: Duration,
    /// An idle connection is dropped after this; must be below the engine's own keep-alive time
    /// (uvicorn: 5 s).
    pub pool_idle: Duration,
}

impl Engines {
    /// `pool_size`: idle connections kept over all engines.
    pub fn new(timeouts: EngineTimeouts, pool_size: usize) -> Self {
        let connector = TransportConnector::new(Some(ConnectorOptions::new(pool_size)));
        Self { connector, timeouts }
    }

    /// A connection to `address`, pooled or new. Nothing has been sent on it.
    ///
    /// # Errors
    /// No connection within the connect timeout: the engine saw nothing of the request.
    pub async fn connect(&self, address: SocketAddr) -> Result<Box<EngineCall>> {
        let peer = self.peer(address);
        let (stream, reused) = self.connector.get_stream(&peer).await?;
        let session = HttpSession::new(Box::new(Wire::new(stream)));
        let reused = reused.then(|| acknowledged(&session));
        Ok(Box::new(EngineCall {
            session,
            peer,
            reused,
            closed: false,
            request_whole: false,
            answered: false,
            broken: false,
            failure: None,
        }))
    }

    /// The call is over. A connection whose answer came whole may be used again, unless none is to
    /// be (pingora's pool gives one out until the task that times it has run); any other is closed,
    /// and the engine is given `ABORT_CONFIRM` to close it too: when this returns, its work has
    /// ended as far as can be known. The call stays in its place until then, so that a drop of the
    /// future loses nothing: end it again.
    pub async fn end(&self, place: &mut Option<Box<EngineCall>>) {
        let Some(call) = place else { return };
        if !call.is_done() {
            call.abandon().await;
        }
        let Some(mut call) = place.take() else { return };
        if call.request_whole && call.is_done() && !self.timeouts.pool_idle.is_zero() {
            let EngineCall { mut session, peer, .. } = *call;
            session.respect_keepalive();
            let wire = session.reuse().await.and_then(|stream| stream.into_any().downcast().ok());
            if let Some(wire) = wire {
                let stream = Wire::into_inner(*wire);
                let idle = Some(self.timeouts.pool_idle);
                self.connector.release_stream(stream, peer.reuse_hash(), idle);
            }
        }
    }

    fn peer(&self, address: SocketAddr) -> HttpPeer {
        let mut peer = HttpPeer::new(address, false, String::new());
        peer.options.connection_timeout = Some(self.timeouts.connect);
        peer.options.idle_timeout = Some(self.timeouts.pool_idle);
        peer.options.tcp_keepalive = Some(TcpKeepalive {
            idle: PROBE_IDLE,
            interval: PROBE_INTERVAL,
            count: PROBE_COUNT,
            #[cfg(target_os = "linux")]
            user_timeout: Duration::ZERO,
        });
        peer
    }
}

/// One request on one engine connection.
pub struct EngineCall {
    session: HttpSession,
    peer: HttpPeer,
    /// It came from the pool of idle connections, where its engine had acknowledged so many bytes.
    reused: Option<Option<u64>>,
    /// Asking failed because the engine's side is closed.
    closed: bool,
    /// The whole request was written, so that the connection may be used again.
    request_whole: bool,
    /// The head of the final answer was read. Before that pingora must not be asked about a body.
    answered: bool,
    /// The body ended before its end. pingora's reader calls such a body done from then on.
    broken: bool,
    /// Met while joining pieces; the next [`read`](Self::read) tells it.
    failure: Option<BError>,
}

impl EngineCall {
    /// Send the request and wait for the head of its answer; interim answers are skipped. An answer
    /// that begins before all is sent ends the sending and counts.
    ///
    /// Not to be called again after an error or a drop of the future: [`Engines::end`] the call.
    pub async fn ask(&mut self, head: RequestHeader, body: &[Bytes]) -> Result<()> {
        let sent = self.send(head, body).await;
        self.request_whole = sent.is_ok();
        if let Err(error) = &sent
            && matches!(error.etype(), ErrorType::InvalidHTTPHeader)
        {
            // Nothing was written, so nobody will answer.
            return sent;
        }
        let read = self.read_head().await.map_err(|error| sent.err().unwrap_or(error));
        self.closed = read.as_ref().is_err_and(|error| is_closed(error));
        read
    }

    /// Once [`ask`](Self::ask) has failed: how far the request can have come.
    pub fn unanswered(&self) -> Unanswered {
        let Some(before) = self.reused.filter(|_| self.closed && !self.heard()) else {
            return Unanswered::Lost;
        };
        let untaken = before.is_some() && acknowledged(&self.session) == before;
        if untaken { Unanswered::Untaken } else { Unanswered::ReusedClosed }
    }

    fn heard(&self) -> bool {
        self.session.stream().as_any().downcast_ref::<Wire>().is_none_or(Wire::heard)
    }

    async fn read_head(&mut self) -> Result<()> {
        while !self.answered {
            self.session.read_response().await?;
            match self.session.get_status() {
                Some(StatusCode::SWITCHING_PROTOCOLS) | None => {
                    return Error::e_explain(ErrorType::InvalidHTTPHeader, "unexpected 101");
                }
                Some(status) => self.answered = !status.is_informational(),
            }
        }
        Ok(())
    }

    /// The answer's head, once [`ask`](Self::ask) has succeeded.
    pub fn head(&self) -> Option<&ResponseHeader> {
        self.session.resp_header()
    }

    /// Nothing more will come: the body ended cleanly.
    pub fn is_done(&mut self) -> bool {
        self.answered && !self.broken && self.session.is_body_done()
    }

    /// The next piece of the body, joined with what is already here; `None` at its clean end.
    /// After an error every further read fails too. Cancel-safe.
    pub async fn read(&mut self) -> Result<Option<Bytes>> {
        if self.broken {
            let closed = || Error::explain(ErrorType::ConnectionClosed, "the answer broke before");
            return Err(self.failure.take().unwrap_or_else(closed));
        }
        let first = match self.session.read_body_bytes().await {
            Ok(Some(first)) => first,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.broken = true;
                return Err(error);
            }
        };
        let mut joined: Option<BytesMut> = None;
        let mut length = first.len();
        while length < JOIN_BYTES && !self.session.is_body_done() {
            match now_or_never(self.session.read_body_bytes()).await {
                Some(Ok(Some(more))) => {
                    length += more.len();
                    joined.get_or_insert_with(|| BytesMut::from(&first[..])).extend(&more);
                }
                Some(Err(error)) => {
                    (self.broken, self.failure) = (true, Some(error));
                    break;
                }
                Some(Ok(None)) | None => break,
            }
        }
        Ok(Some(joined.map_or(first, BytesMut::freeze)))
    }

    /// Tell the engine by FIN, wait until it has closed its side too, then close.
    ///
    /// What the engine still sends is read and dropped: closing with unread bytes would turn the
    /// FIN into a reset, which some engines notice only at their next write. The FIN itself may
    /// have to wait behind a request that the engine does not read, so it is bounded as well.
    async fn abandon(&mut self) {
        // Whatever still comes, this connection is not used again.
        self.request_whole = false;
        let close = async {
            self.session.shutdown().await;
            if self.read_head().await.is_ok() {
                while let Ok(Some(_)) = self.session.read_body_bytes().await {}
            }
        };
        let _ = timeout(ABORT_CONFIRM, close).await;
    }

    async fn send(&mut self, head: RequestHeader, body: &[Bytes]) -> Result<()> {
        self.session.write_request_header(Box::new(head)).await?;
        for part in body.iter().filter(|part| !part.is_empty()) {
            self.session.write_body(part).await?;
        }
        self.session.finish_body().await?;
        Ok(())
    }
}

/// An engine gave no answer. Only the first two can be those of a connection that had been closed
/// while it was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// A connection from the pool turned out to be closed, and its engine's side acknowledged no
    /// byte of the request: whatever it was, it was not begun.
    Untaken,
    /// A connection from the pool was closed before a byte of an answer. Its engine's side has the
    /// request or a part of it.
    ReusedClosed,
    /// The connection was new, an answer had begun, or it is none.
    Lost,
}

/// Bytes that the engine's side of the connection has acknowledged so far; it acknowledges what
/// it takes, while a closed side answers with a reset. `None`: not known here.
fn acknowledged(session: &HttpSession) -> Option<u64> {
    let digest = session.digest().socket_digest.as_ref()?;
    digest.tcp_info().map(|info| info.tcpi_bytes_acked)
}

/// Whether the error is that of a connection whose other side is closed.
fn is_closed(error: &Error) -> bool {
    let cause = error.cause.as_ref().and_then(|cause| cause.downcast_ref::<io::Error>());
    matches!(error.etype(), ErrorType::ConnectionClosed)
        || cause.is_some_and(|cause| {
            matches!(
                cause.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
            )
        })
}

/// Whether the answer is an SSE stream.
pub fn is_event_stream(head: &ResponseHeader) -> bool {
    head.headers.get(header::CONTENT_TYPE).is_some_and(|value| {
        value
            .as_bytes()
            .get(..17)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"text/event-stream"))
    })
}

async fn now_or_never<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(tokio::task::unconstrained(future));
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests;
