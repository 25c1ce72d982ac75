//! One health probe.

use crate::core::endpoint_health::Probe;
use crate::core::seldom::Seldom;
use crate::core::shortage::is_own_shortage;
use crate::upstream::endpoint::Endpoint;
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

/// Longest silence of the log about probes that could not be made.
static NOT_MADE: Seldom = Seldom::new(Duration::from_secs(5));

/// Probe the endpoint, if its address is known, and tell its health. A probe that could not be
/// made for want of something of our own tells nothing.
pub(super) async fn visit(endpoint: &Endpoint, path: &str, limit: Duration) {
    if let Some(address) = endpoint.address() {
        let began = Instant::now();
        if let Some(seen) = probe(address, endpoint.id.as_str(), path, began + limit).await {
            endpoint.probed(seen, began);
        }
    }
}

/// Ask on a connection of its own, because a new connection is what shows that the process is
/// still there. `None`: the probe could not be made.
async fn probe(address: SocketAddr, host: &str, path: &str, until: Instant) -> Option<Probe> {
    let stream = match timeout_at(until, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return not_connected(&error, address),
        Err(_) => return Some(Probe::Unreachable),
    };
    Some(match timeout_at(until, get(stream, host, path)).await {
        Ok(Ok(status)) if status.is_success() => Probe::Healthy,
        _ => Probe::Unhealthy,
    })
}

/// What a failed connect says about the endpoint.
fn not_connected(error: &io::Error, address: SocketAddr) -> Option<Probe> {
    if !is_own_shortage(error) {
        return Some(Probe::Unreachable);
    }
    if let Some(silent) = NOT_MADE.pass(Instant::now().into_std()) {
        tracing::warn!(%error, %address, silent, "no probe for want of a descriptor, port or memory");
    }
    None
}

#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error(transparent)]
    Request(#[from] http::Error),
    #[error(transparent)]
    Connection(#[from] hyper::Error),
}

async fn get(stream: TcpStream, host: &str, path: &str) -> Result<StatusCode, NoAnswer> {
    let request = Request::get(path)
        .header(header::HOST, host)
        .header(header::USER_AGENT, "streamgate-probe")
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    Ok(sender.send_request(request).await?.status())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_shortage_of_ours_is_no_evidence() {
        let at = SocketAddr::from(([127, 0, 0, 1], 1));
        assert_eq!(not_connected(&Errno::MFILE.into(), at), None);
        assert_eq!(not_connected(&Errno::CONNREFUSED.into(), at), Some(Probe::Unreachable));
    }
}
