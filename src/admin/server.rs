//! The connections of the admin port.
//!
//! One request a connection: then a connection's life is bounded by the head timeout, the
//! handler and the write stall. Where all places are taken, somebody gives way (`places`), so no
//! number of idle, slow or blocked clients keeps the probes out.

use super::places::{Place, Places};
use super::stall::Stall;
use crate::core::seldom::Seldom;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A client that has not sent its whole head by then is dropped.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// A client that takes no byte of an answer for this long is dropped.
const WRITE_STALL: Duration = Duration::from_secs(10);
/// Largest head.
const MAX_HEAD: usize = 16 * 1_024;
const MAX_HEADERS: usize = 64;
/// After an accept failed for want of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Longest silence of the log about failed accepts.
static FAILED: Seldom = Seldom::new(Duration::from_secs(5));
/// For answers under way when the server is told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// The caller's address.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// Serve `router` on at most `most` connections until `shutdown`, then give answers under way
/// [`GRACE`]. Dropping the future drops every connection.
pub async fn serve(
    listener: TcpListener,
    most: usize,
    router: Router,
    shutdown: impl Future<Output = ()>,
) {
    let stop = CancellationToken::new();
    let places = Places::new(most);
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            accepted = accept(&listener) => if let Some((stream, peer)) = accepted {
                let place = places.enter().await;
                let caller = (Extension(Peer(peer)), Extension(place.seat()));
                let router = router.clone().layer(caller);
                connections.spawn(connection(stream, router, stop.clone(), place));
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

/// One connection. Cancel-safe.
async fn accept(listener: &TcpListener) -> Option<(TcpStream, IpAddr)> {
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer.ip())),
        Err(error) => {
            if let Some(silent) = FAILED.pass(Instant::now().into_std()) {
                tracing::warn!(%error, silent, "the admin port cannot accept a connection");
            }
            // Unless the client is to blame, the next would fail too.
            if error.kind() != ErrorKind::ConnectionAborted {
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            None
        }
    }
}

/// The place is given back whatever happens.
async fn connection(stream: TcpStream, router: Router, stop: CancellationToken, place: Place) {
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
        () = place.give_way() => return,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an admin connection broke");
    }
}
