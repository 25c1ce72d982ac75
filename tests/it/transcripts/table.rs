//! What the captures are: the request of each, and how each API writes its events.

use serde_json::Value;
use streamgate_loadtests::replay::CapturedRequest;

/// The APIs whose streams are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    Completions,
    Chat,
    Responses,
    Messages,
}

impl Api {
    pub fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/completions" => Self::Completions,
            "/v1/chat/completions" => Self::Chat,
            "/v1/responses" => Self::Responses,
            "/v1/messages" => Self::Messages,
            _ => return None,
        })
    }

    /// Whether the event brings text.
    pub fn has_content(self, json: &Value) -> bool {
        let filled = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        let of_choices = |pointer: &str| {
            let choices = json["choices"].as_array().into_iter().flatten();
            choices.filter_map(|choice| choice.pointer(pointer)).any(filled)
        };
        match self {
            Self::Completions => of_choices("/text"),
            Self::Chat => of_choices("/delta/content"),
            Self::Responses => {
                json["type"].as_str().is_some_and(|kind| kind.ends_with(".delta"))
                    && filled(&json["delta"])
            }
            Self::Messages => {
                json["type"] == "content_block_delta" && filled(&json["delta"]["text"])
            }
        }
    }

    /// Prompt and completion tokens, if the event reports them.
    pub fn usage(self, json: &Value) -> Option<(u64, u64)> {
        let (usage, prompt, completion) = match self {
            Self::Completions | Self::Chat => {
                (&json["usage"], "prompt_tokens", "completion_tokens")
            }
            Self::Responses => (&json["response"]["usage"], "input_tokens", "output_tokens"),
            Self::Messages => {
                let nested = &json["message"]["usage"];
                let usage = if nested.is_object() { nested } else { &json["usage"] };
                (usage, "input_tokens", "output_tokens")
            }
        };
        Some((usage[prompt].as_u64()?, usage[completion].as_u64()?))
    }

    /// The terminal event, where it is not `[DONE]`.
    pub fn is_terminal(self, json: &Value) -> bool {
        match self {
            Self::Completions | Self::Chat => false,
            Self::Responses => json["type"] == "response.completed",
            Self::Messages => json["type"] == "message_stop",
        }
    }
}

/// Method, path and body of a capture.
pub fn request(name: &str, captured: Option<&CapturedRequest>) -> (String, String, String) {
    let own = |method: &str, path: &str, body: &str| {
        (method.to_owned(), path.to_owned(), body.to_owned())
    };
    let stream = |path: &str| own("POST", path, r#"{"model":"tiny","stream":true}"#);
    match name {
        // The captured body never passes the gate; what the engine said of it must.
        "err_bad_json" => own("POST", "/v1/chat/completions", r#"{"model":"tiny"}"#),
        "abort_midstream_completions_sigterm_default"
        | "completions_stream_sse_keep_alive_queued"
        | "cut_midstream_completions_timeout_expired" => stream("/v1/completions"),
        "cut_midstream_responses_stream" => stream("/v1/responses"),
        "error_midstream_chat_stream_engine_dead" | "err_500_post_stream_during_drain" => {
            stream("/v1/chat/completions")
        }
        "error_midstream_messages_stream_engine_dead" => stream("/v1/messages"),
        "err_500_post_during_drain"
        | "err_503_max_num_queued_reqs"
        | "error_500_chat_nonstream_engine_dead" => {
            own("POST", "/v1/chat/completions", r#"{"model":"tiny"}"#)
        }
        "health_head" => own("HEAD", "/health", ""),
        "options" => own("OPTIONS", "/v1/chat/completions", ""),
        "method_not_allowed" => own("GET", "/v1/chat/completions", ""),
        "models" => own("GET", "/v1/models", ""),
        _ => match captured {
            Some(captured) => own(&captured.method, &captured.path, &captured.body),
            None => own("GET", &format!("/{name}"), ""),
        },
    }
}

/// The reason by which the gate itself answers instead of passing this error on: another engine
/// would have been asked.
pub fn answered_instead(name: &str) -> Option<&'static str> {
    match name {
        "err_500_post_during_drain" | "err_500_post_stream_during_drain" => Some("no_endpoint"),
        "err_503_max_num_queued_reqs" => Some("pool_saturated"),
        _ => None,
    }
}
