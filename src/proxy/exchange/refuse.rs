//! Answers of our own, written in one place.

use super::account::Account;
use super::{After, End};
use crate::core::answer::{Answer, answer};
use crate::core::api::Dialect;
use crate::core::ids::TenantId;
use crate::core::outcome::Outcome;
use crate::core::reason::Reason;
use crate::core::rejection::Rejection;
use crate::proxy::client::{Client, Lost};
use crate::proxy::gateway::Gateway;
use crate::proxy::heads::{answer_head, has_body};
use pingora_core::protocols::http::ServerSession;
use rand::Rng;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;

/// How long the rest of an unread body is read after an early answer. Closing with unread bytes
/// resets the connection, and the answer may be lost with it.
const LINGER: Duration = Duration::from_secs(1);

/// Answer `rejection` and say how the request ended.
pub(super) async fn refuse(
    client: &mut Client,
    account: &mut Account,
    outcome: Outcome,
    rejection: &Rejection,
) -> End {
    let answer =
        answer(rejection, account.dialect, account.request_id.as_str(), rand::rng().random());
    let unread = !client.body_is_done();
    let end = End { outcome, reason: Some(rejection.reason), error: None, after: After::Keep };
    match send(client, account, answer).await {
        Ok(()) if unread && !client.drain_body(LINGER).await => End { after: After::Close, ..end },
        Ok(()) => end,
        // The refusal stands; that nobody heard it does not make it a cancellation.
        Err(_) => End { after: After::Close, ..end },
    }
}

async fn send(client: &mut Client, account: &mut Account, answer: Answer) -> Result<(), Lost> {
    let with_body = has_body(client.head(), answer.status);
    let head = answer_head(&answer).map_err(|_| Lost::Gone)?;
    account.status = Some(answer.status);
    client.send_head(head).await?;
    let body = if with_body { vec![answer.body] } else { Vec::new() };
    client.finish(body).await
}

/// What was wrong with a head that never became a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadFault {
    Malformed,
    /// More bytes or headers than are read at all.
    TooLarge,
    /// It did not come in time.
    Slow,
}

/// A head with more than `limits.header` bytes, or with more than can be read.
pub(super) fn head_too_large() -> Rejection {
    let message = "The request head is too large. Send fewer or shorter headers.";
    Rejection::new(Reason::BadRequest, message).with_status(431)
}

/// Answer and count such a head. Its sender is unknown, and so is the shape of its API.
pub(super) async fn bad_head(
    gateway: &Gateway,
    session: &mut ServerSession,
    client: IpAddr,
    fault: HeadFault,
) {
    let rejection = match fault {
        HeadFault::Malformed => {
            Rejection::new(Reason::BadRequest, "The request head is malformed.")
        }
        HeadFault::TooLarge => head_too_large(),
        HeadFault::Slow => {
            Rejection::new(Reason::BadRequest, "The request head did not arrive in time.")
                .with_status(408)
        }
    };
    let id = super::account::new_request_id();
    let arrival = gateway.telemetry.arrive(&TenantId::unknown(), id.clone());
    let answer = answer(&rejection, Dialect::OpenAi, id.as_str(), rand::rng().random());
    if let Ok(head) = answer_head(&answer) {
        session.set_keepalive(None);
        let write = async {
            session.write_response_header(Box::new(head)).await?;
            session.write_response_body(answer.body.clone(), true).await?;
            session.shutdown().await;
            pingora_core::Result::<()>::Ok(())
        };
        // A client that sends rubbish may also not read: it gets little time and no retry.
        let _ = timeout(LINGER, write).await;
    }
    let mut event = arrival.event(Outcome::Rejected);
    event.reason = Some(rejection.reason);
    event.status = Some(answer.status);
    event.bytes_sent = answer.body.len() as u64;
    event.client = Some(client);
    arrival.finish(event);
}
