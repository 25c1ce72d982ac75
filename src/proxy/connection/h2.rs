//! Streams of one HTTP/2 connection, side by side, each in its own task.
//!
//! The connection's task drives all of its streams, so it lives until the client closes, breaks
//! the protocol, idles, or this replica leaves and the last stream has ended.

use crate::proxy::client::Client;
use crate::proxy::gateway::Gateway;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::{
    H2Accept, HttpSession, default_h2_options, handshake,
};
use pingora_core::protocols::{Digest, Stream};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

/// Streams that one connection may have open at once.
const MAX_STREAMS: u32 = 256;
/// Request-body bytes that may be on their way for a stream and for the whole connection: a
/// prompt of this size arrives without waiting for window updates.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Malformed streams after which the connection is closed, so that rejecting costs are bounded.
const MAX_MALFORMED: u32 = 32;

pub(super) async fn serve(
    stream: Stream,
    peer: IpAddr,
    gateway: Arc<Gateway>,
    mut leaving: watch::Receiver<bool>,
) {
    let limits = gateway.connection_limits();
    let digest = Arc::new(Digest {
        ssl_digest: stream.get_ssl_digest(),
        timing_digest: stream.get_timing_digest(),
        proxy_digest: stream.get_proxy_digest(),
        socket_digest: stream.get_socket_digest(),
    });
    let mut options = default_h2_options();
    options
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(MAX_STREAMS)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let Ok(Ok(mut connection)) = timeout(limits.head, handshake(stream, Some(options))).await
    else {
        return;
    };
    let open = OpenStreams::default();
    let mut malformed = 0;
    let mut told = false;
    loop {
        let accepted = tokio::select! {
            biased;
            _ = leaving.wait_for(|leaving| *leaving), if !told => {
                // Streams under way complete; the client opens no new ones (RFC 9113 §6.8).
                connection.graceful_shutdown();
                told = true;
                continue;
            }
            accepted = HttpSession::from_h2_conn(&mut connection, digest.clone()) => accepted,
            () = open.idle_for(limits.idle) => return,
        };
        match accepted {
            Ok(Some(H2Accept::Session(session))) => {
                spawn_stream(session, peer, &gateway, &leaving, open.enter());
            }
            Ok(Some(H2Accept::Rejected)) => {
                malformed += 1;
                if malformed >= MAX_MALFORMED {
                    return;
                }
            }
            Ok(None) | Err(_) => return,
        }
    }
}

fn spawn_stream(
    session: HttpSession,
    peer: IpAddr,
    gateway: &Arc<Gateway>,
    leaving: &watch::Receiver<bool>,
    open: OpenStream,
) {
    let gateway = gateway.clone();
    let mut client = Client::new(ServerSession::new_http2(session), None, peer, leaving.clone());
    tokio::spawn(async move {
        let _open = open;
        // What comes after does not matter: an HTTP/2 stream serves one request.
        Box::pin(gateway.exchange(&mut client)).await;
    });
}

/// Counts the open streams of a connection, so that only a connection without any can idle.
#[derive(Clone)]
struct OpenStreams(Arc<watch::Sender<usize>>);

impl Default for OpenStreams {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

/// One open stream; closed by drop.
struct OpenStream(OpenStreams);

impl OpenStreams {
    fn enter(&self) -> OpenStream {
        self.0.send_modify(|open| *open += 1);
        OpenStream(self.clone())
    }

    /// Resolves when no stream has been open for `idle`. Cancel-safe; starts anew on each call.
    async fn idle_for(&self, idle: Duration) {
        let mut open = self.0.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = open.wait_for(|open| *open == 0).await;
        sleep_until(Instant::now() + idle).await;
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.0.send_modify(|open| *open -= 1);
    }
}
