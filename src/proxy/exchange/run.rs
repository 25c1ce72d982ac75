//! An understood request on its way: gate, admission, attempts, delivery.

use super::account::Account;
use super::failover::{self, Found};
use super::ingress::Request;
use super::refuse::refuse;
use super::work::Work;
use super::{End, Stop, deliver};
use crate::admission::{AdmitRequest, Admitted, Refused};
use crate::core::outcome::Outcome;
use crate::core::policy::PoolCap;
use crate::core::reason::Reason;
use crate::core::rejection::{LimitInfo, LimitUnit, Rejection};
use crate::proxy::client::Client;
use crate::proxy::gateway::{Gateway, Live};
use crate::telemetry::Arrival;
use crate::upstream::Pool;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Stands for "no total deadline"; far enough, and no overflow of a timer.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What the stages after ingress share.
pub(super) struct Context<'a> {
    pub gateway: &'a Gateway,
    pub live: &'a Live,
    pub pool: Arc<Pool>,
    /// When the request must have ended, whatever it waits for.
    pub total: Instant,
}

/// Run one request to its end.
pub(super) async fn run(
    gateway: &Gateway,
    live: &Live,
    client: &mut Client,
    request: Request,
    account: &mut Account,
    arrival: &mut Arrival,
) -> End {
    let Some(pool) = gateway.pools.get(&request.pool) else {
        return refuse(client, account, Outcome::Rejected, &pool_gone()).await;
    };
    let total = account.started + live.config.timeouts.total.unwrap_or(NEVER);
    let mut context = Context { gateway, live, pool, total };
    let demand = context.pool.demand();
    let admitted = match admit(&context, client, &request, account).await {
        Ok(admitted) => admitted,
        Err(NotAdmitted::Gone) => return End::client_gone("queue"),
        Err(NotAdmitted::Late) => {
            return refuse(client, account, Outcome::TimedOut, &total_passed()).await;
        }
        Err(NotAdmitted::Refused(refused)) => {
            let rejection = rejection(gateway, &refused);
            let end = refuse(client, account, Outcome::Rejected, &rejection).await;
            // Until here the drain knows that somebody still had to be answered.
            drop(refused);
            return end;
        }
    };
    // While it waited a reload may have removed the pool, or brought another of its name.
    let (pool, room) = match (gateway.pools.get(&request.pool), gateway.engine_room()) {
        (Some(pool), Some(room)) => (pool, room),
        (pool, _) => {
            let rejection = if pool.is_none() { pool_gone() } else { no_connection() };
            // The slot is back before the client hears that it may try again.
            let _answering = admitted.permit.holder().answering();
            drop(admitted);
            return refuse(client, account, Outcome::Rejected, &rejection).await;
        }
    };
    context.pool = pool;
    arrival.admitted();
    account.queue_wait = Some(admitted.waited);
    if let Some(reason) = admitted.shadow_refusal {
        gateway.telemetry.shadow_rejection(&account.tenant, reason);
    }
    // The slot is back before the client has its last bytes; a drain waits for those too.
    let _answering = admitted.permit.holder().answering();
    let work = Work::new(admitted.permit, demand, room);
    forward(&context, client, request, work, account).await
}

enum NotAdmitted {
    Gone,
    /// The total deadline passed in the queue.
    Late,
    Refused(Refused),
}

async fn admit(
    context: &Context<'_>,
    client: &mut Client,
    request: &Request,
    account: &Account,
) -> Result<Admitted, NotAdmitted> {
    let ask = AdmitRequest {
        request_id: account.request_id.clone(),
        policy: request.policy.clone(),
        model: account.model.clone(),
        pool: request.pool.clone(),
        pool_cap: PoolCap {
            max_in_flight: context.pool.spec().max_in_flight,
            revision: context.live.config.revision,
        },
    };
    tokio::select! {
        biased;
        admitted = context.gateway.admission.admit(ask, Instant::now()) => {
            admitted.map_err(NotAdmitted::Refused)
        }
        () = client.gone() => Err(NotAdmitted::Gone),
        () = sleep_until(context.total) => Err(NotAdmitted::Late),
    }
}

/// Find an engine that answers, and give its answer to the client.
async fn forward(
    context: &Context<'_>,
    client: &mut Client,
    request: Request,
    mut work: Work,
    account: &mut Account,
) -> End {
    let first_byte = Instant::now() + context.live.config.timeouts.first_byte;
    // Boxed: connecting is the largest state, and a streaming request must not keep its space.
    let found =
        Box::pin(failover::find(context, client, &request, &mut work, first_byte, account)).await;
    // Not needed any more: a prompt may be large and the stream long.
    let api = request.facts.api;
    drop(request);
    match found {
        Ok(Found::Reply(reply)) => {
            deliver::deliver(context, client, work, *reply, first_byte, api, account).await
        }
        Ok(Found::ErrorAnswer { head, body }) => {
            work.end(&context.gateway.engines).await;
            deliver::error_answer(client, &head, body, account).await
        }
        Err(stop) => {
            if let Some(cause) = work.holder().cut_cause() {
                context.gateway.telemetry.stream_cut(cause);
            }
            // The slot is back before the client hears that it may try again.
            work.end(&context.gateway.engines).await;
            match stop {
                Stop::Gone(at) => End::client_gone(at),
                Stop::Refuse(outcome, rejection) => {
                    refuse(client, account, outcome, &rejection).await
                }
            }
        }
    }
}

fn pool_gone() -> Rejection {
    Rejection::new(Reason::NoEndpoint, "The pool of this model is gone.")
}

/// Nothing was asked of an engine: `core::shortage` met before it comes to that.
fn no_connection() -> Rejection {
    Rejection::new(Reason::NoEndpoint, "This replica can open no connection now.")
}

/// The request ran out of `timeouts.total` before an engine answered.
pub(super) fn total_passed() -> Rejection {
    Rejection::new(Reason::UpstreamTimeout, "The request took longer than is allowed.")
}

fn rejection(gateway: &Gateway, refused: &Refused) -> Rejection {
    let message = match refused.reason {
        Reason::TenantInFlight => format!(
            "All {} of this tenant's slots are in use. A slot is held until its stream has ended.",
            refused.limit
        ),
        Reason::QueueFull => "The tenant's queue is full.".to_owned(),
        Reason::QueueTimeout => "No slot came free in time.".to_owned(),
        Reason::PoolSaturated => "The engines of this model are at their limit.".to_owned(),
        Reason::Draining => "This replica is shutting down.".to_owned(),
        _ => "Whether a slot is free cannot be told at the moment.".to_owned(),
    };
    let rejection = Rejection::new(refused.reason, message);
    if !matches!(refused.reason, Reason::TenantInFlight | Reason::QueueFull | Reason::QueueTimeout)
    {
        return rejection;
    }
    let wait = gateway.estimates.wait(&refused.tenant, refused.limit);
    rejection.retry_after(wait).limit(LimitInfo {
        name: "in-flight",
        unit: LimitUnit::ConcurrentRequests,
        quota: u64::from(refused.limit),
        remaining: 0,
        window: None,
        reset: Some(wait),
    })
}
