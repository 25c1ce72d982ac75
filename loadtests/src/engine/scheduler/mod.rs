//! A replica's step scheduler, pure: time is an argument, nothing is read or written.
//!
//! One step decodes one token for each running sequence whose prompt is processed, and spends
//! what is left of the token budget on prompts, first those begun, then new ones in order of
//! arrival. It lasts
//!
//! ```text
//! base + context × Σ tokens of the decoding sequences / 1000
//!      + (with prompt work: prefill base + prompt tokens / prefill rate)
//! ```
//!
//! The constants of [`StepModel::default`] were fitted to published measurements of
//! Qwen3.8-27B-FP8 on one L20.

mod model;

pub use model::{Begun, StepModel, Submission, Token, Totals};

use std::collections::VecDeque;

use super::cache::PrefixCache;
use super::clock::{Virtual, to_nanos};

#[derive(Debug)]
struct Sequence {
    submission: Submission,
    /// Prompt tokens not yet processed.
    left: usize,
    generated: u32,
}

#[derive(Debug, Default)]
struct Step {
    decodes: Vec<u64>,
    prefills: Vec<(u64, usize)>,
}

/// The scheduler of one replica.
#[derive(Debug)]
pub struct Scheduler {
    model: StepModel,
    waiting: VecDeque<Submission>,
    running: Vec<Sequence>,
    step: Option<Step>,
    cache: PrefixCache,
    totals: Totals,
}

impl Scheduler {
    /// An idle replica with an empty cache.
    #[must_use]
    pub fn new(model: StepModel) -> Self {
        Self {
            model,
            waiting: VecDeque::new(),
            running: Vec::new(),
            step: None,
            cache: PrefixCache::new(model.cache_blocks),
            totals: Totals::default(),
        }
    }

    /// Adds a sequence to the end of the wait list.
    pub fn submit(&mut self, submission: Submission) {
        self.waiting.push_back(submission);
    }

    /// Begins a step at `now`; `None` if there is nothing to do, or if one is under way.
    pub fn begin_step(&mut self, now: Virtual) -> Option<Begun> {
        if self.step.is_some() {
            return None;
        }
        if !self.running.is_empty() {
            self.totals.waiting_peak = self.totals.waiting_peak.max(self.waiting_at(now));
        }
        let decoding = self.running.iter().filter(|s| s.left == 0);
        let decodes: Vec<u64> = decoding.clone().map(|s| s.submission.id).collect();
        let context: usize = decoding.map(Sequence::context).sum();
        let mut begun = Begun::default();
        let prefills = self.assign_prompts(now, decodes.len(), &mut begun);
        if decodes.is_empty() && prefills.is_empty() {
            return None;
        }
        let mut seconds = self.model.base + self.model.context * context as f64 / 1000.0;
        let tokens: usize = prefills.iter().map(|(_, n)| n).sum();
        if !prefills.is_empty() {
            seconds += self.model.prefill_base + tokens as f64 / self.model.prefill_rate;
        }
        begun.length = to_nanos(seconds);
        begun.tokens = tokens + decodes.len();
        self.step = Some(Step { decodes, prefills });
        Some(begun)
    }

    fn assign_prompts(
        &mut self,
        now: Virtual,
        decodes: usize,
        begun: &mut Begun,
    ) -> Vec<(u64, usize)> {
        let mut budget = self.model.step_tokens.saturating_sub(decodes);
        let mut assigned = Vec::new();
        for sequence in self.running.iter().filter(|s| s.left > 0) {
            take(&mut budget, sequence, &mut assigned);
        }
        while budget > 0 && self.running.len() < self.model.max_running {
            if self.waiting_at(now) == 0 {
                break;
            }
            let Some(next) = self.waiting.pop_front() else { break };
            begun.waits.push(now - next.ready_at);
            let sequence = self.admit(next);
            begun.cached_tokens += (sequence.submission.prompt_tokens - sequence.left) as u64;
            take(&mut budget, &sequence, &mut assigned);
            self.running.push(sequence);
        }
        assigned
    }

