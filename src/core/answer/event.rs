//! The last event of a stream that broke after bytes were sent.
//!
//! Client libraries take a stream that merely ends for a success; they raise on this event:
//!
//! | API | what the libraries look at |
//! |---|---|
//! | completions, chat | `error` in the data, whatever the event is called |
//! | messages | the event's name; the error's type and message are in the data |
//! | responses | `error` in the data (raises), or `type: error` with `message` and `code` (an event to the application); both are given |

use super::body::{AnthropicError, OpenAiError, json};
use crate::core::api::Api;
use bytes::Bytes;
use serde::Serialize;

/// The error event for a stream of `api` that has no sequence numbers, or whose last one is not
/// known. See [`error_event_at`].
pub fn error_event(api: Api, code: &str, message: &str) -> Bytes {
    error_event_at(api, code, message, 0)
}

/// The error event that ends a broken stream of `api`, as complete bytes; the connection must be
/// aborted after it and no terminal event may follow.
///
/// `code` is a stable word for programs, `message` is for people; neither may hold anything
/// internal. `sequence_number` is that of the event in a stream of the responses API, one above
/// the last one sent; elsewhere it is not used.
pub fn error_event_at(api: Api, code: &str, message: &str, sequence_number: u64) -> Bytes {
    let error = OpenAiError { message, kind: "server_error", code, param: None };
    let data = match api {
        Api::Completions | Api::Chat | Api::Plain => json(&OpenAiEvent { error }),
        Api::Messages => json(&AnthropicEvent {
            kind: "error",
            error: AnthropicError { kind: anthropic_type(code), message },
        }),
        Api::Responses => json(&ResponsesEvent {
            kind: "error",
            code,
            message,
            param: None,
            sequence_number,
            error,
        }),
    };
    let mut event = Vec::with_capacity(data.len() + 24);
    event.extend_from_slice(b"event: error\ndata: ");
    event.extend_from_slice(&data);
    event.extend_from_slice(b"\n\n");
    Bytes::from(event)
}

#[derive(Serialize)]
struct OpenAiEvent<'a> {
    error: OpenAiError<'a>,
}

#[derive(Serialize)]
struct AnthropicEvent<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    error: AnthropicError<'a>,
}

#[derive(Serialize)]
struct ResponsesEvent<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    code: &'a str,
    message: &'a str,
    param: Option<&'a str>,
    sequence_number: u64,
    error: OpenAiError<'a>,
}

/// A timeout and a drain have names of their own; the rest is the server's failure.
fn anthropic_type(code: &str) -> &'static str {
    match code {
        "timed_out" => "timeout_error",
        code if code.ends_with("_timeout") => "timeout_error",
        "drain_cut" | "draining" => "overloaded_error",
        _ => "api_error",
    }
}
