//! An answer that is not an understood event stream, on its way: forwarded as it comes, accounted
//! as a whole.

use super::broken::Break;
use super::work::Work;
use super::write::write;
use crate::proxy::client::{Client, Lost};
use bytes::Bytes;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The start of a body that is kept to read its usage at the end.
const KEPT_BYTES: usize = 1024 * 1024;

/// What was forwarded.
pub(super) struct Relayed {
    /// The last piece, which the client is to get once the slot is free.
    pub last: Vec<Bytes>,
    /// The whole body for its usage; `None` if it was too large to keep.
    pub body: Option<Vec<u8>>,
}

/// Forward until the body ends.
pub(super) async fn relay(
    client: &mut Client,
    work: &mut Work,
    read: Bytes,
    idle: Duration,
    total: Instant,
) -> Result<Relayed, Break> {
    let holder = work.permit.holder();
    let Some(call) = work.attempt.as_mut().and_then(|attempt| attempt.call.as_mut()) else {
        return Err(Break::Truncated);
    };
    let mut cut = pin!(holder.cut());
    let mut body = Some(read.to_vec());
    let mut last = vec![read];
    while !call.is_done() {
        write(client, &mut last, cut.as_mut(), total).await?;
        let silence = (Instant::now() + idle).min(total);
        let read = tokio::select! {
            biased;
            cause = &mut cut => return Err(Break::Cut(cause)),
            read = call.read() => read,
            () = client.gone() => return Err(Break::Client(Lost::Gone)),
            () = sleep_until(silence) => {
                return Err(if silence == total { Break::Total } else { Break::Idle });
            }
        };
        match read {
            Ok(Some(chunk)) => {
                keep(&mut body, &chunk);
                last.push(chunk);
            }
            Ok(None) => break,
            Err(error) => {
                tracing::debug!(error = error.etype().as_str(), "the engine's answer broke");
                return Err(Break::Truncated);
            }
        }
    }
    Ok(Relayed { last, body })
}

fn keep(body: &mut Option<Vec<u8>>, chunk: &[u8]) {
    match body {
        Some(kept) if kept.len() + chunk.len() <= KEPT_BYTES => kept.extend_from_slice(chunk),
        _ => *body = None,
    }
}
