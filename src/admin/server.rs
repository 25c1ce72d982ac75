//! The connections of the admin port.
//!
//! One request a connection: then a connection's life is bounded by the head timeout, the
//! handler and the write stall, and no number of idle clients keeps the probes out.

use super::stall::Stall;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A client that has not sent its whole head by then is dropped.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// A client that takes no byte of an answer for this long is dropped.
const WRITE_STALL: Duration = Duration::from_secs(10);
/// Largest head.
const MAX_HEAD: usize = 16 * 1_024;
const MAX_HEADERS: usize = 64;
/// Connections at once; more wait in the listener's backlog.
const MAX_CONNECTIONS: usize = 256;
/// After an accept failed for want of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// For answers under way when the server is told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// The caller's address.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// Serve `router` until `shutdown`, then give answers under way [`GRACE`]. Dropping the future
/// drops every connection.
pub async fn serve(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()>) {
    let stop = CancellationToken::new();
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            accepted = accept(&listener, &slots) => if let Some((stream, peer, slot)) = accepted {
                let router = router.clone().layer(Extension(Peer(peer)));
                connections.spawn(connection(stream, router, stop.clone(), slot));
            }
        }
    }
    drop(listener);
    stop.cancel();
    let finished = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, finished).await.is_err() {
        tracing::warn!(left = connections.len(), "admin connections were dropped unanswered");
    }
}

type Accepted = (TcpStream, IpAddr, OwnedSemaphorePermit);

/// One connection, once there is a slot for it. Cancel-safe.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> Option<Accepted> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer.ip(), slot)),
        Err(error) => {
            tracing::warn!(%error, "the admin port cannot accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// The slot is given back whatever happens.
async fn connection(
    stream: TcpStream,
    router: Router,
    stop: CancellationToken,
    _slot: OwnedSemaphorePermit,
) {
    let io = TokioIo::new(Stall::new(stream, WRITE_STALL));
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .keep_alive(false)
        .serve_connection(io, TowerToHyperService::new(router));
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an admin connection broke");
    }
}
