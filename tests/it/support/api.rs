//! The four APIs that are understood: requests, and what their streams end with.

use super::request::Request;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    Completions,
    Chat,
    Responses,
    Messages,
}

impl Api {
    pub const ALL: [Self; 4] = [Self::Completions, Self::Chat, Self::Responses, Self::Messages];

    pub fn path(self) -> &'static str {
        match self {
            Self::Completions => "/v1/completions",
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
        }
    }

    /// Its name in log lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completions => "completions",
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }

    fn body(self, tokens: u32, stream: bool) -> Value {
        let turns = json!([{"role": "user", "content": "hello"}]);
        match self {
            Self::Completions => {
                json!({"model": "sim", "max_tokens": tokens, "stream": stream, "prompt": "hello"})
            }
            Self::Chat | Self::Messages => {
                json!({"model": "sim", "max_tokens": tokens, "stream": stream, "messages": turns})
            }
            Self::Responses => {
                json!({"model": "sim", "max_output_tokens": tokens, "stream": stream, "input": "hello"})
            }
        }
    }

    /// A streamed request of tenant `a`.
    pub fn stream(self, tokens: u32) -> Request {
        Request::post(self.path(), "a", self.body(tokens, true).to_string())
    }

    /// The same with further members in its body.
    pub fn stream_with(self, tokens: u32, members: Value) -> Request {
        let mut body = self.body(tokens, true);
        let Value::Object(members) = members else { panic!("members are an object") };
        body.as_object_mut().unwrap().extend(members);
        Request::post(self.path(), "a", body.to_string())
    }

    /// A plain request of tenant `a`.
    pub fn plain(self, tokens: u32) -> Request {
        Request::post(self.path(), "a", self.body(tokens, false).to_string())
    }

    /// Events that come before the first token, apart from role and the like that come with it.
    pub fn opening_events(self) -> u64 {
        match self {
            Self::Completions => 0,
            Self::Chat => 1,
            Self::Responses => 4,
            Self::Messages => 2,
        }
    }

    /// What is in every event with content, once, and in no other before the last token.
    pub fn content_mark(self) -> &'static str {
        match self {
            Self::Completions => r#""text":""#,
            Self::Chat => r#"{"content":""#,
            Self::Responses => r#""delta":""#,
            Self::Messages => "text_delta",
        }
    }

    /// Whether a terminal event is in the text.
    pub fn has_terminal(self, text: &str) -> bool {
        let marks: &[&str] = match self {
            Self::Completions | Self::Chat => &["[DONE]"],
            Self::Responses => {
                &["response.completed", "response.incomplete", "response.failed", "[DONE]"]
            }
            Self::Messages => &["message_stop", "[DONE]"],
        };
        marks.iter().any(|mark| text.contains(mark))
    }

    /// Checks that a stream ended with an error event in this API's own form and without a
    /// terminal event; the event's data.
    pub fn error_event(self, text: &str) -> Value {
        assert!(!self.has_terminal(text), "{self:?} has its terminal event:\n{text}");
        assert_eq!(text.matches("event: error\n").count(), 1, "{self:?}, one error event:\n{text}");
        let (before, event) = text.rsplit_once("event: error\ndata: ").unwrap();
        assert!(before.is_empty() || before.ends_with("\n\n"), "{self:?}, cut event:\n{text}");
        let data = event.strip_suffix("\n\n").unwrap_or_else(|| panic!("{self:?}:\n{text}"));
        let data: Value = serde_json::from_str(data).unwrap();
        let words = |value: &Value, keys: &[&str]| {
            keys.iter().all(|key| value[key].as_str().is_some_and(|word| !word.is_empty()))
        };
        let fits = match self {
            Self::Completions | Self::Chat => words(&data["error"], &["message", "type", "code"]),
            Self::Messages => {
                data["type"] == "error" && words(&data["error"], &["type", "message"])
            }
            Self::Responses => {
                let numbers = before.matches("\"sequence_number\":").count();
                assert_eq!(data["sequence_number"], numbers, "the next number: {text}");
                data["type"] == "error"
                    && words(&data, &["message", "code"])
                    && words(&data["error"], &["message", "code"])
            }
        };
        assert!(fits, "{self:?}: {data}");
        data
    }

    /// The `code` of an error event, where the API has one.
    pub fn error_code(self, data: &Value) -> Option<&str> {
        match self {
            Self::Messages => None,
            Self::Responses => data["code"].as_str(),
            _ => data["error"]["code"].as_str(),
        }
    }
}
