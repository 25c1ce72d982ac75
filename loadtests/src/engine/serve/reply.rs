//! Sends whole answers, with the faults that apply to them.

use super::connection::After;
use crate::engine::faults::{Cut, Faults, Trigger};
use crate::engine::phase::sleep;
use crate::engine::shared::Shared;
use crate::http1::{Answer, CloseBy, Head, Io, PeerGone};

/// Sends an answer as it is; the connection is to be closed after it.
pub(super) async fn raw(io: &mut Io, answer: &Answer) -> CloseBy {
    let mut bytes = answer.head();
    bytes.extend_from_slice(&answer.body);
    // Whoever does not read it has gone; the connection closes either way.
    let _ = io.write(&bytes).await;
    CloseBy::Fin
}

/// Sends an answer to `head` with faults.
pub(super) async fn send(
    io: &mut Io,
    shared: &Shared,
    head: &Head,
    faults: &Faults,
    mut answer: Answer,
) -> Result<After, PeerGone> {
    answer.fields.close |= head.wants_close();
    if let Some(delay) = faults.delay_head {
        wait(io, sleep(shared, delay)).await?;
    }
    if faults.cut == Some(Cut::BeforeHead) {
        return Ok(After::Close(faults.cut_by));
    }
    let bytes = answer.head();
    let body: &[u8] = if answer.omit_body { &[] } else { &answer.body };
    let cut = match (faults.trigger(0), faults.cut) {
        (Some(Trigger::Stall), _) => return Err(stall(io).await),
        (Some(Trigger::Cut), _) => Some(0),
        (_, Some(Cut::Bytes(n))) => Some(usize::try_from(n).unwrap_or(usize::MAX).min(body.len())),
        _ => None,
    };
    let body = &body[..cut.unwrap_or(body.len())];
    if let Some(delay) = faults.delay_first {
        write(io, faults, &bytes).await?;
        wait(io, sleep(shared, delay)).await?;
        write(io, faults, body).await?;
    } else {
        write(io, faults, &[&bytes, body].concat()).await?;
    }
    if cut.is_some() {
        return Ok(After::Close(faults.cut_by));
    }
    let close = answer.fields.close || answer.close_after;
    Ok(if close { After::Close(CloseBy::Fin) } else { After::Next })
}

/// Writes in one piece, or byte by byte.
pub(super) async fn write(io: &mut Io, faults: &Faults, bytes: &[u8]) -> Result<(), PeerGone> {
    if !faults.one_byte {
        return io.write(bytes).await;
    }
    for byte in bytes {
        io.write(std::slice::from_ref(byte)).await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Waits while watching for the client's close.
pub(super) async fn wait(io: &mut Io, time: impl Future<Output = ()>) -> Result<(), PeerGone> {
    tokio::select! {
        biased;
        () = io.closed() => Err(PeerGone),
        () = time => Ok(()),
    }
}

/// Waits until the client goes.
pub(super) async fn stall(io: &mut Io) -> PeerGone {
    io.closed().await;
    PeerGone
}
