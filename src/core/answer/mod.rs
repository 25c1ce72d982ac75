//! The one table that turns a refusal into status, headers and body.
//!
//! | dialect | body |
//! |---|---|
//! | OpenAI | `{"error":{"message","type","code","param"}}` |
//! | Anthropic | `{"type":"error","error":{"type","message"},"request_id"}` |
//!
//! `type` is a type that the vendor's own service uses for the condition; `code` is the reason, as
//! in `x-streamgate-reason`.

mod body;
mod event;
mod limit;
mod wait;

pub use event::{error_event, error_event_at};

use super::api::Dialect;
use super::rejection::Rejection;
use bytes::Bytes;

/// A complete answer, save for framing: whoever writes it adds `content-length` and `date`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Lower-case names; every value is valid in a header.
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
}

/// The answer to a refused request.
///
/// `request_id` must be fit for a header (see [`headers`](super::headers)); `jitter` is a fresh
/// random number from 0 to 1 that spreads the retry times.
pub fn answer(rejection: &Rejection, dialect: Dialect, request_id: &str, jitter: f64) -> Answer {
    let status = rejection.http_status();
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("cache-control", "no-store".to_owned()),
        ("x-streamgate-reason", rejection.reason.as_str().to_owned()),
        ("x-request-id", request_id.to_owned()),
    ];
    if dialect == Dialect::Anthropic {
        // Anthropic's client libraries look for the id under this name.
        headers.push(("request-id", request_id.to_owned()));
    }
    match status {
        401 => headers.push(("www-authenticate", "Bearer".to_owned())),
        // CONNECT is what is refused.
        405 => headers.push(("allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS".to_owned())),
        _ => {}
    }
    let wait = rejection.retry_in().map(|estimate| wait::spread(estimate, jitter));
    match wait {
        Some(wait) => {
            headers.push(("retry-after", wait.seconds().to_string()));
            headers.push(("retry-after-ms", wait.millis().to_string()));
        }
        None => headers.push(("x-should-retry", "false".to_owned())),
    }
    if let (429, Some(limit)) = (status, &rejection.limit) {
        headers.extend(limit::fields(limit, wait));
    }
    Answer { status, headers, body: body::write(rejection, dialect, request_id) }
}

#[cfg(test)]
mod tests;
