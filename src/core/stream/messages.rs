//! `POST /v1/messages` (Anthropic): typed events, ended by `message_stop`; there is no `[DONE]`.
//!
//! vLLM's adapter knows the finish reasons `stop`, `length` and `tool_calls`. An aborted request
//! ends like a good one, but with `stop_reason: null` in the last `message_delta`: an end without
//! a reason, followed by `message_stop`, is therefore read as the engine's abort.

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
    message: Object<Message<'a>>,
    #[serde(borrow, default)]
    usage: Object<UsageFields<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Object<Delta<'a>>,
    #[serde(borrow, default)]
    content_block: Object<Block<'a>>,
    /// Of a message that is not streamed.
    #[serde(borrow, default)]
    stop_reason: Loose<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    usage: Object<UsageFields<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Loose<'a>,
    #[serde(borrow, default)]
    text: Loose<'a>,
    #[serde(borrow, default)]
    thinking: Loose<'a>,
}

/// Of `content_block_delta` and of `message_delta`.
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Loose<'a>,
    #[serde(borrow, default)]
    text: Loose<'a>,
    #[serde(borrow, default)]
    thinking: Loose<'a>,
    #[serde(borrow, default)]
    partial_json: Loose<'a>,
    #[serde(borrow, default)]
    stop_reason: Loose<'a>,
}

/// Read one event. The type is taken from the data, else from the `event` field.
pub(super) fn read(name: Option<&str>, data: &[u8]) -> Reading {
    let Ok(event) = serde_json::from_slice::<Data<'_>>(data) else {
        return Reading::unread();
    };
    if let Some(error) = event.error {
        return Reading::error(EngineError::read(error.get().as_bytes()));
    }
    let step = match event.kind.word().or(name).unwrap_or_default() {
        "error" => return Reading::error(EngineError::read(data)),
        "message_stop" => return Reading::terminal(),
        "message_delta" => return message_delta(&event),
        "message_start" => return message_start(&event),
        "ping" | "content_block_stop" => Step::Opening,
        "content_block_start" => block_step(event.content_block.0.as_ref()),
        "content_block_delta" => delta_step(event.delta.0.as_ref()),
        _ => Step::Progress,
    };
    Reading { step, ..Reading::default() }
}

/// Read the body of an answer that is not streamed: a message, or an error. vLLM leaves
/// `stop_reason` out of a message whose request was aborted.
pub(super) fn read_plain(body: &[u8]) -> Reading {
    let Ok(Object(Some(message))) = serde_json::from_slice::<Object<Data<'_>>>(body) else {
        return Reading::unread();
    };
    if let Some(error) = message.error {
        return Reading::error(EngineError::read(error.get().as_bytes()));
    }
    if message.kind.text() != Some("message") {
        return Reading::unread();
    }
    Reading {
        usage: message.usage.0.as_ref().map(|usage| (usage.anthropic(), Scope::Answer)),
        abort: message.stop_reason.word().is_none_or(is_abort),
        ..Reading::default()
    }
}

/// An event of which only the type is known, as its data is too large to be read.
pub(super) fn named(kind: &str) -> Reading {
    match kind {
        "error" => Reading::error(EngineError::named(kind)),
        "message_stop" => Reading { unread: true, ..Reading::terminal() },
        _ => Reading::unread(),
    }
}

fn message_start(event: &Data<'_>) -> Reading {
    let usage = event.message.0.as_ref().and_then(|message| message.usage.0.as_ref());
    Reading { usage: usage.map(|usage| (usage.anthropic(), Scope::Answer)), ..Reading::default() }
}

fn message_delta(event: &Data<'_>) -> Reading {
    let mut reading = Reading { step: Step::Progress, ..Reading::default() };
    reading.usage = event.usage.0.as_ref().map(|usage| (usage.anthropic(), Scope::Answer));
    match event.delta.0.as_ref().and_then(|delta| delta.stop_reason.word()) {
        Some(reason) => reading.finished(0, reason),
        None => reading.unexplained_end = true,
    }
    reading
}

fn block_step(block: Option<&Block<'_>>) -> Step {
    match block {
        Some(block) if block.text.filled() || block.thinking.filled() => Step::Content,
        Some(block) if matches!(block.kind.text(), Some("text" | "thinking") | None) => {
            Step::Opening
        }
        // A tool's name was generated.
        Some(_) => Step::Content,
        None => Step::Opening,
    }
}

fn delta_step(delta: Option<&Delta<'_>>) -> Step {
    let Some(delta) = delta else { return Step::Opening };
    if delta.text.filled() || delta.thinking.filled() || delta.partial_json.filled() {
        return Step::Content;
    }
    match delta.kind.text() {
        Some("text_delta" | "thinking_delta" | "input_json_delta" | "signature_delta") | None => {
            Step::Opening
        }
        Some(_) => Step::Progress,
    }
}
