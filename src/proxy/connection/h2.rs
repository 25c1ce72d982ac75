//! Streams of one HTTP/2 connection, side by side, each in its own task.
//!
//! The connection's task drives all of its streams, so it lives until the client closes, breaks
//! the protocol, sends no first request in time, idles, or this replica leaves and the last stream has ended.

use super::ConnectionLimits;
use super::pong::LatePong;
use crate::core::drain::Farewell;
use crate::proxy::client::Client;
use crate::proxy::gateway::Gateway;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::{
    H2Accept, H2Options, HttpSession, default_h2_options, handshake,
};
use pingora_core::protocols::{Digest, Stream};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Streams that one connection may have open at once.
const MAX_STREAMS: u32 = 256;
/// Request-body bytes that may be on their way for a stream and for the whole connection: a
/// prompt of this size arrives without waiting for window updates.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Malformed streams after which the connection is closed, so that rejecting costs are bounded.
const MAX_MALFORMED: u32 = 32;
/// Time for a client without a stream to take leave once it got its GOAWAY.
const PARTING: Duration = Duration::from_secs(1);

/// Serve `stream`, whose first request head must be whole at `head_due`.
pub(super) async fn serve(
    stream: Stream,
    peer: IpAddr,
    gateway: Arc<Gateway>,
    mut farewell: watch::Receiver<Farewell>,
    head_due: Instant,
) {
    let limits = gateway.connection_limits();
    let digest = Arc::new(Digest {
        ssl_digest: stream.get_ssl_digest(),
        timing_digest: stream.get_timing_digest(),
        proxy_digest: stream.get_proxy_digest(),
        socket_digest: stream.get_socket_digest(),
    });
    let stream = Box::new(LatePong::new(stream));
    let greeting = handshake(stream, Some(options(&limits)));
    let Ok(Ok(mut connection)) = timeout_at(head_due, greeting).await else { return };
    let open = OpenStreams::new(head_due, limits.idle);
    let mut malformed = 0;
    let (mut told, mut parting) = (false, false);
    loop {
        let accepted = tokio::select! {
            biased;
            _ = farewell.wait_for(|farewell| *farewell != Farewell::Stays), if !told => {
                // Streams under way complete; the client opens no new ones (RFC 9113 §6.8).
                connection.graceful_shutdown();
                told = true;
                continue;
            }
            accepted = HttpSession::from_h2_conn(&mut connection, digest.clone()) => accepted,
            () = open.overdue() => {
                if parting {
                    return;
                }
                // A request that is on its way just now is still served.
                connection.graceful_shutdown();
                (told, parting) = (true, true);
                open.put_off(PARTING);
                continue;
            }
        };
        match accepted {
            Ok(Some(H2Accept::Session(session))) => {
                spawn_stream(session, peer, &gateway, &farewell, open.enter());
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

fn options(limits: &ConnectionLimits) -> H2Options {
    let mut options = default_h2_options();
    options
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(MAX_STREAMS)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    options
}

fn spawn_stream(
    session: HttpSession,
    peer: IpAddr,
    gateway: &Arc<Gateway>,
    farewell: &watch::Receiver<Farewell>,
    open: OpenStream,
) {
    let gateway = gateway.clone();
    let mut client = Client::new(ServerSession::new_http2(session), None, peer, farewell.clone());
    tokio::spawn(async move {
        let _open = open;
        // What comes after does not matter: an HTTP/2 stream serves one request.
        Box::pin(gateway.exchange(&mut client)).await;
    });
}

/// Counts the open streams of a connection and knows until when it may be without any: the first
/// until the head's deadline, a later one for the idle time after the last. Nothing but a request
/// moves that moment: neither half a head, nor a malformed one, nor a ping.
#[derive(Clone)]
struct OpenStreams {
    state: Arc<watch::Sender<Streams>>,
    idle: Duration,
}

struct Streams {
    open: usize,
    /// Of use only while none is open.
    due: Instant,
}

/// One open stream; closed by drop.
struct OpenStream(OpenStreams);

impl OpenStreams {
    fn new(first_due: Instant, idle: Duration) -> Self {
        Self { state: Arc::new(watch::Sender::new(Streams { open: 0, due: first_due })), idle }
    }

    fn enter(&self) -> OpenStream {
        self.state.send_modify(|streams| streams.open += 1);
        OpenStream(self.clone())
    }

    /// Allow `more` from now on.
    fn put_off(&self, more: Duration) {
        self.state.send_modify(|streams| streams.due = Instant::now() + more);
    }

    /// Resolves when the connection has been without a stream for too long. Cancel-safe: a call
    /// made anew ends at the same moment. No stream may enter while it is waited for.
    async fn overdue(&self) {
        let mut streams = self.state.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let due = match streams.wait_for(|streams| streams.open == 0).await {
            Ok(streams) => streams.due,
            Err(_) => return,
        };
        sleep_until(due).await;
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let due = Instant::now() + self.0.idle;
        self.0.state.send_modify(|streams| {
            streams.open -= 1;
            streams.due = due;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use tokio::time::advance;

    const HEAD: Duration = Duration::from_secs(15);
    const IDLE: Duration = Duration::from_secs(75);

    /// It is overdue after `wait` and not a millisecond earlier, whatever begins the wait anew.
    async fn overdue_after(streams: &OpenStreams, wait: Duration) {
        let began = Instant::now();
        for _ in 0..10 {
            advance(wait / 20).await;
            assert!(streams.overdue().now_or_never().is_none());
        }
        streams.overdue().await;
        let took = began.elapsed();
        assert!(took >= wait && took <= wait + Duration::from_millis(2), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_request_has_the_heads_deadline_and_later_ones_the_idle_time() {
        let streams = OpenStreams::new(Instant::now() + HEAD, IDLE);
        overdue_after(&streams, HEAD).await;
        let (long, short) = (streams.enter(), streams.enter());
        drop(short);
        advance(IDLE * 100).await;
        assert!(streams.overdue().now_or_never().is_none(), "one is open");
        drop(long);
        overdue_after(&streams, IDLE).await;
        streams.put_off(PARTING);
        overdue_after(&streams, PARTING).await;
    }
}
