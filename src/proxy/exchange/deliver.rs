//! A held reply goes to the client: its head, then its body to the end.

use super::account::Account;
use super::attempt::{Reply, ReplyBody};
use super::broken::Break;
use super::run::Context;
use super::stream::Deadlines;
use super::work::Work;
use super::{End, plain, stream};
use crate::core::api::Api;
use crate::core::stream::{StreamTracker, plain_answer};
use crate::proxy::client::{Client, Lost};
use crate::proxy::heads::client_head;
use bytes::Bytes;
use pingora_http::ResponseHeader;

/// Send `reply` to the client. The work ends when the engine's part has.
pub(super) async fn deliver(
    context: &Context<'_>,
    client: &mut Client,
    work: Work,
    reply: Reply,
    api: Api,
    account: &mut Account,
) -> End {
    let engines = &context.gateway.engines;
    if let Err(lost) = send_head(client, &reply.head, account).await {
        return Break::Client(lost).end(client, work, engines, None).await;
    }
    match reply.body {
        ReplyBody::Stream { tracker, ready } => {
            deliver_stream(context, client, work, *tracker, ready, api, account).await
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
    let sent = async {
        send_head(client, head, account).await?;
        client.send(body, true).await
    };
    match sent.await {
        Ok(()) => End::upstream_error(),
        Err(Lost::Gone) => End::client_gone("answer"),
        Err(Lost::Stalled) => End::broken(crate::core::outcome::Outcome::TimedOut, "write_stall"),
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
    mut tracker: StreamTracker,
    ready: Vec<Bytes>,
    api: Api,
    account: &mut Account,
) -> End {
    let engines = &context.gateway.engines;
    let timeouts = &context.live.config.timeouts;
    let deadlines = Deadlines {
        first_byte: account.started + account.queue_wait.unwrap_or_default() + timeouts.first_byte,
        idle: timeouts.stream_idle,
        total: context.total,
    };
    let relayed = stream::relay(client, &mut work, &mut tracker, ready, &deadlines).await;
    account.streamed(&tracker);
    match relayed {
        Ok(last) => {
            work.end(engines).await;
            finish(client, last).await
        }
        Err(broken) => {
            if let Some(cause) = broken.cut() {
                context.gateway.telemetry.stream_cut(cause);
            }
            let told = (!tracker.mid_event()).then_some(api);
            broken.end(client, work, engines, told).await
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
            let answer = relayed.body.map(|body| plain_answer(api, &body));
            account.answered(answer.map(|answer| answer.usage));
            work.end(engines).await;
            let end = finish(client, vec![relayed.last]).await;
            match end.error {
                None if failed => End::upstream_error(),
                _ => end,
            }
        }
        Err(broken) => {
            if let Some(cause) = broken.cut() {
                context.gateway.telemetry.stream_cut(cause);
            }
            broken.end(client, work, engines, None).await
        }
    }
}

/// The last pieces and the clean end.
async fn finish(client: &mut Client, mut last: Vec<Bytes>) -> End {
    let sent = async {
        client.send_all(&mut last).await?;
        client.finish().await
    };
    match sent.await {
        Ok(()) => End::complete(),
        Err(Lost::Gone) => End::client_gone("last bytes"),
        Err(Lost::Stalled) => End::broken(crate::core::outcome::Outcome::TimedOut, "write_stall"),
    }
}
