//! The proxy port: bind once at the start with a clear error, accept until the process ends.
//!
//! The listener stays open through the whole drain: closing it in the first moments of a rollout
//! is what makes clients see refused connections elsewhere.

use super::tls::TlsAcceptor;
use crate::core::drain::Farewell;
use crate::core::seldom::Seldom;
use crate::proxy::{ClientSocket, Gateway, serve_connection};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;
/// A client that vanished without a word is found by keep-alive probes after about 75 s.
const PROBE_IDLE: Duration = Duration::from_secs(45);
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBE_COUNT: u32 = 3;
/// Pause after a failed accept: running out of descriptors would otherwise spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Longest silences of the log about connections that were not served.
static FAILED: Seldom = Seldom::new(Duration::from_secs(5));
static TURNED_AWAY: Seldom = Seldom::new(Duration::from_secs(5));

/// A port that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{key}: cannot listen on {address}: {source}; choose a free address or stop what uses it")]
pub struct BindError {
    /// The configuration key that names the address.
    pub key: &'static str,
    pub address: SocketAddr,
    pub source: io::Error,
}

/// Open a listening port.
///
/// # Errors
/// [`BindError`] at once; a busy port is not tried again.
pub fn bind(key: &'static str, address: SocketAddr) -> Result<TcpListener, BindError> {
    open(address).map_err(|source| BindError { key, address, source })
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait for old connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// The proxy port at work.
pub struct Door {
    pub listener: TcpListener,
    pub tls: Option<Arc<TlsAcceptor>>,
    pub gateway: Arc<Gateway>,
    pub farewell: watch::Receiver<Farewell>,
    /// Connections at once. One more is closed at once: to let it wait would be a silence that no
    /// client can tell from a slow answer.
    pub max_clients: usize,
}

impl Door {
    /// Accept connections and serve each in its own task, until the future is dropped.
    pub async fn open(self) -> Infallible {
        let room = Arc::new(Semaphore::new(self.max_clients.min(Semaphore::MAX_PERMITS)));
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => match Arc::clone(&room).try_acquire_owned() {
                    Ok(place) => self.admit(stream, peer, place),
                    Err(_) => self.turn_away(),
                },
                Err(error) => failed(&error).await,
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr, place: OwnedSemaphorePermit) {
        let (tls, gateway) = (self.tls.clone(), Arc::clone(&self.gateway));
        let serving = serve(stream, peer, tls, gateway, self.farewell.clone());
        tokio::spawn(async move {
            serving.await;
            drop(place);
        });
    }

    fn turn_away(&self) {
        if let Some(silent) = TURNED_AWAY.pass(Instant::now()) {
            let most = self.max_clients;
            tracing::warn!(
                most,
                silent,
                "a client connection was closed: too many; raise `ulimit -n`"
            );
        }
    }
}

/// Tell of a failed accept, and pause: unless the client is to blame, the next would fail too.
async fn failed(error: &io::Error) {
    if let Some(silent) = FAILED.pass(Instant::now()) {
        tracing::warn!(%error, silent, "accepting a connection failed");
    }
    if !is_the_clients(error) {
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

fn is_the_clients(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<TlsAcceptor>>,
    gateway: Arc<Gateway>,
    farewell: watch::Receiver<Farewell>,
) {
    // Tuning that fails leaves a working connection.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(
        &TcpKeepalive::new()
            .with_time(PROBE_IDLE)
            .with_interval(PROBE_INTERVAL)
            .with_retries(PROBE_COUNT),
    );
    let (io, close) = ClientSocket::new(stream);
    match tls {
        None => serve_connection(Box::new(io), close, peer.ip(), None, gateway, farewell).await,
        Some(tls) => {
            let within = gateway.connection_limits().head;
            if let Some((io, protocol)) = tls.accept(io, within).await {
                serve_connection(io, close, peer.ip(), Some(protocol), gateway, farewell).await;
            }
        }
    }
}
