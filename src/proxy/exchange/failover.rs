//! Attempts at one endpoint after another until one answers. The client has seen nothing yet, so
//! which engine answers is ours to decide; `core::retry` says when another may be asked.

use super::Stop;
use super::account::Account;
use super::attempt::{Lost, Question, Reply, attempt};
use super::ingress::Request;
use super::run::{Context, total_passed};
use super::work::{Attempt, Work};
use crate::admission::Permit;
use crate::config::{OnEngineAbort, PoolKind};
use crate::core::cause::{CutCause, Selection};
use crate::core::outcome::Outcome;
use crate::core::reason::Reason;
use crate::core::rejection::Rejection;
use crate::core::retry::{End, Kind};
use crate::core::stream::TrackerOptions;
use crate::proxy::client::Client;
use crate::proxy::heads::{Towards, engine_head};
use crate::upstream::{Attempts, EndpointLease, Next};
use bytes::Bytes;
use pingora_http::{RequestHeader, ResponseHeader};
use std::pin::pin;
use tokio::time::{Instant, sleep, sleep_until};

/// What the client is to get.
pub(super) enum Found {
    Reply(Box<Reply>),
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
    first_byte: Instant,
    account: &mut Account,
) -> Result<Found, Stop> {
    let head = upstream_head(context, client, request, account)?;
    let Work { permit, attempt, .. } = work;
    let holder = permit.holder();
    // Pinned where it is made: `select!` would move it several times, and it is large.
    let mut search =
        pin!(Search { context, request, head, first_byte, account, permit }.run(attempt));
    tokio::select! {
        biased;
        found = &mut search => found,
        () = client.gone() => Err(Stop::Gone("first byte")),
        cause = holder.cut() => Err(Stop::cut(cause)),
        () = sleep_until(context.total.min(first_byte)) => {
            let late = if context.total <= first_byte { total_passed() } else { too_late() };
            Err(Stop::Refuse(Outcome::TimedOut, late))
        }
    }
}

fn too_late() -> Rejection {
    Rejection::new(Reason::UpstreamTimeout, "The engine produced nothing in time.")
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

/// How an attempt ended.
enum Ended {
    Reply(Box<Reply>),
    /// Its endpoint leaves; the request goes on at this one.
    Moved(EndpointLease),
    Lost(Lost),
}

struct Search<'a> {
    context: &'a Context<'a>,
    request: &'a Request,
    head: RequestHeader,
    first_byte: Instant,
    account: &'a mut Account,
    permit: &'a Permit,
}

impl Search<'_> {
    async fn run(mut self, slot: &mut Option<Attempt>) -> Result<Found, Stop> {
        let mut attempts = self.context.pool.attempts(kind(self.request, &self.head));
        let (mut last, mut moved) = (None, None);
        loop {
            let lease = match moved.take().map_or_else(|| attempts.pick(), Ok) {
                Ok(lease) => lease,
                Err(end) => return give_up(end, last),
            };
            self.chosen(&lease, attempts.number() > 1);
            let running = slot.insert(Attempt { lease, call: None });
            let asked = Instant::now();
            let lost = match self.attempt_here(running, &mut attempts).await {
                Ended::Reply(reply) => return Ok(Found::Reply(reply)),
                Ended::Moved(lease) => {
                    self.context.gateway.engines.end(&mut running.call).await;
                    *slot = None;
                    moved = Some(lease);
                    continue;
                }
                Ended::Lost(lost) => lost,
            };
            if matches!(lost, Lost::NoSlot) {
                return Err(slot_lost());
            }
            let next = attempts.failed(&running.lease, lost.as_failure(asked.elapsed()), false);
            tracing::debug!(endpoint = %running.lease.id(), ?next, "an attempt failed");
            self.context.gateway.engines.end(&mut running.call).await;
            // The endpoint's count falls before the next choice.
            *slot = None;
            match next {
                Next::GiveUp(_) if matches!(lost, Lost::Evicted) => {
                    self.permit.holder().cut_with_endpoint();
                    return Err(Stop::cut(CutCause::EndpointDrain));
                }
                Next::GiveUp(end) => return give_up(end, Some(lost)),
                Next::Retry { pause } => sleep(pause).await,
            }
            last = Some(lost);
        }
    }

    /// The attempt, for as long as its endpoint stays or the request has nowhere else to go.
    async fn attempt_here(&mut self, running: &mut Attempt, attempts: &mut Attempts) -> Ended {
        // The attempt has `running` until its end.
        let here = running.lease.id().clone();
        let mut leaving = pin!(running.lease.leaving());
        let mut evicted = pin!(self.permit.holder().evicted());
        let holder = self.permit.holder();
        let mut attempt = pin!(self.attempt(running));
        let mut may_leave = true;
        loop {
            tokio::select! {
                biased;
                answer = &mut attempt => return match answer {
                    Ok(reply) => {
                        holder.deliver();
                        Ended::Reply(Box::new(reply))
                    }
                    Err(lost) => Ended::Lost(lost),
                },
                () = &mut evicted => return Ended::Lost(Lost::Evicted),
                () = &mut leaving, if may_leave => {
                    if let Some(lease) = attempts.move_from(&here) {
                        tracing::debug!(from = %here, to = %lease.id(), "moved");
                        return Ended::Moved(lease);
                    }
                    may_leave = false;
                }
            }
        }
    }

    fn chosen(&mut self, lease: &EndpointLease, again: bool) {
        let pool = self.context.pool.spec();
        let selection = match (pool.kind, pool.endpoints.len()) {
            _ if again => Selection::Retry,
            (PoolKind::Gateway, _) => Selection::Gateway,
            (PoolKind::Engines, 1) => Selection::Only,
            (PoolKind::Engines, _) => Selection::LeastRequest,
        };
        self.context.gateway.telemetry.selected(self.context.pool.id(), selection);
        self.permit.holder().set_endpoint(lease.id().clone());
        self.account.endpoint = Some(lease.id().clone());
        self.account.attempts += 1;
    }

    async fn attempt(&mut self, running: &mut Attempt) -> Result<Reply, Lost> {
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
            first_byte: self.first_byte,
            permit: self.permit,
            gateway: self.context.pool.is_gateway(),
        };
        let answer = attempt(&self.context.gateway.engines, &question, running).await;
        self.account.upstream_status = match &answer {
            Ok(reply) => Some(reply.head.status.as_u16()),
            Err(Lost::Status { head, .. }) => Some(head.status.as_u16()),
            Err(Lost::HalfStatus(status)) => Some(*status),
            Err(Lost::Early | Lost::EarlyError(_) | Lost::GivenUp) => Some(200),
            Err(_) => self.account.upstream_status,
        };
        answer
    }
}

