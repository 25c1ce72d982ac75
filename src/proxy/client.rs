//! The client's side of one request: every write has a deadline, leaving is noticed while we
//! wait, and a broken answer is ended so that the client can tell.

use super::connection::{Close, Watch};
use crate::core::drain::Farewell;
use bytes::{Bytes, BytesMut};
use http::Version;
use pingora_core::protocols::http::ServerSession;
use pingora_core::{ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

/// Pieces of an answer are joined into one write up to this size; a larger piece goes alone.
const JOIN_BYTES: usize = 16 * 1024;
/// How often a write that waits looks at what the client takes meanwhile, in its deadline.
const LOOKS: u32 = 4;
/// Longest pause between two looks at what the client has taken.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Why nothing more reaches the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It closed or reset the connection or the stream.
    Gone,
    /// It took no byte for `timeouts.write_stall`.
    Stalled,
}

/// The connection under an HTTP/1 session.
pub struct Under {
    pub watch: Watch,
    pub close: Close,
}

/// A client's session with the state the loop needs beside it.
pub struct Client {
    session: ServerSession,
    /// Of an HTTP/1 connection; an HTTP/2 session watches and resets its own stream.
    under: Option<Under>,
    address: IpAddr,
    farewell: watch::Receiver<Farewell>,
    write_stall: Duration,
    /// A write was begun and has not ended well: whatever followed would run into it.
    mid_write: bool,
}

impl Client {
    /// Wrap a session whose request head has been read.
    pub fn new(
        session: ServerSession,
        under: Option<Under>,
        address: IpAddr,
        farewell: watch::Receiver<Farewell>,
    ) -> Self {
        Self { session, under, address, farewell, write_stall: Duration::MAX, mid_write: false }
    }

    /// The session back, for the next request of the connection.
    pub fn into_session(self) -> ServerSession {
        self.session
    }

    /// The request head as it came.
    pub fn head(&self) -> &RequestHeader {
        self.session.req_header()
    }

    pub fn address(&self) -> IpAddr {
        self.address
    }

    pub fn is_http2(&self) -> bool {
        self.session.is_http2()
    }

    /// The head of an HTTP/1 request as it came over the wire, in bytes.
    pub fn head_bytes(&self) -> usize {
        self.session.as_http1().map_or(0, |session| session.get_headers_raw_bytes().len())
    }

    /// Bounds every write from now on.
    pub fn set_write_stall(&mut self, limit: Duration) {
        self.write_stall = limit;
        // Over HTTP/1 pingora's would cut a client that takes bytes while its write waits.
        self.session.set_write_timeout(self.is_http2().then_some(limit));
    }

    /// The next piece of the request body; `None` at its end.
    pub async fn read_body(&mut self) -> Result<Option<Bytes>> {
        self.session.read_request_body().await
    }

    pub fn body_is_done(&mut self) -> bool {
        self.session.is_body_done()
    }

    /// Tell a client that waits with `Expect: 100-continue` to send its body.
    pub async fn send_continue(&mut self) -> Result<()> {
        // Writing any head before the body is read makes pingora close the connection after the
        // final answer; the keep-alive decision is put back.
        let keepalive = self.session.get_keepalive();
        self.session.write_continue_response().await?;
        self.session.set_keepalive(keepalive);
        Ok(())
    }

    /// Resolves when the client has left. Cancel-safe: it consumes nothing but bytes of a next
    /// request, which are kept. Only for a request whose body was read.
    pub async fn gone(&mut self) {
        match &self.under {
            Some(under) => under.watch.ended().await,
            None => while self.session.read_body_or_idle(true).await.is_ok() {},
        }
    }

