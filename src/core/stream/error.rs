//! An error that the engine wrote into its stream or body.

use serde_json::Value;

/// Longest text kept of each part, in bytes.
const MAX_TEXT: usize = 1024;

/// What the engine said went wrong. For logs and for choosing an honest status; its text is the
/// engine's and is not for clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineError {
    /// The HTTP status the error names (vLLM writes it as a number in `code`).
    pub status: Option<u16>,
    /// `code` where it is a word.
    pub code: Option<Box<str>>,
    /// `type`, such as `InternalServerError` or `overloaded_error`.
    pub kind: Option<Box<str>>,
    pub message: Option<Box<str>>,
    /// It came before any content, finish reason or other progress.
    pub before_content: bool,
}

impl EngineError {
    /// Read an error from its JSON: an object with `message`, `type` and `code`, a bare string, or
    /// an object that wraps one of these as `error`. Text that is no JSON is the message.
    pub(super) fn read(json: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(json) {
            Ok(value) => Self::from_value(&value),
            Err(_) => Self { message: text(&String::from_utf8_lossy(json)), ..Self::default() },
        }
    }

    /// An error known only by its name.
    pub(super) fn named(kind: &str) -> Self {
        Self { kind: text(kind), ..Self::default() }
    }

    fn from_value(value: &Value) -> Self {
        if let Some(inner @ (Value::Object(_) | Value::String(_))) = value.get("error") {
            return Self::from_value(inner);
        }
        let field = |name: &str| value.get(name).and_then(Value::as_str).and_then(text);
        let code = value.get("code");
        let status = code.and_then(|code| match code {
            Value::Number(number) => number.as_u64(),
            Value::String(digits) => digits.parse().ok(),
            _ => None,
        });
        let status = status.and_then(|status| u16::try_from(status).ok());
        let status = status.filter(|status| (400..600).contains(status));
        Self {
            status,
            code: if status.is_none() { field("code") } else { None },
            kind: field("type").filter(|kind| &**kind != "error"),
            message: field("message").or_else(|| value.as_str().and_then(text)),
            before_content: false,
        }
    }
}

/// A bounded copy; `None` when empty.
fn text(text: &str) -> Option<Box<str>> {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if end == 0 { None } else { Some(Box::from(&text[..end])) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(text: &str) -> Option<Box<str>> {
        Some(Box::from(text))
    }

    #[test]
    fn each_shape_of_error_is_read() {
        let vllm = EngineError::read(
            br#"{"error": {"message": "gone", "type": "InternalServerError", "param": null, "code": 500}}"#,
        );
        assert_eq!(vllm.status, Some(500));
        assert_eq!(
            (vllm.kind, vllm.message, vllm.code),
            (some("InternalServerError"), some("gone"), None)
        );

        let anthropic = EngineError::read(
            br#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        );
        assert_eq!((anthropic.kind, anthropic.status), (some("overloaded_error"), None));

        let responses = EngineError::read(
            br#"{"type":"error","code":"server_error","message":"x","param":null}"#,
        );
        assert_eq!((responses.code, responses.kind), (some("server_error"), None));

        assert_eq!(EngineError::read(br#"{"error":"plain"}"#).message, some("plain"));
        assert_eq!(EngineError::read(b"not json \xff").message, some("not json \u{fffd}"));
        assert_eq!(EngineError::read(br#"{"code":"503"}"#).status, Some(503));
        assert_eq!(EngineError::read(br#"{"code":1}"#).status, None);
        assert_eq!(EngineError::read(br#"{"error":null,"message":"m"}"#).message, some("m"));
        assert_eq!(EngineError::read(b""), EngineError::default());
    }

    #[test]
    fn the_text_is_bounded_at_a_character() {
        let long = "é".repeat(MAX_TEXT);
        let error = EngineError::read(long.as_bytes());
        assert_eq!(error.message.unwrap().len(), MAX_TEXT);
        assert_eq!(text(&format!("a{long}")).unwrap().len(), MAX_TEXT - 1);
    }
}