fn kind(request: &Request, head: &RequestHeader) -> Kind {
    match (request.facts.stream, head.method.is_safe()) {
        (true, _) => Kind::Stream,
        (false, true) => Kind::Read,
        (false, false) => Kind::Answer,
    }
}

/// What the client gets when no further attempt is made.
fn give_up(end: End, last: Option<Lost>) -> Result<Found, Stop> {
    match (end, last) {
        (End::PassOn, Some(Lost::Status { head, body })) => Ok(Found::ErrorAnswer { head, body }),
        (End::PassOn, Some(Lost::EarlyError(error))) => Err(early_error(error.status)),
        (End::Refuse(reason), last) => Err(Stop::Refuse(
            outcome_of(reason, last.as_ref()),
            Rejection::new(reason, message_of(reason, last.as_ref())),
        )),
        (End::PassOn | End::Broken, last) => {
            let message = message_of(Reason::UpstreamUnreachable, last.as_ref());
            let rejection = Rejection::new(Reason::UpstreamUnreachable, message);
            Err(Stop::Refuse(Outcome::UpstreamError, rejection))
        }
    }
}

/// A refusal for which no engine was at fault is a rejection; after a failed attempt it is the
/// engines' error.
fn outcome_of(reason: Reason, last: Option<&Lost>) -> Outcome {
    match (reason, last) {
        (Reason::UpstreamTimeout, _) => Outcome::TimedOut,
        (Reason::UpstreamUnreachable, _) => Outcome::UpstreamError,
        (_, None | Some(Lost::OwnShortage)) => Outcome::Rejected,
        (_, Some(_)) => Outcome::UpstreamError,
    }
}

fn message_of(reason: Reason, last: Option<&Lost>) -> &'static str {
    match (reason, last) {
        (_, Some(Lost::OwnShortage)) => "This replica can open no connection now.",
        (Reason::NoEndpoint, Some(_)) => "The engines of this model are being restarted.",
        (Reason::NoEndpoint, None) => "No engine of this model can be used now.",
        (Reason::PoolSaturated, _) => "The engines of this model are at their limit.",
        (_, Some(Lost::NotConnected { refused: true })) => "The engine refused the connection.",
        (_, Some(Lost::NotConnected { refused: false })) => "The engine could not be reached.",
        (_, Some(Lost::Early)) => "The engine was lost before its first token.",
        (_, Some(Lost::GivenUp)) => "The engine gave the request up.",
        (_, Some(Lost::HalfStatus(_))) => "The engine's error answer was not whole.",
        _ => "The engine closed the connection unanswered.",
    }
}

/// This replica lost its quota lease between the grant and the first byte.
fn slot_lost() -> Stop {
    let message = "Whether a slot is free cannot be told at the moment.";
    Stop::refuse(Rejection::new(Reason::QuotaUnavailable, message))
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
