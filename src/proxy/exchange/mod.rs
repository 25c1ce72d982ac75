//! One request, from its head to its one outcome.
//!
//! ```text
//! ingress ──▶ gate ──▶ admission ──▶ attempt ⟲ ──▶ deliver ──▶ end
//!  head,       drain    slot or       connect, ask,  head out,   one event,
//!  identity,            queue         hold the head  stream or   permit back
//!  body, facts                        until progress plain body
//! ```
//!
//! Each stage gives its evidence to the next by value: there is no request without facts, no
//! attempt without a permit, no delivery without a held reply. Whatever happens, the
//! [`Arrival`](crate::telemetry::Arrival) ends in exactly one outcome and the permit comes back
//! when the engine's work has ended, both by drop.
//!
//! The client is watched in every wait; when it leaves, the future that waited is dropped and the
//! engine's connection is closed.

mod account;
mod attempt;
mod broken;
mod deliver;
mod failover;
mod ingress;
mod plain;
mod refuse;
mod run;
mod stream;
mod work;
mod write;

use super::client::Client;
use super::gateway::Gateway;
use crate::admission::OpenGuard;
use crate::core::cause::CutCause;
use crate::core::outcome::Outcome;
use crate::core::reason::Reason;
use crate::core::rejection::Rejection;
use account::Account;
use pingora_core::protocols::http::ServerSession;
pub use refuse::HeadFault;
use std::net::IpAddr;
use std::sync::Arc;

/// What becomes of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    Keep,
    Close,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
struct End {
    outcome: Outcome,
    /// The `x-streamgate-reason` that was answered, if the answer was ours.
    reason: Option<Reason>,
    /// What went wrong, from a closed vocabulary.
    error: Option<&'static str>,
    after: After,
}

impl End {
    fn complete() -> Self {
        Self { outcome: Outcome::Complete, reason: None, error: None, after: After::Keep }
    }

    /// The client can see that its answer is not whole.
    fn broken(outcome: Outcome, error: &'static str) -> Self {
        Self { outcome, reason: None, error: Some(error), after: After::Close }
    }

    /// The client has all there is of an answer that is not what it asked for.
    fn passed(outcome: Outcome, error: &'static str) -> Self {
        Self { error: Some(error), outcome, ..Self::complete() }
    }

    /// An engine's own error answer was passed on.
    fn upstream_error() -> Self {
        Self::passed(Outcome::UpstreamError, "upstream_status")
    }

    fn client_gone(at: &'static str) -> Self {
        Self::broken(Outcome::ClientCancelled, at)
    }
}

/// Why a request does not go on to the next stage.
enum Stop {
    /// The client has left.
    Gone(&'static str),
    /// It is answered with this.
    Refuse(Outcome, Rejection),
}

impl Stop {
    /// Cut before anything reached the client.
    fn cut(cause: CutCause) -> Self {
        let (reason, message) = match cause {
            CutCause::Operator => (Reason::CutByOperator, "The request was ended by an operator."),
            CutCause::Drain => (Reason::Draining, "This replica is shutting down."),
            CutCause::EndpointDrain => {
                (Reason::NoEndpoint, "The engine of this request is being taken out of service.")
            }
            CutCause::Fence => (Reason::QuotaUnavailable, "This replica lost its quota lease."),
        };
        Self::Refuse(broken::cut_outcome(cause), Rejection::new(reason, message))
    }

    /// The replica leaves, and the request was not read to its end.
    fn cut_unread() -> Self {
        Self::refuse(Rejection::new(Reason::Draining, "This replica is shutting down."))
    }

    /// Refused before anything was asked of an engine.
    fn refuse(rejection: Rejection) -> Self {
        Self::Refuse(Outcome::Rejected, rejection)
    }
}

/// When a request is to be read no further: the drain is at its end, or the replica took no more
/// requests when this one came, and what would be read would only be refused.
async fn over(open: Option<&OpenGuard>) {
    if let Some(open) = open {
        open.over().await;
    }
}

impl Gateway {
    /// Serve one request whose head has been read.
    pub async fn exchange(self: &Arc<Self>, client: &mut Client) -> After {
        let live = self.live();
        client.set_write_stall(live.config.timeouts.write_stall);
        let mut account = Account::open(client);
        // Until the last byte of the answer is out, the drain knows that somebody is served.
        let open = self.admission.open();
        let request = tokio::select! {
            biased;
            request = ingress::read(self, &live, client, &mut account) => request,
            () = over(open.as_ref()) => Err(Stop::cut_unread()),
        };
        let mut arrival = self.telemetry.arrive(&account.tenant, account.request_id.clone());
        let end = match request {
            Ok(request) => run::run(self, &live, client, request, &mut account, &mut arrival).await,
            Err(Stop::Gone(at)) => End::client_gone(at),
            Err(Stop::Refuse(outcome, rejection)) => {
                refuse::refuse(client, &mut account, outcome, &rejection).await
            }
        };
        account.bytes_sent = client.body_sent();
        let event = account.close(arrival.event(end.outcome), &end, &live.config.slo);
        arrival.finish(event);
        end.after
    }

    /// Answer and count a head that never became a request.
    pub async fn refuse_head(&self, session: &mut ServerSession, client: IpAddr, fault: HeadFault) {
        refuse::bad_head(self, session, client, fault).await;
    }
}