    fn admit(&mut self, submission: Submission) -> Sequence {
        // The last prompt token is always computed: its logits give the first output token.
        let usable = submission.prompt_tokens.saturating_sub(1) / self.model.block;
        let chain = &submission.blocks[..usable.min(submission.blocks.len())];
        let hit = self.cache.hit(chain) * self.model.block;
        self.totals.cache_hits += hit as u64;
        self.totals.cache_queries += submission.prompt_tokens as u64;
        let left = submission.prompt_tokens - hit;
        Sequence { submission, left, generated: 0 }
    }

    /// Ends the step begun last and appends its tokens to `out`.
    pub fn end_step(&mut self, out: &mut Vec<Token>) {
        let Some(step) = self.step.take() else { return };
        self.totals.steps += 1;
        for id in step.decodes {
            self.generate(id, out);
        }
        for (id, tokens) in step.prefills {
            let Some(sequence) = self.running.iter_mut().find(|s| s.submission.id == id) else {
                continue;
            };
            sequence.left -= tokens;
            if sequence.left == 0 {
                self.cache.insert(&sequence.submission.blocks);
                self.generate(id, out);
            }
        }
    }

    fn generate(&mut self, id: u64, out: &mut Vec<Token>) {
        let Some(at) = self.running.iter().position(|s| s.submission.id == id) else { return };
        let sequence = &mut self.running[at];
        sequence.generated += 1;
        let last = sequence.generated >= sequence.submission.output_tokens;
        if last {
            self.running.remove(at);
        }
        out.push(Token { id, last });
    }

    /// Forgets a sequence. Its place is free for the next step; the one under way is not
    /// shortened. `false` if it is not (or no longer) here.
    pub fn abort(&mut self, id: u64) -> bool {
        let before = self.waiting.len() + self.running.len();
        self.waiting.retain(|s| s.id != id);
        self.running.retain(|s| s.submission.id != id);
        before != self.waiting.len() + self.running.len()
    }

    /// When the first waiting sequence may be scheduled.
    #[must_use]
    pub fn next_ready(&self) -> Option<Virtual> {
        self.waiting.front().map(|s| s.ready_at)
    }

    /// Whether a step is under way.
    #[must_use]
    pub fn stepping(&self) -> bool {
        self.step.is_some()
    }

    /// Sequences that run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Sequences that wait, those that are not yet ready included.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Sequences that wait and are ready at `now`.
    #[must_use]
    pub fn waiting_at(&self, now: Virtual) -> usize {
        self.waiting.partition_point(|s| s.ready_at <= now)
    }

    /// Whether that sequence waits.
    #[must_use]
    pub fn is_waiting(&self, id: u64) -> bool {
        self.waiting.iter().any(|s| s.id == id)
    }

    /// Tokens of context of all running sequences.
    #[must_use]
    pub fn context_tokens(&self) -> usize {
        self.running.iter().map(|s| s.context() - s.left).sum()
    }

    /// Totals since the last reset.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Sets the totals back.
    pub fn reset_totals(&mut self) {
        self.totals = Totals::default();
    }

    /// Puts a chain of blocks into the prefix cache, as if a prompt had been processed.
    pub fn warm(&mut self, chain: &[u64]) {
        self.cache.insert(chain);
    }

    /// Empties the prefix cache.
    pub fn reset_cache(&mut self) {
        self.cache.clear();
    }
}

impl Sequence {
    fn context(&self) -> usize {
        self.submission.prompt_tokens + self.generated as usize
    }
}

fn take(budget: &mut usize, sequence: &Sequence, assigned: &mut Vec<(u64, usize)>) {
    let tokens = sequence.left.min(*budget);
    if tokens > 0 {
        *budget -= tokens;
        assigned.push((sequence.submission.id, tokens));
    }
}
