//! The drain of an engine endpoint: `POST` and `DELETE /api/v1/endpoints/{host:port}/drain`.

use super::Admin;
use super::access::Action;
use super::actions::{Wait, permit, too_many_wait};
use super::answers::Refusal;
use super::places::Seat;
use super::server::Peer;
use crate::core::endpoint_drain::EndpointDrainState;
use crate::core::endpoint_drain_port::{Restoration, UnknownEndpoint};
use crate::core::ids::EndpointId;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long one caller too many is given: its order is taken all the same.
const UNBLOCKED: Duration = Duration::from_millis(200);
/// Endpoints named in a refusal.
const NAMED: usize = 50;

/// The answer to an order: 200 when drained, else 504.
#[derive(Debug, Serialize)]
struct DrainAnswer {
    drained: bool,
    waited_seconds: f64,
    /// Replicas that do not choose the endpoint any more, of all that live as far as is known.
    confirmed: usize,
    #[serde(flatten)]
    state: EndpointDrainState,
}

/// `POST …/drain?wait=80s`. Cancel-safe: a caller that leaves ends its waiting, not the drain.
pub async fn drain(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Peer>,
    Extension(seat): Extension<Seat>,
    headers: HeaderMap,
    Path(endpoint): Path<String>,
    query: Result<Query<Wait>, QueryRejection>,
) -> Result<Response, Refusal> {
    permit(&admin, Action::Change, "endpoint drain", peer, &headers)?;
    let endpoint = named(&endpoint)?;
    let Query(wait) = query.map_err(|error| Refusal::bad_request(error.body_text()))?;
    let limit = wait.limit(admin.default_wait)?;
    let began = Instant::now();
    let waiting = admin.endpoints.drain(endpoint, limit);
    let blocked = seat.block();
    let ended = match &blocked {
        Some(_) => waiting.await,
        None => tokio::time::timeout(UNBLOCKED, waiting).await.map_err(|_| too_many_wait())?,
    };
    let ended = ended.map_err(unknown)?;
    if ended.was_restored() {
        let message = "the endpoint was put back in service while this waited";
        return Err(Refusal::new(StatusCode::CONFLICT, "restored", message));
    }
    let status = if ended.drained { StatusCode::OK } else { StatusCode::GATEWAY_TIMEOUT };
    let answer = DrainAnswer {
        drained: ended.drained,
        waited_seconds: began.elapsed().as_secs_f64(),
        confirmed: ended.state.confirmed(),
        state: ended.state,
    };
    Ok((status, Json(answer)).into_response())
}

/// `DELETE …/drain`: back in service; 200 once the board knows, else 504. Cancel-safe: a caller
/// that leaves ends its waiting, not the restoration.
pub async fn restore(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Path(endpoint): Path<String>,
) -> Result<Response, Refusal> {
    permit(&admin, Action::Change, "endpoint restore", peer, &headers)?;
    let endpoint = named(&endpoint)?;
    let ended = admin.endpoints.restore(endpoint.clone()).await.map_err(unknown)?;
    restoration(&endpoint, ended)
}

fn restoration(endpoint: &EndpointId, ended: Restoration) -> Result<Response, Refusal> {
    let (restored, posted) = match ended {
        Restoration::Restored => (true, true),
        Restoration::RestoredHere => (true, false),
        // Nothing is to be told.
        Restoration::NotDrained => (false, true),
        Restoration::NotKnown => (false, false),
        Restoration::Overruled => {
            let message = "the endpoint drains: it was ordered again, or the engine said that it \
                           shuts down, while this waited";
            return Err(Refusal::new(StatusCode::CONFLICT, "drains", message));
        }
    };
    let status = if posted { StatusCode::OK } else { StatusCode::GATEWAY_TIMEOUT };
    let answer = serde_json::json!({"endpoint": endpoint, "restored": restored, "posted": posted});
    Ok((status, Json(answer)).into_response())
}

/// `host:port`, `[::1]:8000` too; anything else is told how to write it.
fn named(text: &str) -> Result<EndpointId, Refusal> {
    let fits = text.rsplit_once(':').is_some_and(|(host, port)| {
        let bracketed = host.starts_with('[') && host.ends_with(']');
        let plain = !host.contains(|c: char| c == ':' || c.is_whitespace() || c.is_control());
        !host.is_empty() && (bracketed || plain) && port.parse::<u16>().is_ok()
    });
    if fits && text.len() <= 256 {
        return Ok(EndpointId::from(text));
    }
    Err(Refusal::bad_request(format!(
        "{text:?} is no endpoint; write host:port, such as 10.0.0.7:8000 or [::1]:8000"
    )))
}

fn unknown(unknown: UnknownEndpoint) -> Refusal {
    let mut known: Vec<&str> = unknown.known.iter().map(EndpointId::as_str).take(NAMED).collect();
    if unknown.known.len() > NAMED {
        known.push("…");
    }
    let message = if known.is_empty() {
        "there is no endpoint at all".to_owned()
    } else {
        format!("there is no such endpoint; there are {}", known.join(", "))
    };
    Refusal::new(StatusCode::NOT_FOUND, "no_such_endpoint", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restoration_is_a_success_only_once_the_board_knows() {
        let status = |ended| {
            let answer = restoration(&EndpointId::from("10.0.0.7:8000"), ended);
            answer.unwrap_or_else(IntoResponse::into_response).status()
        };
        for (ended, expected) in [
            (Restoration::Restored, 200),
            (Restoration::NotDrained, 200),
            (Restoration::RestoredHere, 504),
            (Restoration::NotKnown, 504),
            (Restoration::Overruled, 409),
        ] {
            assert_eq!(status(ended), expected, "{ended:?}");
        }
    }
}
