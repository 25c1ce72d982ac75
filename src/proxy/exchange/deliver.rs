//! A held reply goes to the client: its head, then its body to the end.

use super::account::Account;
use super::attempt::{Reply, ReplyBody};
use super::broken::{Break, Place};
use super::run::Context;
use super::stream::Deadlines;
use super::work::Work;
use super::{End, plain, stream};
use crate::core::api::Api;
use crate::core::outcome::Outcome;
use crate::core::stream::{StreamTracker, Verdict, plain_answer};
use crate::proxy::client::{Client, Lost};
use crate::proxy::heads::client_head;
use bytes::Bytes;
use http::header;
use pingora_http::ResponseHeader;
use tokio::time::Instant;

/// Send `reply` to the client. The work ends when the engine's part has. `first_byte`: when a
/// stream that has not begun must have.
pub(super) async fn deliver(
    context: &Context<'_>,
    client: &mut Client,
    work: Work,
    mut reply: Reply,
    first_byte: Instant,
    api: Api,
    account: &mut Account,
) -> End {
    let engines = &context.gateway.engines;
    if matches!(reply.body, ReplyBody::Stream { .. }) {
        // Events may be taken out, and an error event added.
        reply.head.remove_header(&header::CONTENT_LENGTH);
    }
    if let Err(lost) = send_head(client, &reply.head, account).await {
        return Break::Client(lost).end(client, work, engines, None).await;
    }
    match reply.body {
        ReplyBody::Stream { tracker, ready } => {
            let timeouts = &context.live.config.timeouts;
            let deadlines =
                Deadlines { first_byte, idle: timeouts.stream_idle, total: context.total };
            let reply = (*tracker, ready);
            deliver_stream(context, client, work, reply, &deadlines, api, account).await
        }
        ReplyBody::Whole { body, answer } => {
            account.answered(answer.usage);
            work.end(engines).await;
            finish(client, vec![body], End::of(answer.verdict())).await
        }
        ReplyBody::Plain { read } => {
            let failed = reply.head.status.as_u16() >= 400;
            deliver_plain(context, client, work, read, failed, api, account).await
        }
    }
}

/// An engine's error answer that was read whole.
pub(super) async fn error_answer(
    client: &mut Client,
    head: &ResponseHeader,
    body: Bytes,
    account: &mut Account,
) -> End {
    match send_head(client, head, account).await {
        Ok(()) => finish(client, vec![body], End::upstream_error()).await,
        Err(lost) => End::lost(lost, "answer"),
    }
}

async fn send_head(
    client: &mut Client,
    head: &ResponseHeader,
    account: &mut Account,
) -> Result<(), Lost> {
    let head = client_head(head, client.head(), &account.request_id).map_err(|_| Lost::Gone)?;
    account.status = Some(head.status.as_u16());
    client.send_head(head).await
}

async fn deliver_stream(
    context: &Context<'_>,
    client: &mut Client,
    mut work: Work,
    (mut tracker, ready): (StreamTracker, Vec<Bytes>),
    deadlines: &Deadlines,
    api: Api,
    account: &mut Account,
) -> End {
    let engines = &context.gateway.engines;
    let relayed = stream::relay(client, &mut work, &mut tracker, ready, deadlines).await;
    account.streamed(&tracker);
    match relayed {
        Ok(last) => {
            work.end(engines).await;
            finish(client, last, End::of(tracker.verdict())).await
        }
        Err(broken) => {
            if let Some(cause) = broken.cut() {
                context.gateway.telemetry.stream_cut(cause);
            }
            let sequence = tracker.next_sequence_number();
            let place = (!tracker.mid_event()).then_some(Place { api, sequence });
            broken.end(client, work, engines, place).await
        }
    }
}

async fn deliver_plain(
    context: &Context<'_>,
    client: &mut Client,
    mut work: Work,
    read: Bytes,
    failed: bool,
    api: Api,
    account: &mut Account,
) -> End {
    let engines = &context.gateway.engines;
    let idle = context.live.config.timeouts.stream_idle;
    match plain::relay(client, &mut work, read, idle, context.total).await {
        Ok(relayed) => {
            let answer = relayed.body.map(|body| plain_answer(api, &body)).unwrap_or_default();
            let end = if failed { End::upstream_error() } else { End::of(answer.verdict()) };
            account.answered(answer.usage);
            work.end(engines).await;
            finish(client, relayed.last, end).await
        }
        Err(broken) => {
            if let Some(cause) = broken.cut() {
                context.gateway.telemetry.stream_cut(cause);
            }
            broken.end(client, work, engines, None).await
        }
    }
}

/// The last pieces and the clean end, which make the request end as `end`.
async fn finish(client: &mut Client, last: Vec<Bytes>, end: End) -> End {
    match client.finish(last).await {
        Ok(()) => end,
        Err(lost) => End::lost(lost, "last bytes"),
    }
}

impl End {
    /// The engine's answer goes to the client as it is, to its end.
    fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Complete => Self::complete(),
            Verdict::Truncated => Self::passed(Outcome::Truncated, "upstream_abort"),
            Verdict::UpstreamError => Self::passed(Outcome::UpstreamError, "upstream_error"),
        }
    }

    /// The client was lost while it was given what it asked for.
    fn lost(lost: Lost, at: &'static str) -> Self {
        match lost {
            Lost::Gone => Self::client_gone(at),
            Lost::Stalled => Self::broken(Outcome::TimedOut, "write_stall"),
        }
    }
}
