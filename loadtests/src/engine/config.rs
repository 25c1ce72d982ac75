//! What an engine is told at its start.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::scheduler::StepModel;

/// Settings of one engine. Durations are virtual (divided by [`time_scale`] in real time) unless
/// their comment says real.
///
/// [`time_scale`]: EngineConfig::time_scale
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Where to listen. Port 0 takes a free one. Default `127.0.0.1:0`.
    pub listen: SocketAddr,
    /// The only model served; requests without a model get it too. Default `sim`.
    pub model: String,
    /// How tokens come about. Default [`InstantProfile::default`].
    pub profile: Profile,
    /// How many times faster than real time the engine runs, at least 1. Default 1.
    pub time_scale: f64,
    /// vLLM's `--max-num-queued-reqs`: more waiting requests than this are answered 503.
    /// Default none.
    pub max_num_queued: Option<usize>,
    /// Prompt plus output tokens of a request. Default 131,072.
    pub max_model_len: usize,
    /// Output tokens where a request names no bound (completions 16, as vLLM; others this).
    /// Default 64.
    pub default_max_tokens: u32,
    /// Largest request body in bytes. Default 64 MiB.
    pub body_limit: usize,
    /// Real time after which an idle kept-alive connection is closed. Default 5 s.
    pub keep_alive: Duration,
    /// Put all events that are due into one write. Off: one write an event. Default on.
    pub merge_writes: bool,
    /// vLLM's `--sse-keep-alive-interval`: comments while a stream is silent. Default none.
    pub sse_keep_alive: Option<Duration>,
    /// What happens around a shutdown.
    pub shutdown: ShutdownTimes,
}

/// How long the phases of a shutdown last (virtual time).
#[derive(Debug, Clone, Copy)]
pub struct ShutdownTimes {
    /// From SIGTERM to the exit with shutdown timeout 0. Default 1.5 s.
    pub abort_exit: Duration,
    /// From the end of the last stream to the exit, with a timeout above 0. Default 5 s.
    pub drain_exit: Duration,
    /// From the close of the last connection to the exit, when the timeout has passed with
    /// streams in flight. Default 0.7 s.
    pub frozen_exit: Duration,
    /// From the death of the engine process to the exit of the server. Default 4 s.
    pub dead_exit: Duration,
    /// How streams end at SIGTERM with timeout 0.
    pub abort_form: AbortForm,
}

/// vLLM ends streams at SIGTERM in one of two ways, differing from run to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AbortForm {
    /// `finish_reason: "abort"`, usage and `[DONE]`: it looks finished.
    #[default]
    Finish,
    /// An error event, then `[DONE]`.
    Error,
}

/// How tokens come about.
#[derive(Debug, Clone, Copy)]
pub enum Profile {
    /// Tokens at fixed intervals, without a model of steps.
    Instant(InstantProfile),
    /// The step model of a replica.
    Calibrated(StepModel),
}

/// Tokens at fixed intervals.
#[derive(Debug, Clone, Copy, Default)]
pub struct InstantProfile {
    /// From the start of a sequence to its first token. Default 0.
    pub first_token: Duration,
    /// Between tokens. Default 0: all at once.
    pub token_interval: Duration,
    /// Sequences that run at once; the others wait in order. Default unlimited.
    pub max_running: Option<usize>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            model: "sim".into(),
            profile: Profile::Instant(InstantProfile::default()),
            time_scale: 1.0,
            max_num_queued: None,
            max_model_len: 131_072,
            default_max_tokens: 64,
            body_limit: 64 * 1024 * 1024,
            keep_alive: Duration::from_secs(5),
            merge_writes: true,
            sse_keep_alive: None,
            shutdown: ShutdownTimes::default(),
        }
    }
}

impl Default for ShutdownTimes {
    fn default() -> Self {
        Self {
            abort_exit: Duration::from_millis(1500),
            drain_exit: Duration::from_secs(5),
            frozen_exit: Duration::from_millis(700),
            dead_exit: Duration::from_secs(4),
            abort_form: AbortForm::Finish,
        }
    }
}

impl EngineConfig {
    /// Tokens every `token_interval`; the first at once.
    #[must_use]
    pub fn instant(token_interval: Duration) -> Self {
        let profile =
            Profile::Instant(InstantProfile { token_interval, ..InstantProfile::default() });
        Self { profile, ..Self::default() }
    }

    /// The calibrated replica at `time_scale` times real speed.
    #[must_use]
    pub fn calibrated(time_scale: f64) -> Self {
        Self { profile: Profile::Calibrated(StepModel::default()), time_scale, ..Self::default() }
    }

    /// Sequences that run at once, if bounded.
    #[must_use]
    pub fn max_running(&self) -> Option<usize> {
        match self.profile {
            Profile::Instant(p) => p.max_running,
            Profile::Calibrated(m) => Some(m.max_running),
        }
    }
}
