//! What the events of an answer mean: content, terminal event, usage, error, abort.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::sse::{Event, SseReader, TooLong};

/// Tokens as the engine counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt: u32,
    /// Output tokens.
    pub completion: u32,
    /// Prompt tokens found in the engine's cache, where it tells.
    pub cached: Option<u32>,
}

/// What was seen of a stream so far.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    reader: SseReader,
    seen: Seen,
}

/// Facts of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Events with content (text, reasoning, or a tool call).
    pub(super) content: u64,
    /// `data: [DONE]` was read.
    pub(super) terminal: bool,
    pub(super) usage: Option<Usage>,
    pub(super) finish: Option<String>,
    /// Code of an error event, if one came.
    pub(super) error: Option<String>,
    /// An event that is neither `[DONE]` nor JSON.
    pub(super) garbage: bool,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default, borrow)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Option<RawUsage>,
    #[serde(default)]
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default, borrow)]
    delta: Option<Delta<'a>>,
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(default, borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    reasoning: Option<Cow<'a, str>>,
    #[serde(default)]
    tool_calls: Option<Vec<IgnoredAny>>,
}

#[derive(Deserialize)]
struct RawUsage {
    #[serde(default)]
    prompt_tokens: u32,
    #[serde(default)]
    completion_tokens: u32,
    #[serde(default)]
    prompt_tokens_details: Option<RawDetails>,
}

#[derive(Deserialize)]
struct RawDetails {
    #[serde(default)]
    cached_tokens: Option<u32>,
}

impl StreamState {
    /// Reads a piece of the body; `true` if it brought content.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<bool, TooLong> {
        let before = self.seen.content;
        let seen = &mut self.seen;
        self.reader.feed(bytes, &mut |event| seen.event(event))?;
        Ok(self.seen.content > before)
    }

    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }
}

impl Seen {
    fn event(&mut self, event: Event<'_>) {
        if event.data == b"[DONE]" {
            self.terminal = true;
            return;
        }
        let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(event.data) else {
            self.garbage = true;
            return;
        };
        if chunk.error.is_some() || event.name == "error" {
            self.error.get_or_insert(error_code(chunk.error.as_ref()));
            return;
        }
        if chunk.choices.iter().any(Choice::has_content) {
            self.content += 1;
        }
        for reason in chunk.choices.into_iter().filter_map(|c| c.finish_reason) {
            self.finish = Some(reason.into_owned());
        }
        if let Some(usage) = chunk.usage {
            self.usage = Some(usage.into());
        }
    }
}

impl Choice<'_> {
    fn has_content(&self) -> bool {
        let full = |text: &Option<Cow<'_, str>>| text.as_ref().is_some_and(|t| !t.is_empty());
        full(&self.text)
            || self.delta.as_ref().is_some_and(|d| {
                full(&d.content)
                    || full(&d.reasoning_content)
                    || full(&d.reasoning)
                    || d.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
            })
    }
}

impl From<RawUsage> for Usage {
    fn from(raw: RawUsage) -> Self {
        Self {
            prompt: raw.prompt_tokens,
            completion: raw.completion_tokens,
            cached: raw.prompt_tokens_details.and_then(|d| d.cached_tokens),
        }
    }
}

/// The code (or type) of an error object, shortened to a label.
pub(super) fn error_code(error: Option<&serde_json::Value>) -> String {
    let field = |name: &str| match error?.get(name)? {
        serde_json::Value::String(s) if !s.is_empty() => Some(s.clone()),
        serde_json::Value::Number(n) => Some(n.to_string()),
        _ => None,
    };
    let mut code = field("code").or_else(|| field("type")).unwrap_or_else(|| "error".into());
    if code.len() > 64 {
        code = code.chars().take(64).collect();
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Seen {
        let mut state = StreamState::default();
        state.feed(text.as_bytes()).unwrap();
        state.seen().clone()
    }

    #[test]
    fn a_chat_stream_is_understood() {
        let seen = seen(concat!(
            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\\n\"}}],\"usage\":null}\n\n",
            ": keep-alive\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"length\"}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,",
            "\"prompt_tokens_details\":{\"cached_tokens\":3}}}\n\n",
            "data: [DONE]\n\n"
        ));
        assert_eq!((seen.content, seen.terminal, seen.garbage), (2, true, false));
        assert_eq!(seen.finish.as_deref(), Some("length"));
        assert_eq!(seen.usage, Some(Usage { prompt: 5, completion: 2, cached: Some(3) }));
        assert_eq!(seen.error, None);
    }

    #[test]
    fn completions_reasoning_and_tools_are_content() {
        for choice in [
            r#"{"text":"x"}"#,
            r#"{"delta":{"reasoning_content":"x"}}"#,
            r#"{"delta":{"tool_calls":[{"index":0}]}}"#,
        ] {
            assert_eq!(seen(&format!("data: {{\"choices\":[{choice}]}}\n\n")).content, 1);
        }
        assert_eq!(seen("data: {\"choices\":[{\"delta\":{\"tool_calls\":[]}}]}\n\n").content, 0);
    }

    #[test]
    fn errors_and_garbage_are_told_apart() {
        let error = seen("event: error\ndata: {\"error\":{\"code\":\"drain_cut\"}}\n\n").error;
        assert_eq!(error.as_deref(), Some("drain_cut"));
        let error = seen("data: {\"error\":{\"code\":500,\"type\":\"x\"}}\n\n").error;
        assert_eq!(error.as_deref(), Some("500"));
        assert!(seen("data: {\"choices\"\n\n").garbage);
    }
}
