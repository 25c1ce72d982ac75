//! What identifies an answer.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Api;

/// Identity of one answer. Texts are JSON strings, quotes included.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) fingerprint: String,
    /// Seconds since the epoch.
    pub(crate) created: u64,
}

impl Identity {
    /// A new identity; `request_id` is the client's `x-request-id`.
    pub(crate) fn new(api: Api, model: &str, request_id: Option<&str>) -> Self {
        let prefix = match api {
            Api::Completions => "cmpl",
            Api::Chat | Api::Messages => "chatcmpl",
            Api::Responses => "resp",
            Api::Embeddings => "embd",
        };
        let id = match (api, request_id) {
            (Api::Responses, _) => format!("{prefix}_{}", hex_id()),
            (_, Some(asked)) => format!("{prefix}-{asked}"),
            (_, None) => format!("{prefix}-{}", hex_id()),
        };
        Self {
            id: json_string(&id),
            model: json_string(model),
            fingerprint: json_string(&fingerprint(model)),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        }
    }
}

/// The engine's `system_fingerprint`.
fn fingerprint(model: &str) -> String {
    format!("vllm-0.32.0-{:08x}", super::super::tokens::body_hash(model.as_bytes()) >> 32)
}

/// 16 random hexadecimal digits.
pub(crate) fn hex_id() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// A text as a JSON string.
pub(super) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
