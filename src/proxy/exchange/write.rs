//! Writing to a client that may not read, while the request may be ended meanwhile.

use super::broken::Break;
use crate::core::cause::CutCause;
use crate::proxy::client::{Client, Lost};
use bytes::Bytes;
use std::pin::Pin;
use tokio::time::{Instant, sleep_until};

/// Send `pieces`; a cut or the total deadline does not wait for the client, and a client that
/// leaves without reading is seen. `cut` is polled only while the client takes its time, and may be
/// used again after `Ok`.
pub(super) async fn write(
    client: &mut Client,
    pieces: &mut Vec<Bytes>,
    cut: Pin<&mut impl Future<Output = CutCause>>,
    total: Instant,
) -> Result<(), Break> {
    let gone = client.gone_meanwhile();
    tokio::select! {
        biased;
        sent = client.send_all(pieces) => sent.map_err(Break::Client),
        cause = cut => Err(Break::Cut(cause)),
        () = gone => Err(Break::Client(Lost::Gone)),
        () = sleep_until(total) => Err(Break::Total),
    }
}
