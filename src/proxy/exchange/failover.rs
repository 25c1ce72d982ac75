//! Attempts at one endpoint after another until one answers. The client has seen nothing yet, so
//! which engine answers is ours to decide; [`judge`] says when another may be asked.

use super::Stop;
use super::account::Account;
use super::attempt::{Failure, Question, Reply, attempt};
use super::ingress::Request;
use super::run::{Context, total_passed};
use super::work::{Attempt, Work};
use crate::config::OnEngineAbort;
use crate::core::api::Api;
use crate::core::cause::Selection;
use crate::core::endpoint_health::Mark;
use crate::core::ids::EndpointId;
use crate::core::outcome::Outcome;
use crate::core::reason::Reason;
use crate::core::rejection::Rejection;
use crate::core::stream::TrackerOptions;
use crate::proxy::client::Client;
use crate::proxy::engine::Reached;
use crate::proxy::heads::{Towards, engine_head};
use bytes::Bytes;
use pingora_http::{RequestHeader, ResponseHeader};
use tokio::time::{Instant, sleep_until};

/// Stale pooled connections that one request may meet without it counting as an attempt.
const MAX_STALE: u32 = 4;
/// What vLLM answers to every generation request while it shuts down; such a request never
/// reached the engine.
const DRAIN_ANSWER: &[u8] = b"cannot schedule new futures after shutdown";

/// What the client is to get.
pub(super) enum Found {
    Reply(Reply),
    /// An engine's own error, which no other engine would mend.
    ErrorAnswer {
        head: Box<ResponseHeader>,
        body: Bytes,
    },
}

/// Find an engine that answers while the client waits. The running attempt is left in `work`.
pub(super) async fn find(
    context: &Context<'_>,
    client: &mut Client,
    request: &Request,
    work: &mut Work,
    account: &mut Account,
) -> Result<Found, Stop> {
    let head = upstream_head(context, client, request, account)?;
    let Work { permit, attempt, .. } = work;
    let holder = permit.holder();
    let first_byte = Instant::now() + context.live.config.timeouts.first_byte;
    tokio::select! {
        biased;
        found = Search { context, request, head, account, holder }.run(attempt) => found,
        () = client.gone() => Err(Stop::Gone("first byte")),
        cause = holder.cut() => Err(Stop::cut(cause)),
        () = sleep_until(context.total) => Err(Stop::Refuse(Outcome::TimedOut, total_passed())),
        () = sleep_until(first_byte) => Err(Stop::Refuse(
            Outcome::TimedOut,
            Rejection::new(Reason::UpstreamTimeout, "The engine produced nothing in time."),
        )),
    }
}

fn upstream_head(
    context: &Context<'_>,
    client: &Client,
    request: &Request,
    account: &Account,
) -> Result<RequestHeader, Stop> {
    let towards = Towards {
        request_id: &account.request_id,
        body: request.body.len(),
        may_route: request.policy.may_route,
        authorization: context.live.credential(context.pool.id()),
    };
    engine_head(client.head(), &towards).map_err(|_| {
        Stop::refuse(Rejection::new(Reason::BadRequest, "The request head cannot be passed on."))
    })
}

struct Search<'a> {
    context: &'a Context<'a>,
    request: &'a Request,
    head: RequestHeader,
    account: &'a mut Account,
    holder: &'a crate::admission::Holder,
}

