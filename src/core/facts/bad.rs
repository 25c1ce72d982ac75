//! A body that cannot be read, told so that its author can mend it.

use std::fmt;

/// Client data repeated in a message is cut to this many bytes.
const ECHO_BYTES: usize = 64;

/// Why a body was refused. Answered with status 400 before a slot is taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadRequest {
    /// What is wrong and how to mend it; at most 64 sanitised bytes of it are the client's.
    pub message: String,
    /// The key at fault, if it is one key.
    pub param: Option<&'static str>,
}

impl BadRequest {
    pub(super) fn body(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), param: None }
    }

    pub(super) fn key(param: &'static str, message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), param: Some(param) }
    }
}

/// At most 64 bytes of client data, fit for a message: control characters and what could change
/// the direction or the look of a terminal line become `?`.
pub(super) fn echo(text: &str) -> String {
    let mut shown = String::with_capacity(ECHO_BYTES);
    for c in text.chars() {
        let c = if c.is_ascii_graphic() || c == ' ' || (c.is_alphanumeric()) { c } else { '?' };
        if shown.len() + c.len_utf8() > ECHO_BYTES {
            break;
        }
        shown.push(c);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echo_is_short_and_harmless() {
        assert_eq!(echo("plain text"), "plain text");
        assert_eq!(echo("a\u{1b}[31m\nb\u{202e}"), "a?[31m?b?");
        assert_eq!(echo(&"x".repeat(500)).len(), 64);
        let wide = echo(&"語".repeat(500));
        assert_eq!((wide.len(), wide.chars().count()), (63, 21));
    }
}