    /// The same while something is written to it. Over HTTP/2 the write itself ends then.
    pub fn gone_meanwhile(&self) -> impl Future<Output = ()> + use<> {
        let watch = self.under.as_ref().map(|under| under.watch.clone());
        async move {
            match watch {
                Some(watch) => watch.ended().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Read and drop what is left of the request body, so that an early answer is not lost to
    /// the reset that closing with unread bytes would cause.
    pub async fn drain_body(&mut self, within: Duration) -> bool {
        matches!(timeout(within, self.session.drain_request_body()).await, Ok(Ok(())))
    }

    /// The connection will not be used for another request.
    pub fn close_after(&mut self) {
        self.session.set_keepalive(None);
    }

    fn leaves(&self) -> bool {
        *self.farewell.borrow() != Farewell::Stays
    }

    /// Body bytes sent so far.
    pub fn body_sent(&self) -> u64 {
        self.session.body_bytes_sent() as u64
    }

    /// Send the response head. A replica that leaves says so here.
    pub async fn send_head(&mut self, mut head: ResponseHeader) -> Result<(), Lost> {
        if self.leaves() || self.under.as_ref().is_some_and(|it| it.watch.has_overrun()) {
            self.close_after();
        }
        if let Some(under) = self.under.as_ref().filter(|_| self.head().version < Version::HTTP_11)
        {
            // The close ends its body, so until that is whole the connection must not be closed
            // in order, whatever happens.
            under.close.arm();
        }
        head.set_version(Version::HTTP_11);
        self.mid_write = true;
        // pingora's own write timeout does not cover the head.
        let write = self.session.write_response_header(Box::new(head));
        let written = unless_stalled(self.write_stall, self.under.as_ref(), write).await?;
        written.map_err(|error| lost(&error))?;
        self.mid_write = false;
        Ok(())
    }

    /// Send pieces in order, small ones joined. `pieces` is left empty. After a drop of the future
    /// the answer can only be [aborted](Self::abort).
    pub async fn send_all(&mut self, pieces: &mut Vec<Bytes>) -> Result<(), Lost> {
        if let [_] = pieces.as_slice() {
            return match pieces.pop() {
                Some(only) => self.write(only, false).await,
                None => Ok(()),
            };
        }
        let mut joined = BytesMut::new();
        for piece in pieces.drain(..) {
            if joined.len() + piece.len() > JOIN_BYTES && !joined.is_empty() {
                self.write(joined.split().freeze(), false).await?;
            }
            joined.extend_from_slice(&piece);
        }
        self.write(joined.freeze(), false).await
    }

    /// Send the last pieces and end the answer cleanly. Returns once the client's connection has
    /// them all, so that nothing is lost if the process ends next.
    ///
    /// A long answer may have begun before it was known that this replica leaves, without a
    /// `Connection: close`. Its end then carries the close, so that the client knows of both at
    /// once and sends no further request here.
    pub async fn finish(&mut self, mut last: Vec<Bytes>) -> Result<(), Lost> {
        let leaves = self.leaves();
        if let Some(under) = self.under.as_ref().filter(|it| leaves && !it.watch.has_more()) {
            under.close.joins_last_write();
            self.close_after();
        }
        let end = last.pop().unwrap_or_default();
        self.send_all(&mut last).await?;
        self.write_through(end, true).await?;
        if let Some(under) = &self.under {
            under.close.disarm();
        }
        Ok(())
    }

    /// End an answer that has begun so that the client can tell it is broken: a last event, then
    /// no clean end. An event that would run into an unfinished write is not sent.
    pub async fn abort(&mut self, event: Option<Bytes>) {
        self.close_after();
        let told = match event {
            _ if self.mid_write => return,
            Some(event) => self.write_through(event, false).await,
            None => Ok(()),
        };
        // HTTP/2: dropping the stream without END_STREAM resets it.
        let Some(under) = self.under.as_ref().filter(|_| told.is_ok()) else { return };
        // What is still buffered goes out first, and may meet a client that does not read.
        let _ = if under.close.is_armed() {
            // HTTP/1.0: dropping the connection resets it, and a reset discards what is buffered.
            unless_stalled(self.write_stall, Some(under), taken(under)).await
        } else {
            // FIN without the last chunk: every HTTP/1.1 client reports an incomplete body.
            let close = self.session.shutdown();
            unless_stalled(self.write_stall, Some(under), close).await
        };
    }

    /// Write in parts, each with a deadline of its own: a client that reads slowly but steadily is
    /// not stalled.
    async fn write(&mut self, mut piece: Bytes, end: bool) -> Result<(), Lost> {
        self.mid_write = true;
        while piece.len() > JOIN_BYTES {
            let part = piece.split_to(JOIN_BYTES);
            self.write_part(part, false).await?;
        }
        self.write_part(piece, end).await?;
        self.mid_write = false;
        Ok(())
    }

    async fn write_part(&mut self, part: Bytes, end: bool) -> Result<(), Lost> {
        let write = self.session.write_response_body(part, end);
        let written = match &self.under {
            Some(under) => unless_stalled(self.write_stall, Some(under), write).await?,
            // pingora's write timeout bounds it.
            None => write.await,
        };
        written.map_err(|error| lost(&error))
    }

    /// Write and wait until the bytes have left for the connection. Over HTTP/2 a write only
    /// queues them for the connection's task, and a reset that comes next discards the queue.
    async fn write_through(&mut self, piece: Bytes, end: bool) -> Result<(), Lost> {
        if !self.is_http2() {
            return self.write(piece, end).await;
        }
        let (piece, taken) = watched(piece);
        self.write(piece, end).await?;
        self.mid_write = true;
        timeout(self.write_stall, taken).await.map_err(|_| Lost::Stalled)?;
        self.mid_write = false;
        Ok(())
    }
}

/// What `write` gives, unless the client takes no byte for `limit`. That a write waits is no sign of
/// that: a full send buffer is writable again only when a good part of it, maybe megabytes, has
/// drained. Where what the client takes is not known, the write itself must end within `limit`.
async fn unless_stalled<T>(
    limit: Duration,
    under: Option<&Under>,
    write: impl Future<Output = T>,
) -> Result<T, Lost> {
    let mut write = pin!(write);
    let (mut taken, mut in_vain) = (None, 0);
    while in_vain < LOOKS {
        if let Ok(done) = timeout(limit / LOOKS, write.as_mut()).await {
            return Ok(done);
        }
        let now = under.and_then(|under| under.watch.acknowledged());
        // The first look only learns where the count stands, so a stall ends one look late.
        in_vain = if now > taken { 0 } else { in_vain + 1 };
        taken = now;
    }
    Err(Lost::Stalled)
}

/// Until the client's side has everything that was written. Nothing tells when it acknowledges, so
/// it is asked from time to time.
async fn taken(under: &Under) {
    let mut pause = Duration::from_millis(1);
    while under.watch.owes_acknowledgement() {
        sleep(pause).await;
        pause = (pause * 2).min(LOOK_AGAIN);
    }
}

/// The same bytes, and a future that resolves when nobody holds them any more: the connection has
/// encoded them, or will never want them.
fn watched(bytes: Bytes) -> (Bytes, impl Future<Output = ()>) {
    struct Watched(Bytes, #[expect(dead_code, reason = "tells by its drop")] oneshot::Sender<()>);
    impl AsRef<[u8]> for Watched {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let (held, free) = oneshot::channel();
    (Bytes::from_owner(Watched(bytes, held)), async move {
        let _ = free.await;
    })
}

fn lost(error: &pingora_core::Error) -> Lost {
    match error.etype() {
        ErrorType::WriteTimedout => Lost::Stalled,
        _ => Lost::Gone,
    }
}
