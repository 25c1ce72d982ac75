//! Requests of one HTTP/1 connection, in turn.

use super::ConnectionLimits;
use crate::proxy::client::Client;
use crate::proxy::exchange::After;
use crate::proxy::gateway::Gateway;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::{BError, ErrorType};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::timeout;

pub(super) async fn serve(
    stream: Stream,
    peer: IpAddr,
    gateway: Arc<Gateway>,
    leaving: watch::Receiver<bool>,
) {
    let limits = gateway.connection_limits();
    let mut session = new_session(stream);
    loop {
        if !read_head(&mut session, peer, &gateway, &limits).await {
            return;
        }
        let mut client = Client::new(session, peer, leaving.clone());
        // Boxed: a connection that waits for its next request must not keep this space.
        match Box::pin(gateway.exchange(&mut client)).await {
            After::Keep => {}
            After::Close => return,
        }
        let Some(next) = reuse(client.into_session(), &limits).await else { return };
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
            if is_bad_head(&error) {
                gateway.refuse_bad_head(session, peer).await;
            }
            false
        }
        Err(_) => {
            gateway.refuse_slow_head(session, peer).await;
            false
        }
    }
}

fn is_bad_head(error: &BError) -> bool {
    matches!(error.etype(), ErrorType::InvalidHTTPHeader)
}

/// Wait for the next request's first byte on a connection that may be kept. Closing an idle
/// connection because this replica leaves would race with the client's next request, so a leaving
/// replica keeps it and answers that request with `Connection: close`.
async fn reuse(session: ServerSession, limits: &ConnectionLimits) -> Option<ServerSession> {
    let (mut stream, early) = session.finish().await.ok()??.into_parts();
    if early.is_none() {
        // TLS streams cannot be peeked: there the head deadline counts the idle time too.
        timeout(limits.idle, stream.try_peek(&mut [0])).await.ok()?.ok()?;
    }
    let mut session = new_session(stream);
    if let Some(early) = early {
        session.set_pipelined_prefix(early);
    }
    Some(session)
}

fn new_session(stream: Stream) -> ServerSession {
    let mut session = ServerSession::new_http1(stream);
    // A second request that arrives while the first runs is kept for later instead of being
    // taken for a protocol violation that aborts the first (RFC 9112 §9.3.2).
    session.set_pipelining_enabled(true);
    session
}
