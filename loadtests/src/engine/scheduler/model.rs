//! What a scheduler is told, and what it tells.

use crate::engine::clock::Virtual;

/// The constants of a replica.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepModel {
    /// Seconds of every step.
    pub base: f64,
    /// Seconds for each 1,000 tokens of context of the decoding sequences.
    pub context: f64,
    /// Seconds more for a step with prompt work.
    pub prefill_base: f64,
    /// Prompt tokens a second.
    pub prefill_rate: f64,
    /// Seconds between the arrival of a request and its place in the wait list.
    pub before_engine: f64,
    /// Sequences that run at once.
    pub max_running: usize,
    /// Tokens a step.
    pub step_tokens: usize,
    /// Tokens a cache block.
    pub block: usize,
    /// Blocks the prefix cache holds. Not fitted: no published run comes near a bound.
    pub cache_blocks: usize,
}

impl Default for StepModel {
    fn default() -> Self {
        Self {
            base: 0.0522,
            context: 0.000_06,
            prefill_base: 0.004,
            prefill_rate: 3400.0,
            before_engine: 0.125,
            max_running: 8,
            step_tokens: 8192,
            block: 1568,
            cache_blocks: 96,
        }
    }
}

/// A sequence to generate.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Unique in this scheduler.
    pub id: u64,
    /// When it may be scheduled. Submissions come in this order.
    pub ready_at: Virtual,
    /// Prompt tokens, at least 1.
    pub prompt_tokens: usize,
    /// Output tokens, at least 1.
    pub output_tokens: u32,
    /// Hash chain of the prompt's whole blocks.
    pub blocks: Vec<u64>,
}

/// One token of one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Whose token.
    pub id: u64,
    /// The end of its generation.
    pub last: bool,
}

/// A step that has begun.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Begun {
    /// How long it lasts, in nanoseconds.
    pub length: u64,
    /// Tokens it computes.
    pub tokens: usize,
    /// How long each sequence it admitted had been ready, in nanoseconds.
    pub waits: Vec<Virtual>,
    /// Prompt tokens of those sequences found in the prefix cache.
    pub cached_tokens: u64,
}

/// Totals since the start or the last reset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Steps finished.
    pub steps: u64,
    /// Prompt tokens looked up in the prefix cache.
    pub cache_queries: u64,
    /// Prompt tokens found there.
    pub cache_hits: u64,
    /// Most sequences that were ready and not running at the start of a step of a busy replica.
    pub waiting_peak: usize,
}
