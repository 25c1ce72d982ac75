//! vLLM's metrics: what a router or a load test reads of an engine, under vLLM's names.

mod expose;
mod histogram;

pub(crate) use expose::expose;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use super::clock::Virtual;
use super::wire::Finish;
use crate::sync::lock;
use histogram::{Histogram, LATENCY, PER_TOKEN, STEP_TOKENS, TOKENS, TTFT};

/// Counters and histograms of one start of an engine.
pub(crate) struct Metrics {
    inner: Mutex<Inner>,
    /// Seconds since the epoch.
    created: f64,
}

struct Inner {
    prompt_tokens: u64,
    cached_tokens: u64,
    generation_tokens: u64,
    success: BTreeMap<&'static str, u64>,
    queue_rejections: u64,
    http: BTreeMap<(String, String, &'static str), u64>,
    request_prompt_tokens: Histogram,
    request_generation_tokens: Histogram,
    iteration_tokens: Histogram,
    params_max_tokens: Histogram,
    params_n: Histogram,
    ttft: Histogram,
    inter_token: Histogram,
    per_token: Histogram,
    e2e: Histogram,
    queue: Histogram,
}

/// One generation, measured.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) prompt_tokens: u64,
    pub(crate) max_tokens: u32,
    pub(crate) n: u32,
    pub(crate) choices: u32,
    pub(crate) arrived: Virtual,
    pub(crate) first: Option<Virtual>,
    pub(crate) last: Virtual,
    pub(crate) tokens: u64,
    /// Between tokens of the request, in nanoseconds.
    pub(crate) gaps: Vec<u64>,
}

impl Measured {
    /// Takes note of a token.
    pub(crate) fn token(&mut self, at: Virtual) {
        if self.first.is_none() {
            self.first = Some(at);
        } else {
            self.gaps.push(at.saturating_sub(self.last));
        }
        self.last = at;
        self.tokens += 1;
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
        Self { inner: Mutex::new(Inner::new()), created }
    }

    /// Seconds since the epoch at the start.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds since the epoch are positive and far below 2^53"
    )]
    pub(crate) fn created_seconds(&self) -> u64 {
        self.created as u64
    }

    /// A request was answered.
    pub(crate) fn http(&self, handler: &str, method: &str, status: u16) {
        let class = match status {
            200..=299 => "2xx",
            400..=499 => "4xx",
            _ => "5xx",
        };
        let key = (handler.to_owned(), method.to_owned(), class);
        *lock(&self.inner).http.entry(key).or_default() += 1;
    }

    pub(crate) fn queue_rejection(&self) {
        lock(&self.inner).queue_rejections += 1;
    }

    /// A step of the scheduler: its tokens, and the waits of the sequences it admitted.
    pub(crate) fn step(&self, tokens: usize, waits: &[Virtual], cached_tokens: u64) {
        let mut inner = lock(&self.inner);
        inner.iteration_tokens.observe(tokens as f64);
        inner.cached_tokens += cached_tokens;
        for wait in waits {
            inner.queue.observe(seconds(*wait));
        }
    }

    /// A generation ended.
    pub(crate) fn generation(&self, m: &Measured, finish: Finish) {
        let mut guard = lock(&self.inner);
        let inner = &mut *guard;
        inner.prompt_tokens += m.prompt_tokens;
        inner.generation_tokens += m.tokens;
        let reason = match finish {
            Finish::Length => "length",
            Finish::Stop => "stop",
            Finish::Abort => "abort",
        };
        *inner.success.entry(reason).or_default() += u64::from(m.choices);
        inner.request_prompt_tokens.observe(m.prompt_tokens as f64);
        inner.request_generation_tokens.observe(m.tokens as f64);
        inner.params_max_tokens.observe(f64::from(m.max_tokens));
        inner.params_n.observe(f64::from(m.n));
        if let Some(first) = m.first {
            inner.ttft.observe(seconds(first.saturating_sub(m.arrived)));
            inner.e2e.observe(seconds(m.last.saturating_sub(m.arrived)));
            let gaps = u32::try_from(m.gaps.len()).unwrap_or(u32::MAX);
            if gaps > 0 {
                inner.per_token.observe(seconds(m.last.saturating_sub(first)) / f64::from(gaps));
            }
            m.gaps.iter().for_each(|gap| inner.inter_token.observe(seconds(*gap)));
        }
    }
}

impl Inner {
    fn new() -> Self {
        Self {
            prompt_tokens: 0,
            cached_tokens: 0,
            generation_tokens: 0,
            success: ["stop", "length", "abort", "error", "repetition"].map(|r| (r, 0)).into(),
            queue_rejections: 0,
            http: BTreeMap::new(),
            request_prompt_tokens: Histogram::new(TOKENS),
            request_generation_tokens: Histogram::new(TOKENS),
            iteration_tokens: Histogram::new(STEP_TOKENS),
            params_max_tokens: Histogram::new(TOKENS),
            params_n: Histogram::new(&TOKENS[..5]),
            ttft: Histogram::new(TTFT),
            inter_token: Histogram::new(PER_TOKEN),
            per_token: Histogram::new(PER_TOKEN),
            e2e: Histogram::new(LATENCY),
            queue: Histogram::new(LATENCY),
        }
    }
}

fn seconds(length: Virtual) -> f64 {
    length as f64 / 1e9
}
