//! Calls that change something.

use super::Admin;
use super::access::Action;
use super::answers::{DrainAnswer, Refusal};
use super::places::Seat;
use super::server::Peer;
use crate::core::drain_port::DrainWait;
use crate::core::observe::HolderState;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most holders named in the answer of a drain call.
pub const MAX_LEFT: usize = 100;
/// Longest `wait`; no grace period is longer.
const MAX_WAIT: Duration = Duration::from_secs(3_600);

/// `?wait=150s`.
#[derive(Debug, Deserialize)]
pub struct Wait {
    wait: Option<String>,
}

impl Wait {
    pub(super) fn limit(&self, default: Duration) -> Result<Duration, Refusal> {
        let Some(text) = &self.wait else { return Ok(default) };
        match humantime::parse_duration(text) {
            Ok(limit) if limit <= MAX_WAIT => Ok(limit),
            _ => Err(Refusal::bad_request(format!(
                "wait: {text:?} is not a duration of at most 1h; write it like 150s or 2m"
            ))),
        }
    }
}

type Query_ = Result<Query<Wait>, axum::extract::rejection::QueryRejection>;

/// `POST /api/v1/drain?wait=150s`.
pub async fn drain(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Peer>,
    Extension(seat): Extension<Seat>,
    headers: HeaderMap,
    query: Query_,
) -> Result<DrainAnswer, Refusal> {
    permit(&admin, Action::Change, "drain", peer, &headers)?;
    begin_and_wait(&admin, &seat, query).await
}

/// `GET /prestop?wait=150s`. A `HEAD` must not start a drain.
pub async fn prestop(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Peer>,
    Extension(seat): Extension<Seat>,
    method: Method,
    headers: HeaderMap,
    query: Query_,
) -> Result<DrainAnswer, Refusal> {
    if method == Method::HEAD {
        return Err(super::routes::wrong_method());
    }
    permit(&admin, Action::Prestop, "prestop", peer, &headers)?;
    begin_and_wait(&admin, &seat, query).await
}

/// Cancel-safe: a caller that leaves ends the waiting, not the drain. One caller too many is
/// refused the waiting, and its drain begins all the same.
async fn begin_and_wait(admin: &Admin, seat: &Seat, query: Query_) -> Result<DrainAnswer, Refusal> {
    let Query(wait) = query.map_err(|error| Refusal::bad_request(error.body_text()))?;
    let limit = wait.limit(admin.default_wait)?;
    let began = Instant::now();
    admin.drain.begin();
    let _blocked = seat.block().ok_or_else(too_many_wait)?;
    let end = admin.drain.wait(limit).await;
    let drained = end == DrainWait::Drained;
    Ok(DrainAnswer {
        drained,
        state: admin.drain.phase(),
        waited_seconds: began.elapsed().as_secs_f64(),
        in_flight: DrainAnswer::in_flight(end),
        queued: admin.observe.drain().queued,
        left: if drained { Vec::new() } else { oldest(admin.observe.holders()) },
    })
}

pub(super) fn too_many_wait() -> Refusal {
    let message = "the drain has begun, but too many calls wait for it already; see /api/v1/state";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_wait", message)
}

fn oldest(mut holders: Vec<HolderState>) -> Vec<HolderState> {
    holders.sort_by(|a, b| b.age_seconds.total_cmp(&a.age_seconds));
    holders.truncate(MAX_LEFT);
    holders
}

/// `DELETE /api/v1/holders/{request-id}`.
pub async fn cut(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Path(request): Path<String>,
) -> Result<Response, Refusal> {
    permit(&admin, Action::Change, "cut", peer, &headers)?;
    if admin.observe.cut_holder(&request) {
        return Ok(Json(serde_json::json!({"cut": true, "request_id": request})).into_response());
    }
    let message = "no request of that id holds a slot here; it may have ended";
    Err(Refusal::new(StatusCode::NOT_FOUND, "no_such_request", message))
}

pub(super) fn permit(
    admin: &Admin,
    action: Action,
    call: &'static str,
    Peer(peer): Peer,
    headers: &HeaderMap,
) -> Result<(), Refusal> {
    match admin.access.check(action, peer, headers) {
        Ok(()) => {
            tracing::info!(call, %peer, "admin call");
            Ok(())
        }
        Err(denied) => {
            tracing::warn!(call, %peer, ?denied, "admin call denied");
            Err(denied.into())
        }
    }
}
