//! Requests of one HTTP/1 connection, in turn.

use super::ConnectionLimits;
use super::ahead::Ahead;
use super::socket::Close;
use crate::core::drain::Farewell;
use crate::proxy::client::{Client, Under};
use crate::proxy::exchange::{After, HeadFault};
use crate::proxy::gateway::Gateway;
use bytes::BytesMut;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::{BError, ErrorType};
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;
use tokio::time::timeout;

/// Room made for a request's head; most fit.
const HEAD_ROOM: usize = 4 * 1024;

pub(super) async fn serve(
    stream: Stream,
    close: Close,
    peer: IpAddr,
    gateway: Arc<Gateway>,
    mut farewell: watch::Receiver<Farewell>,
) {
    let limits = gateway.connection_limits();
    let (stream, watch) = Ahead::new(stream);
    // A connection that never says a word is nobody's request.
    let first = next_session(Box::new(stream), limits.head).await;
    let Some(mut session) = first else { return };
    loop {
        if !read_head(&mut session, peer, &gateway, &limits).await {
            return;
        }
        let under = Some(Under { watch: watch.clone(), close: close.clone() });
        let mut client = Client::new(session, under, peer, farewell.clone());
        // Boxed: a connection that waits for its next request must not keep this space.
        match Box::pin(gateway.exchange(&mut client)).await {
            After::Keep => {}
            After::Close => return,
        }
        let next = reuse(client.into_session(), &limits, &mut farewell).await;
        let Some(next) = next else { return };
        session = next;
    }
}

/// Read one request head within the deadline; a broken one is answered. `false`: close.
async fn read_head(
    session: &mut ServerSession,
    peer: IpAddr,
    gateway: &Gateway,
    limits: &ConnectionLimits,
) -> bool {
    match timeout(limits.head, session.read_request()).await {
        Ok(Ok(true)) => true,
        Ok(Ok(false)) => false,
        Ok(Err(error)) => {
            if let Some(fault) = fault(&error) {
                gateway.refuse_head(session, peer, fault).await;
            }
            false
        }
        Err(_) => {
            gateway.refuse_head(session, peer, HeadFault::Slow).await;
            false
        }
    }
}

/// What to tell the client; `None`: nothing, since its connection broke.
fn fault(error: &BError) -> Option<HeadFault> {
    if !matches!(error.etype(), ErrorType::InvalidHTTPHeader) {
        return None;
    }
    // The two bounds of pingora's reader (1 MiB, 256 headers) have no type of their own.
    let too_long = error.context.as_ref().is_some_and(|context| {
        let context = context.as_str();
        context.starts_with("Request header larger than")
    });
    let too_many =
        error.cause.as_ref().is_some_and(|cause| cause.to_string() == "too many headers");
    Some(if too_long || too_many { HeadFault::TooLarge } else { HeadFault::Malformed })
}

/// Keep a connection for its next request. Closing an idle connection because this replica leaves
/// would race with the client's next request, so a leaving replica keeps it and answers that
/// request with `Connection: close`. Once that request would be refused anyway, the close is the
/// better word: nearly every client hears it in time and goes elsewhere.
async fn reuse(
    session: ServerSession,
    limits: &ConnectionLimits,
    farewell: &mut watch::Receiver<Farewell>,
) -> Option<ServerSession> {
    // Even a polite close may have to wait for a client that does not read.
    let finished = timeout(limits.idle, session.finish()).await.ok()?;
    let (stream, early) = finished.ok()??.into_parts();
    match early {
        Some(early) => Some(session_of(stream, early)),
        None => tokio::select! {
            // What has come is answered.
            biased;
            next = next_session(stream, limits.idle) => next,
            _ = farewell.wait_for(|farewell| *farewell == Farewell::Refuses) => None,
        },
    }
}

/// Wait for the first bytes of a request. `None`: the client closed, or sent nothing `within` that
/// time.
async fn next_session(mut stream: Stream, within: Duration) -> Option<ServerSession> {
    let start = timeout(within, first_bytes(&mut stream)).await.ok()?.ok()?;
    Some(session_of(stream, start))
}

/// What one read gives. The room for it is on the stack of the poll that finds it, so an idle
/// connection needs none.
async fn first_bytes(stream: &mut Stream) -> io::Result<BytesMut> {
    poll_fn(|context| {
        let mut room = [const { MaybeUninit::uninit() }; HEAD_ROOM];
        let mut read = ReadBuf::uninit(&mut room);
        ready!(Pin::new(&mut *stream).poll_read(context, &mut read))?;
        if read.filled().is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        Poll::Ready(Ok(start_of(read.filled())))
    })
    .await
}

/// The start of a head with room for its rest. The request keeps it to its end, so one that is
/// whole gets no more than it needs.
fn start_of(bytes: &[u8]) -> BytesMut {
    let whole = memchr::memmem::find(bytes, b"\r\n\r\n").is_some();
    let mut start = BytesMut::with_capacity(if whole { bytes.len() } else { HEAD_ROOM });
    start.extend_from_slice(bytes);
    start
}

/// A session whose request begins with `start`.
fn session_of(stream: Stream, start: BytesMut) -> ServerSession {
    let mut session = ServerSession::new_http1(stream);
    session.set_pipelined_prefix(start);
    // Every read has a deadline of ours; pingora's own of a minute would cut longer ones short.
    session.set_read_timeout(None);
    // A second request that arrives while the first runs is kept for later instead of being
    // taken for a protocol violation that aborts the first (RFC 9112 §9.3.2).
    session.set_pipelining_enabled(true);
    session
}
