//! Paths of the admin port, and the calls that only read.

use super::answers::{Refusal, common_headers};
use super::places::Seat;
use super::{Admin, actions, endpoint_drain, page};
use crate::core::observe::{DrainPhase, HolderState, State as Now};
use crate::telemetry;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Extension, Json, Router};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// Every path. Bodies are not read by any of them.
pub fn router(admin: Arc<Admin>) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/prestop", get(actions::prestop))
        .route("/api/v1/state", get(state))
        .route("/api/v1/holders", get(holders))
        .route("/api/v1/holders/{request_id}", delete(actions::cut))
        .route("/api/v1/drain", post(actions::drain))
        .route(
            "/api/v1/endpoints/{endpoint}/drain",
            post(endpoint_drain::drain).delete(endpoint_drain::restore),
        )
        .fallback(no_such_path)
        .method_not_allowed_fallback(async || wrong_method())
        .layer(middleware::from_fn(contain_panic))
        .layer(middleware::map_response(common_headers))
        .layer(middleware::from_fn(head_came))
        .with_state(admin)
}

/// 200 while serving; 503 from the first moment of a drain, and at the start while the endpoints
/// are to be discovered, so that nobody sends new requests.
async fn readyz(State(admin): State<Arc<Admin>>) -> Response {
    let state = admin.drain.phase();
    let awaits_endpoints = admin.observe.awaits_endpoints();
    let ready = state == DrainPhase::Serving && !awaits_endpoints;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut answer = serde_json::json!({"ready": ready, "state": state});
    if awaits_endpoints {
        answer["awaits_endpoints"] = true.into();
    }
    (status, Json(answer)).into_response()
}

async fn metrics(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let text = admin.telemetry.exposition(&*admin.observe);
    ([(CONTENT_TYPE, telemetry::CONTENT_TYPE)], text)
}

async fn state(State(admin): State<Arc<Admin>>) -> Json<Now> {
    let observe = &admin.observe;
    Json(Now {
        version: admin.version,
        uptime_seconds: observe.uptime_seconds(),
        tenants: observe.tenants(),
        pools: observe.pools(),
        store: observe.store(),
        drain: observe.drain(),
        endpoint_drains: admin.endpoints.states(),
        drain_board: admin.endpoints.board(),
    })
}

async fn holders(State(admin): State<Arc<Admin>>) -> Json<Vec<HolderState>> {
    Json(admin.observe.holders())
}

async fn no_such_path(uri: Uri) -> Refusal {
    let path = uri.path();
    Refusal::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {path:?} here"))
}

/// The `Allow` header says which would do.
pub fn wrong_method() -> Refusal {
    let message = "this path does not take this method";
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

/// A connection that has said what it wants is not idle.
async fn head_came(Extension(seat): Extension<Seat>, request: Request, next: Next) -> Response {
    seat.answer();
    next.run(request).await
}

/// A defect in one answer must not take the probes down with it.
async fn contain_panic(request: Request, next: Next) -> Response {
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    answer.unwrap_or_else(|_| {
        let message = "a defect of this program; see its log";
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message).into_response()
    })
}
