//! One health probe.

use crate::core::endpoint_health::Probe;
use crate::upstream::endpoint::Endpoint;
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

/// Probe the endpoint, if its address is known, and tell its health.
pub(super) async fn visit(endpoint: &Endpoint, path: &str, limit: Duration) {
    if let Some(address) = endpoint.address() {
        let began = Instant::now();
        let seen = probe(address, endpoint.id.as_str(), path, began + limit).await;
        endpoint.probed(seen, began);
    }
}

/// Ask on a connection of its own, because a new connection is what shows that the process is
/// still there.
async fn probe(address: SocketAddr, host: &str, path: &str, until: Instant) -> Probe {
    let Ok(Ok(stream)) = timeout_at(until, TcpStream::connect(address)).await else {
        return Probe::Unreachable;
    };
    match timeout_at(until, get(stream, host, path)).await {
        Ok(Ok(status)) if status.is_success() => Probe::Healthy,
        _ => Probe::Unhealthy,
    }
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
