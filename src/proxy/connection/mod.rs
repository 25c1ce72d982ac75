//! One accepted connection: which protocol it speaks, and its requests one after another (HTTP/1)
//! or side by side (HTTP/2).
//!
//! Every wait for a client here has a deadline: pingora's own protocol detection has none, so a
//! connection that sends nothing, or one byte, would be held for ever.

mod ahead;
mod detect;
mod h1;
mod h2;
mod held;
mod pong;
mod socket;

use super::gateway::Gateway;
use crate::core::drain::Farewell;
use pingora_core::protocols::Stream;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

pub use ahead::Watch;
pub use detect::Protocol;
pub use socket::{ClientSocket, Close};

/// What a client may take its time over, and how much it may send.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// From the connection's start, or from a request's first byte, to the end of its head.
    /// HTTP/2 has it for the connection's first request.
    pub head: Duration,
    /// Between two requests of a kept-alive connection, or without a stream on HTTP/2.
    pub idle: Duration,
    /// Bytes of a request head (HTTP/2: of its decoded header list).
    pub head_bytes: usize,
}

/// Serve `stream` until it ends. When this replica is about to go, answers carry
/// `Connection: close` and HTTP/2 connections get a graceful GOAWAY.
///
/// `close` is that of the [`ClientSocket`] beneath. `negotiated` is the protocol that TLS agreed on;
/// without it the first bytes tell.
pub async fn serve(
    mut stream: Stream,
    close: Close,
    peer: IpAddr,
    negotiated: Option<Protocol>,
    gateway: Arc<Gateway>,
    farewell: watch::Receiver<Farewell>,
) {
    let limits = gateway.connection_limits();
    let head_due = Instant::now() + limits.head;
    let protocol = match negotiated {
        Some(protocol) => protocol,
        None => match detect::protocol(&mut stream, limits.head).await {
            Some(protocol) => protocol,
            None => return,
        },
    };
    match protocol {
        Protocol::Http1 => h1::serve(stream, close, peer, gateway, farewell).await,
        Protocol::Http2 => h2::serve(stream, peer, gateway, farewell, head_due).await,
    }
}
