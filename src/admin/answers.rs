//! The shapes of the admin port's answers.

use super::access::Denied;
use crate::core::drain_port::DrainWait;
use crate::core::observe::{DrainPhase, HolderState};
use axum::Json;
use axum::http::header::{CACHE_CONTROL, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::borrow::Cow;

/// Everything that is not the asked-for answer: `{"error": kind, "message": text}`.
#[derive(Debug, Serialize)]
pub struct Refusal {
    #[serde(skip)]
    status: StatusCode,
    error: &'static str,
    message: Cow<'static, str>,
}

impl Refusal {
    pub fn new(
        status: StatusCode,
        error: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, error, message: message.into() }
    }

    pub fn bad_request(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        let (status, error, message) = match denied {
            Denied::Token => (
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "this call needs `Authorization: Bearer` with the token of admin.token_file",
            ),
            Denied::Loopback => (
                StatusCode::FORBIDDEN,
                "forbidden",
                "this call is allowed from loopback only; set admin.token_file to allow it from \
                 elsewhere (for /prestop: drain.http_prestop)",
            ),
            Denied::Browser => (
                StatusCode::FORBIDDEN,
                "forbidden",
                "this call looks like one of a foreign web page; call it without a browser, by \
                 address or localhost",
            ),
        };
        Self::new(status, error, message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(&self)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The answer of `POST /api/v1/drain` and `GET /prestop`: 200 when drained, else 504.
#[derive(Debug, Serialize)]
pub struct DrainAnswer {
    pub drained: bool,
    /// Where the drain is now; `cut` if its own deadline ended what was left.
    pub state: DrainPhase,
    pub waited_seconds: f64,
    /// Requests that were still running, or were cut.
    pub in_flight: u64,
    pub queued: u64,
    /// The oldest of them, at most [`MAX_LEFT`](super::actions::MAX_LEFT).
    pub left: Vec<HolderState>,
}

impl DrainAnswer {
    pub const fn in_flight(end: DrainWait) -> u64 {
        match end {
            DrainWait::Drained => 0,
            DrainWait::TimedOut { in_flight } => in_flight,
        }
    }
}

impl IntoResponse for DrainAnswer {
    fn into_response(self) -> Response {
        let status = if self.drained { StatusCode::OK } else { StatusCode::GATEWAY_TIMEOUT };
        (status, Json(self)).into_response()
    }
}

/// What every answer carries: it is about this moment, and it is what it says it is.
pub async fn common_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
