//! Error bodies in the dialect of the API called, and the names each dialect has for a refusal.

use crate::core::api::Dialect;
use crate::core::reason::Reason;
use crate::core::rejection::Rejection;
use bytes::Bytes;
use serde::Serialize;

/// The error object of OpenAI's API.
#[derive(Serialize)]
pub(super) struct OpenAiError<'a> {
    pub message: &'a str,
    #[serde(rename = "type")]
    pub kind: &'a str,
    pub code: &'a str,
    pub param: Option<&'a str>,
}

/// The error object of Anthropic's API.
#[derive(Serialize)]
pub(super) struct AnthropicError<'a> {
    #[serde(rename = "type")]
    pub kind: &'a str,
    pub message: &'a str,
}

/// The body of the answer to `rejection`.
pub(super) fn write(rejection: &Rejection, dialect: Dialect, request_id: &str) -> Bytes {
    #[derive(Serialize)]
    struct OpenAi<'a> {
        error: OpenAiError<'a>,
    }
    #[derive(Serialize)]
    struct Anthropic<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        error: AnthropicError<'a>,
        request_id: &'a str,
    }
    let (reason, status, message) =
        (rejection.reason, rejection.http_status(), rejection.message.as_ref());
    match dialect {
        Dialect::OpenAi => json(&OpenAi {
            error: OpenAiError {
                message,
                kind: openai_type(reason, status),
                code: reason.as_str(),
                param: rejection.param.as_deref(),
            },
        }),
        Dialect::Anthropic => json(&Anthropic {
            kind: "error",
            error: AnthropicError { kind: anthropic_type(status), message },
            request_id,
        }),
    }
}

/// Serialises an error body.
pub(super) fn json(body: &impl Serialize) -> Bytes {
    #[expect(
        clippy::expect_used,
        reason = "structs of strings always serialise; writing to a vector does not fail"
    )]
    Bytes::from(serde_json::to_vec(body).expect("an error body is plain text"))
}

/// `error.type` of the OpenAI dialect. Its service names the resource that ran out on a 429.
fn openai_type(reason: Reason, status: u16) -> &'static str {
    match (status, reason) {
        (429, Reason::TokenBudget) => "tokens",
        (429, _) => "requests",
        (401, _) => "authentication_error",
        (403, _) => "permission_error",
        (400..500, _) => "invalid_request_error",
        _ => "server_error",
    }
}

/// `error.type` of the Anthropic dialect.
const fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        408 | 504 => "timeout_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        503 => "overloaded_error",
        _ => "api_error",
    }
}
