//! `POST /v1/responses`: typed events, ended by `response.completed`, `response.incomplete` or
//! `response.failed`; there is no `[DONE]`.
//!
//! vLLM ends an answer that reached its token limit with `response.completed` whose response has
//! `status: "incomplete"` and a reason: a proper end. `status: "cancelled"`, or incomplete without
//! a reason, is the engine giving up.

use super::error::EngineError;
use super::json::{Loose, Object};
use super::reading::{Reading, Step, is_abort};
use super::usage::{Scope, UsageFields};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Loose<'a>,
    #[serde(borrow, default)]
    sequence_number: Loose<'a>,
    #[serde(borrow, default)]
    delta: Loose<'a>,
    /// Of `*.done` events, whose text says again what the deltas said.
    #[serde(borrow, default)]
    text: Loose<'a>,
    #[serde(borrow, default)]
    item: Object<Item<'a>>,
    #[serde(borrow, default)]
    response: Object<Response<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Loose<'a>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    status: Loose<'a>,
    #[serde(borrow, default)]
    incomplete_details: Object<Details<'a>>,
    #[serde(borrow, default)]
    usage: Object<UsageFields<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Loose<'a>,
}

#[derive(Deserialize)]
struct Details<'a> {
    #[serde(borrow, default)]
    reason: Loose<'a>,
}

/// Read one event. The type is taken from the data, else from the `event` field.
pub(super) fn read(name: Option<&str>, data: &[u8]) -> Reading {
    let Ok(event) = serde_json::from_slice::<Data<'_>>(data) else {
        return Reading::unread();
    };
    if let Some(error) = event.error {
        return Reading::error(EngineError::read(error.get().as_bytes()));
    }
    let sequence = event.sequence_number.count();
    let reading = match event.kind.word().or(name).unwrap_or_default() {
        "error" => Reading::error(EngineError::read(data)),
        kind @ ("response.completed"
        | "response.incomplete"
        | "response.failed"
        | "response.cancelled") => end(kind, event.response.0),
        kind => Reading { step: step(kind, &event), ..Reading::default() },
    };
    Reading { sequence, ..reading }
}

/// An event of which only the type is known, as its data is too large to be read.
pub(super) fn named(kind: &str) -> Reading {
    match kind {
        "error" | "response.failed" => Reading::error(EngineError::named(kind)),
        "response.completed" | "response.incomplete" => {
            Reading { unread: true, ..Reading::terminal() }
        }
        _ => Reading::unread(),
    }
}

fn step(kind: &str, event: &Data<'_>) -> Step {
    match kind {
        "response.created"
        | "response.in_progress"
        | "response.queued"
        | "response.content_part.added"
        | "response.reasoning_part.added"
        | "response.reasoning_summary_part.added" => Step::Opening,
        "response.output_item.added" => {
            match event.item.0.as_ref().and_then(|item| item.kind.text()) {
                // A call's name was generated; a message or reasoning item is still empty.
                Some("message" | "reasoning") | None => Step::Opening,
                Some(_) => Step::Content,
            }
        }
        _ if kind.ends_with(".delta") => {
            if event.delta.filled() {
                Step::Content
            } else {
                Step::Opening
            }
        }
        _ if event.text.filled() => Step::Restated,
        _ => Step::Progress,
    }
}

fn end(kind: &str, response: Option<Response<'_>>) -> Reading {
    let mut reading = Reading::terminal();
    let Some(response) = response else { return named(kind) };
    reading.usage = response.usage.0.as_ref().map(|usage| (usage.responses(), Scope::Answer));
    if kind == "response.failed" || response.status.text() == Some("failed") {
        let error = response.error.map(|error| EngineError::read(error.get().as_bytes()));
        reading.error = Some(error.unwrap_or_else(|| EngineError::named(kind)));
        return reading;
    }
    if response.output.filled() {
        reading.step = Step::Restated;
    }
    let status = response.status.word().unwrap_or(kind.trim_start_matches("response."));
    let details = response.incomplete_details.0;
    match details.as_ref().and_then(|details| details.reason.word()) {
        _ if is_abort(status) => reading.finished(0, status),
        Some(reason) if status == "incomplete" => reading.finished(0, reason),
        _ => {
            reading.finished(0, status);
            reading.abort = status == "incomplete";
        }
    }
    reading
}

/// Read the body of an answer that is not streamed: a response object, or an error.
pub(super) fn read_plain(body: &[u8]) -> Reading {
    let Ok(Object(Some(response))) = serde_json::from_slice::<Object<Response<'_>>>(body) else {
        return Reading::unread();
    };
    match response.error {
        Some(error) => Reading::error(EngineError::read(error.get().as_bytes())),
        None if response.status.word().is_none() => Reading::unread(),
        None => end("response.completed", Some(response)),
    }
}
