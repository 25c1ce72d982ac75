//! Where tokens come from.

mod instant;
mod seats;
mod stepped;

use std::sync::Arc;
use std::time::Duration;

use super::clock::{Clock, Virtual};
use super::config::{EngineConfig, Profile};
use super::metrics::Metrics;
use super::stats::{InFlight, Recorder};
use super::tokens::Prompt;
use instant::{InstantBackend, InstantSource};
use stepped::{SteppedBackend, SteppedSource};

/// A request to generate.
pub(crate) struct Job {
    pub(crate) prompts: Vec<Prompt>,
    /// Choices for each prompt.
    pub(crate) n: u32,
    /// Tokens of each choice.
    pub(crate) output_tokens: u32,
    /// Replaces the instant profile's interval.
    pub(crate) interval: Option<Duration>,
    /// Kept until the backend has done with the request.
    pub(crate) in_flight: Arc<InFlight>,
}

impl Job {
    fn choices(&self) -> u32 {
        self.n.saturating_mul(u32::try_from(self.prompts.len()).unwrap_or(u32::MAX))
    }
}

/// More requests wait than may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueFull;

/// One token of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) choice: u32,
    /// The choice's last token.
    pub(crate) last: bool,
    pub(crate) at: Virtual,
}

/// What the backend is doing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    pub(crate) waiting_peak: usize,
    pub(crate) prefix_queries: u64,
    pub(crate) prefix_hits: u64,
    /// 0 to 1.
    pub(crate) cache_usage: f64,
}

pub(crate) enum Backend {
    Instant(InstantBackend),
    Stepped(Arc<SteppedBackend>),
}

/// The tokens of one request. Dropping it aborts what is not generated yet.
pub(crate) enum Source {
    Instant(InstantSource),
    Stepped(SteppedSource),
}

impl Backend {
    pub(crate) fn new(
        config: &EngineConfig,
        clock: Clock,
        recorder: &Arc<Recorder>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        match config.profile {
            Profile::Instant(p) => Self::Instant(InstantBackend::new(p, config, clock, recorder)),
            Profile::Calibrated(model) => {
                let queued = config.max_num_queued;
                Self::Stepped(SteppedBackend::start(model, queued, clock, recorder, metrics))
            }
        }
    }

    /// Starts a request.
    pub(crate) fn start(&self, job: Job) -> Result<Source, QueueFull> {
        match self {
            Self::Instant(b) => b.start(&job).map(Source::Instant),
            Self::Stepped(b) => b.submit(job).map(Source::Stepped),
        }
    }

    /// Tokens a block of the prefix cache.
    pub(crate) fn block(&self) -> usize {
        match self {
            Self::Instant(_) => super::scheduler::StepModel::default().block,
            Self::Stepped(b) => b.block(),
        }
    }

    pub(crate) fn load(&self) -> Load {
        match self {
            Self::Instant(b) => b.load(),
            Self::Stepped(b) => b.load(),
        }
    }

    pub(crate) fn reset_totals(&self) {
        if let Self::Stepped(b) = self {
            b.reset_totals();
        }
    }

    /// Puts prompts into the prefix cache.
    pub(crate) fn warm(&self, prompts: &[Prompt]) {
        if let Self::Stepped(b) = self {
            b.warm(prompts);
        }
    }

    pub(crate) fn reset_cache(&self) {
        if let Self::Stepped(b) = self {
            b.reset_cache();
        }
    }

    pub(crate) fn stop(&self) {
        if let Self::Stepped(b) = self {
            b.stop();
        }
    }
}

impl Source {
    /// Waits for the next token; for ever after the last. Cancel safe.
    pub(crate) async fn next(&mut self) -> Tick {
        match self {
            Self::Instant(s) => s.next().await,
            Self::Stepped(s) => s.next().await,
        }
    }

    /// A token that is already due.
    pub(crate) fn try_next(&mut self) -> Option<Tick> {
        match self {
            Self::Instant(s) => s.try_next(),
            Self::Stepped(s) => s.try_next(),
        }
    }
}
