//! HTTP/1 or cleartext HTTP/2 with prior knowledge, told by the first bytes (RFC 9113 §3.4).

use pingora_core::protocols::Stream;
use std::time::Duration;
use tokio::time::timeout;

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The HTTP version family of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

/// Look at the first bytes without consuming them. `None`: the client closed or sent nothing that
/// decides within `within`.
pub(super) async fn protocol(stream: &mut Stream, within: Duration) -> Option<Protocol> {
    timeout(within, look(stream)).await.ok()?.ok()
}

async fn look(stream: &mut Stream) -> std::io::Result<Protocol> {
    // Three bytes are enough to leave HTTP/1 alone: no method but the preface's begins with PRI,
    // and every HTTP/1 request is longer than that.
    let mut start = [0; 3];
    stream.try_peek(&mut start).await?;
    if start != PREFACE[..3] {
        return Ok(Protocol::Http1);
    }
    let mut whole = [0; 24];
    stream.try_peek(&mut whole).await?;
    Ok(if whole == *PREFACE { Protocol::Http2 } else { Protocol::Http1 })
}