impl Search<'_> {
    async fn run(mut self, slot: &mut Option<Attempt>) -> Result<Found, Stop> {
        let attempts = self.context.live.max_attempts(self.context.pool.id());
        let mut tried: Vec<EndpointId> = Vec::new();
        let mut stale = 0;
        let mut last: Option<Failure> = None;
        loop {
            let lease = match self.context.pool.pick(&tried) {
                Ok(lease) => lease,
                Err(none) => return give_up(last, none.reason()),
            };
            self.chosen(&lease, !tried.is_empty());
            let running = slot.insert(Attempt { lease, call: None });
            let failure = match self.attempt(running).await {
                Ok(reply) => return Ok(Found::Reply(reply)),
                Err(failure) => failure,
            };
            let verdict = judge(&failure, self.request.facts.api, &self.head);
            if let Some(mark) = verdict.mark {
                running.lease.mark(mark);
            }
            let endpoint = running.lease.id().clone();
            if let Some(call) = slot.take().and_then(|attempt| attempt.call) {
                call.abandon().await;
            }
            let is_stale = matches!(failure, Failure::Unanswered(Reached::StaleConnection));
            last = Some(failure);
            if is_stale && stale < MAX_STALE {
                stale += 1;
                continue;
            }
            tried.push(endpoint);
            if !verdict.elsewhere || tried.len() as u32 >= attempts {
                return give_up(last, Reason::NoEndpoint);
            }
        }
    }

    fn chosen(&mut self, lease: &crate::upstream::EndpointLease, again: bool) {
        let selection = if again { Selection::Retry } else { Selection::LeastRequest };
        self.context.gateway.telemetry.selected(self.context.pool.id(), selection);
        self.holder.set_endpoint(lease.id().clone());
        self.account.endpoint = Some(lease.id().clone());
        self.account.attempts += 1;
    }

    async fn attempt(&mut self, running: &mut Attempt) -> Result<Reply, Failure> {
        let config = &self.context.live.config;
        let question = Question {
            api: self.request.facts.api,
            head: &self.head,
            body: &self.request.body.parts,
            tracker: TrackerOptions {
                hide_usage: self.request.body.usage_injected,
                hide_abort: config.streams.on_engine_abort == OnEngineAbort::Error,
                ..TrackerOptions::default()
            },
            head_hold: config.timeouts.head_hold,
        };
        let answer = attempt(&self.context.gateway.engines, &question, running).await;
        self.account.upstream_status = match &answer {
            Ok(reply) => Some(reply.head.status.as_u16()),
            Err(Failure::Status { head, .. }) => Some(head.status.as_u16()),
            Err(Failure::LostEarly | Failure::EarlyError(_) | Failure::GivenUp) => Some(200),
            Err(_) => self.account.upstream_status,
        };
        answer
    }
}

/// What a failure says.
struct Verdict {
    /// Against the endpoint.
    mark: Option<Mark>,
    /// Another endpoint may be asked.
    elsewhere: bool,
}

/// A request may be sent again while the engine cannot have begun it, or is known to have lost it
/// before its first token. A plain request may have effects, so it moves only in the first case.
fn judge(failure: &Failure, api: Api, head: &RequestHeader) -> Verdict {
    let repeatable = api != Api::Plain || head.method.is_idempotent();
    let verdict = |mark, elsewhere| Verdict { mark, elsewhere };
    match failure {
        Failure::NotConnected { .. } => verdict(Some(Mark::Unreachable), true),
        Failure::Unanswered(Reached::StaleConnection) => verdict(None, true),
        Failure::Unanswered(_) | Failure::LostEarly => verdict(Some(Mark::Lost), repeatable),
        Failure::Status { body, .. } if is_drain_answer(body) => {
            verdict(Some(Mark::DrainAnswer), true)
        }
        Failure::Status { head, .. } => verdict(None, head.status.as_u16() == 503),
        Failure::EarlyError(error) => {
            let engines_fault = error.status.is_none_or(|status| status >= 500);
            verdict(engines_fault.then_some(Mark::Lost), engines_fault)
        }
        Failure::GivenUp => verdict(None, false),
    }
}

fn is_drain_answer(body: &[u8]) -> bool {
    memchr::memmem::find(body, DRAIN_ANSWER).is_some()
}

/// What the client is told when no engine is left to ask; `none`: why there is no first one.
fn give_up(last: Option<Failure>, none: Reason) -> Result<Found, Stop> {
    let upstream = |message| {
        Err(Stop::Refuse(
            Outcome::UpstreamError,
            Rejection::new(Reason::UpstreamUnreachable, message),
        ))
    };
    match last {
        None => Err(Stop::refuse(Rejection::new(none, "No engine of this model can be used now."))),
        Some(Failure::Status { body, .. }) if is_drain_answer(&body) => Err(Stop::refuse(
            Rejection::new(Reason::NoEndpoint, "The engines of this model are being restarted."),
        )),
        Some(Failure::Status { head, body }) => Ok(Found::ErrorAnswer { head, body }),
        Some(Failure::NotConnected { refused: true }) => {
            upstream("The engine refused the connection.")
        }
        Some(Failure::NotConnected { refused: false }) => {
            upstream("The engine could not be reached.")
        }
        Some(Failure::Unanswered(_)) => upstream("The engine closed the connection unanswered."),
        Some(Failure::LostEarly) => upstream("The engine was lost before its first token."),
        Some(Failure::GivenUp) => upstream("The engine gave the request up."),
        Some(Failure::EarlyError(error)) => Err(early_error(error.status)),
    }
}

/// The honest status of a stream whose first word was an error.
fn early_error(status: Option<u16>) -> Stop {
    let rejection = match status {
        Some(status @ 400..500) => Rejection::new(
            Reason::BadRequest,
            "The engine refused the request before its first token.",
        )
        .with_status(status),
        _ => Rejection::new(
            Reason::UpstreamUnreachable,
            "The engine reported an error before its first token.",
        ),
    };
    Stop::Refuse(Outcome::UpstreamError, rejection)
}
