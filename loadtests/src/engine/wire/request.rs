//! Request bodies of all four APIs.

use serde::Deserialize;
use serde_json::Value;

use super::errors::ApiError;
use super::{Api, text};
use crate::engine::tokens::{CHAT_MESSAGE_TOKENS, Prompt, PromptBuilder};

/// vLLM's default bound of a completion.
const COMPLETION_TOKENS: u32 = 16;
const MAX_CHOICES: i64 = 128;

/// A generation request, checked.
#[derive(Debug, Clone)]
pub(crate) struct Generation {
    pub(crate) api: Api,
    pub(crate) prompts: Vec<Prompt>,
    /// Choices for each prompt.
    pub(crate) n: u32,
    /// Output tokens of each choice.
    pub(crate) max_tokens: u32,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) continuous_usage: bool,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) instructions: Option<String>,
    pub(crate) metadata: Option<Value>,
    pub(crate) user: Option<String>,
}

impl Generation {
    /// Choices in all.
    pub(crate) fn choices(&self) -> u32 {
        self.n * u32::try_from(self.prompts.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn prompt_tokens(&self) -> u64 {
        self.prompts.iter().map(|p| p.tokens as u64).sum()
    }

    /// Appends the `index`-th word of a choice.
    pub(crate) fn push_word(&self, out: &mut String, choice: u32, index: u32) {
        let prompt = self.prompts.get((choice / self.n.max(1)) as usize);
        text::push_word(out, prompt.map_or(0, |p| p.hash), choice % self.n.max(1), index);
    }
}

/// What checking needs to know of the engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParseContext<'a> {
    pub(crate) model: &'a str,
    pub(crate) max_model_len: usize,
    pub(crate) default_max_tokens: u32,
    pub(crate) block: usize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body {
    model: Option<String>,
    prompt: Option<Value>,
    messages: Option<Vec<Value>>,
    input: Option<Value>,
    system: Option<Value>,
    tools: Option<Value>,
    instructions: Option<String>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    max_output_tokens: Option<i64>,
    n: Option<i64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    user: Option<String>,
    metadata: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: Option<bool>,
    continuous_usage_stats: Option<bool>,
}

/// A body as JSON. Of a key given twice the last counts, as in Python.
pub(crate) fn read(body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|e| malformed(&e))
}

/// The tenant a body names: `user`, else `metadata.tenant`, `metadata.user_id`, or `metadata`
/// itself if it is a text.
pub(crate) fn tenant_of(body: &Value) -> Option<&str> {
    let metadata = body.get("metadata");
    let named = metadata.and_then(|m| m.get("tenant").or_else(|| m.get("user_id")));
    [body.get("user"), named, metadata].into_iter().flatten().find_map(Value::as_str)
}

/// Checks a body.
pub(crate) fn parse(
    api: Api,
    body: Value,
    context: ParseContext<'_>,
) -> Result<Generation, ApiError> {
    let body: Body = serde_json::from_value(body).map_err(|e| malformed(&e))?;
    if let Some(asked) = body.model.as_deref().filter(|m| *m != context.model) {
        return Err(ApiError::unknown_model(asked, context.model));
    }
    if let Some(t) = body.temperature.filter(|t| *t < 0.0) {
        let message = format!(
            "temperature must be non-negative, got {t:?}. (parameter=temperature, value={t:?})"
        );
        return Err(ApiError::field("temperature", message));
    }
    let n = bounded("n", body.n.unwrap_or(1), MAX_CHOICES)?;
    let prompts = prompts(api, &body, context)?;
    let max_tokens = max_tokens(api, &body, context)?;
    for prompt in &prompts {
        check_length(prompt.tokens, max_tokens, context.max_model_len)?;
    }
    let options = body.stream_options.unwrap_or_default();
    Ok(Generation {
        api,
        prompts,
        n,
        max_tokens,
        stream: body.stream.unwrap_or(false) && api != Api::Embeddings,
        include_usage: options.include_usage.unwrap_or(false),
        continuous_usage: options.continuous_usage_stats.unwrap_or(false),
        temperature: body.temperature,
        top_p: body.top_p,
        instructions: body.instructions,
        metadata: body.metadata,
        user: body.user,
    })
}

fn malformed(error: &serde_json::Error) -> ApiError {
    if error.is_data() {
        let msg = error.to_string().replace('\'', "\"");
        return ApiError::validation("value_error", "body", &msg, "'input': '<dict>'");
    }
    let loc = format!("body.{}", error.column().saturating_sub(1));
    let rest = "'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}";
    ApiError::validation("json_invalid", &loc, "JSON decode error", rest)
}

fn bounded(name: &str, value: i64, most: i64) -> Result<u32, ApiError> {
    match u32::try_from(value) {
        Ok(v) if v >= 1 && value <= most => Ok(v),
        _ => Err(ApiError::field(
            name,
            format!("{name} must be at least 1, got {value}. (parameter={name}, value={value})"),
        )),
    }
}

fn max_tokens(api: Api, body: &Body, context: ParseContext<'_>) -> Result<u32, ApiError> {
    let (name, asked, default) = match api {
        Api::Completions => ("max_tokens", body.max_tokens, COMPLETION_TOKENS),
        Api::Chat => (
            "max_tokens",
            body.max_completion_tokens.or(body.max_tokens),
            context.default_max_tokens,
        ),
        Api::Responses => ("max_output_tokens", body.max_output_tokens, context.default_max_tokens),
        Api::Messages => ("max_tokens", body.max_tokens, context.default_max_tokens),
        Api::Embeddings => return Ok(1),
    };
    asked.map_or(Ok(default), |value| bounded(name, value, i64::from(u32::MAX)))
}

fn check_length(prompt: usize, output: u32, limit: usize) -> Result<(), ApiError> {
    if prompt >= limit {
        let at_least = limit + 1;
        return Err(ApiError::field(
            "input_tokens",
            format!(
                "This model's maximum context length is {limit} tokens. However, your prompt \
                 contains at least {at_least} input tokens, which exceeds this limit even without \
                 any output tokens. Please reduce the length of the input prompt. \
                 (parameter=input_tokens, value={at_least})"
            ),
        ));
    }
    if prompt + output as usize > limit {
        return Err(ApiError::field(
            "max_tokens",
            format!(
                "'max_tokens' or 'max_completion_tokens' is too large: {output}. This model's \
                 maximum context length is {limit} tokens and your request has {prompt} input \
                 tokens ({output} > {limit} - {prompt}). (parameter=max_tokens, value={output})"
            ),
        ));
    }
    Ok(())
}

fn missing(field: &str) -> ApiError {
    let loc = format!("body.{field}");
    ApiError::validation("missing", &loc, "Field required", "'input': '<dict of 1 items>'")
}

fn prompts(api: Api, body: &Body, context: ParseContext<'_>) -> Result<Vec<Prompt>, ApiError> {
    let builder = || PromptBuilder::new(context.block, context.max_model_len);
    let field = match api {
        Api::Completions => "prompt",
        Api::Chat | Api::Messages => "messages",
        Api::Responses | Api::Embeddings => "input",
    };
    let given = match api {
        Api::Completions => body.prompt.as_ref().map(|p| plain_prompts(p, &builder)),
        Api::Embeddings => body.input.as_ref().map(|p| plain_prompts(p, &builder)),
        Api::Chat | Api::Messages => {
            body.messages.as_ref().map(|m| vec![chat_prompt(body, m, builder())])
        }
        Api::Responses => body.input.as_ref().map(|input| {
            let one = [serde_json::json!({"role": "user", "content": input})];
            let items = input.as_array().map_or(one.as_slice(), Vec::as_slice);
            vec![chat_prompt(body, items, builder())]
        }),
    };
    let prompts = given.ok_or_else(|| missing(field))?;
    if prompts.is_empty() || prompts.iter().any(|p| p.tokens == 0) {
        return Err(ApiError::field(
            field,
            format!("{field} must not be empty. (parameter={field})"),
        ));
    }
    Ok(prompts)
}

/// A text, token numbers, or an array of either.
fn plain_prompts(prompt: &Value, builder: &impl Fn() -> PromptBuilder) -> Vec<Prompt> {
    let single = |value: &Value| {
        let mut one = builder();
        add_text(&mut one, value);
        one.finish()
    };
    match prompt {
        Value::Array(items) if items.first().is_some_and(|i| !i.is_number()) => {
            items.iter().map(single).collect()
        }
        other => vec![single(other)],
    }
}

fn chat_prompt(body: &Body, messages: &[Value], mut builder: PromptBuilder) -> Prompt {
    for part in [&body.tools, &body.system].into_iter().flatten() {
        builder.template("system", CHAT_MESSAGE_TOKENS);
        add_text(&mut builder, part);
    }
    if let Some(instructions) = &body.instructions {
        builder.template("system", CHAT_MESSAGE_TOKENS);
        builder.text(instructions);
    }
    for message in messages {
        let role = message.get("role").and_then(Value::as_str).unwrap_or("user");
        builder.template(role, CHAT_MESSAGE_TOKENS);
        add_text(&mut builder, message.get("content").unwrap_or(message));
    }
    builder.template("assistant", CHAT_MESSAGE_TOKENS);
    builder.finish()
}

fn add_text(builder: &mut PromptBuilder, value: &Value) {
    match value {
        Value::String(text) => builder.text(text),
        Value::Number(id) => builder.token_id(id.as_u64().unwrap_or_default()),
        Value::Array(items) => items.iter().for_each(|item| add_text(builder, item)),
        Value::Object(fields) => match fields.get("text") {
            Some(text) => add_text(builder, text),
            None => builder.text(&value.to_string()),
        },
        Value::Null | Value::Bool(_) => {}
    }
}
