//! What a request says about itself, read from its body once and without a copy.
//!
//! Reading is linear in the body and does not recurse. What is accepted follows vLLM's request
//! models (Pydantic in its lax mode), minus everything that two parsers could read differently:
//!
//! | body | vLLM | here |
//! |---|---|---|
//! | optional key absent or `null` | default | default |
//! | `3.0`, `1e2` for a whole number | 3, 100 | 3, 100 |
//! | `3.5`, `NaN`, `Infinity` | refused | refused |
//! | `"3"`, `"true"`, `1` for a boolean, `true` for a number | converted | refused |
//! | negative or above 2^53 − 1 | engine's own checks | refused |
//! | `n` outside 1..=16384 | refused | refused |
//! | the same interpreted key twice | the last one counts | refused |
//! | no `model` | the engine's own | refused |
//! | BOM, UTF-16, UTF-32 | decoded | refused |
//! | unpaired surrogate escape | fails later | refused |
//! | keys that are not interpreted | ignored | ignored, any type, any number of times |
//!
//! A refused body never costs a slot. What is not interpreted here (`messages` being a number,
//! say) is left to the engine's own validation.

mod bad;
mod edit;
mod fields;
mod options;
mod plain;
mod prompt;
mod read;
mod scan;
mod walk;

pub use bad::BadRequest;
pub use edit::{BodyEdit, UpstreamBody, upstream_body};
pub use prompt::PromptSize;
pub use read::read;

use super::api::Api;
use super::ids::ModelName;

/// The most sequences one prompt may ask for (`n`, `best_of`): vLLM's own default bound.
pub const MAX_SEQUENCES: u64 = 16_384;

/// Bounds on what is read. The size of the body itself is bounded by whoever collected it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects and arrays that may be open at once. Default 128, as in most JSON parsers; tool
    /// schemas seldom pass 20.
    pub depth: usize,
    /// Bytes of a model's name. Default 512.
    pub model: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 128, model: 512 }
    }
}

/// What a request says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    pub api: Api,
    /// Always there except for [`Api::Plain`].
    pub model: Option<ModelName>,
    /// The body of a [`Api::Plain`] request is there but its model cannot be told (not JSON, or
    /// `model` given twice): a tenant that may not use every model must be refused.
    pub opaque: bool,
    /// Whether the answer is a stream of events.
    pub stream: bool,
    /// Answers asked for each prompt, 1..=[`MAX_SEQUENCES`].
    pub n: u64,
    /// Sequences generated to choose these from, where the engine knows the key.
    pub best_of: Option<u64>,
    /// Output tokens a sequence may have. `None`: as many as the model's context leaves. An absent
    /// `max_tokens` of a completion is 16, the API's default.
    pub max_output_tokens: Option<u64>,
    pub prompt: PromptSize,
    /// The client set `stream_options.include_usage` to true.
    pub include_usage: bool,
    /// The client set `stream_options.continuous_usage_stats` to true.
    pub continuous_usage: bool,
    edit: Option<BodyEdit>,
    body_len: usize,
}

impl RequestFacts {
    /// Sequences that the engine generates for this request.
    pub fn sequences(&self) -> u64 {
        self.prompt.prompts.saturating_mul(self.n.max(self.best_of.unwrap_or(1)))
    }

    /// Output tokens the request may cost at most; `None`: not bounded by the request.
    pub fn max_total_output_tokens(&self) -> Option<u64> {
        self.max_output_tokens.map(|tokens| tokens.saturating_mul(self.sequences()))
    }

    /// The change that the body needs on its way upstream, if any.
    pub fn edit(&self) -> Option<&BodyEdit> {
        self.edit.as_ref()
    }
}

#[cfg(test)]
mod property_tests;
