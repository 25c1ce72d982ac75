//! Picks the adapter of an API.

use super::error::EngineError;
use super::reading::Reading;
use super::{chat, completions, messages, responses};
use crate::core::api::Api;
use crate::core::sse::Event;

/// What `event` means in a stream of `api`; `None` when it carries no data, so that a client
/// dispatches nothing. Never fails: data that is not understood gives an unread [`Reading`].
pub(super) fn read(api: Api, event: &Event<'_>) -> Option<Reading> {
    let data = event.data.as_deref()?;
    let name = event.name.and_then(|name| std::str::from_utf8(name).ok());
    if std::str::from_utf8(data).is_err() {
        // Clients decode with replacement characters; so must whoever wants to see the same.
        return Some(interpret(api, name, String::from_utf8_lossy(data).as_bytes()));
    }
    Some(interpret(api, name, data))
}

fn interpret(api: Api, name: Option<&str>, data: &[u8]) -> Reading {
    let mut reading = match api {
        Api::Completions => completions::read(data),
        Api::Chat => chat::read(data),
        Api::Responses => responses::read(name, data),
        Api::Messages => messages::read(name, data),
        Api::Plain => Reading::unread(),
    };
    if name == Some("error") && reading.error.is_none() {
        reading.error = Some(EngineError::read(data));
    }
    reading
}

/// What is known of an event that is too large to be read: its name at most.
pub(super) fn read_opaque(api: Api, name: Option<&[u8]>) -> Reading {
    let name = name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
    match api {
        Api::Responses => responses::named(name),
        Api::Messages => messages::named(name),
        Api::Completions | Api::Chat | Api::Plain if name == "error" => {
            Reading::error(EngineError::named(name))
        }
        Api::Completions | Api::Chat | Api::Plain => Reading::unread(),
    }
}
