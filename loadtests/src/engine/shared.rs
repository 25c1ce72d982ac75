//! What all connections of one engine share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::backend::Backend;
use super::clock::Clock;
use super::config::EngineConfig;
use super::count::Count;
use super::faults::FaultQueue;
use super::metrics::Metrics;
use super::phase::Phase;
use super::stats::{Recorder, StatsSnapshot};
use super::wire::{Api, ParseContext, parse, read};

pub(crate) struct Shared {
    pub(crate) config: EngineConfig,
    pub(crate) started: Instant,
    pub(crate) clock: Clock,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) faults: Arc<FaultQueue>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) backend: Backend,
    pub(crate) phase: watch::Sender<Phase>,
    /// Generation requests from their acceptance to the last byte of their answer.
    pub(crate) active: Count,
    /// Open connections.
    pub(crate) connections: Count,
    /// Ends the listener and closes connections.
    pub(crate) stop: CancellationToken,
    /// Resets connections; cancelled before `stop`.
    pub(crate) kill: CancellationToken,
    /// Whether the listener is wanted.
    pub(crate) listening: watch::Sender<bool>,
    next_connection: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        config: EngineConfig,
        recorder: Arc<Recorder>,
        faults: Arc<FaultQueue>,
    ) -> Self {
        let started = Instant::now();
        let clock = Clock::new(started, config.time_scale);
        let metrics = Arc::new(Metrics::new());
        let backend = Backend::new(&config, clock, &recorder, &metrics);
        Self {
            started,
            clock,
            recorder,
            faults,
            metrics,
            backend,
            config,
            phase: watch::Sender::new(Phase::Serving),
            active: Count::new(),
            connections: Count::new(),
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
            listening: watch::Sender::new(true),
            next_connection: AtomicU64::new(1),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.send_replace(phase);
        self.recorder.touch();
    }

    pub(crate) fn connection_id(&self) -> u64 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }

    /// The server exits: the listener and all connections close.
    pub(crate) fn exit(&self) {
        self.set_phase(Phase::Exited);
        self.backend.stop();
        self.stop.cancel();
    }

    /// As `kill -9`, with every connection reset.
    pub(crate) fn kill(&self) {
        self.kill.cancel();
        self.exit();
    }

    /// What checking a request needs to know.
    pub(crate) fn parse_context(&self) -> ParseContext<'_> {
        ParseContext {
            model: &self.config.model,
            max_model_len: self.config.max_model_len,
            default_max_tokens: self.config.default_max_tokens,
            block: self.backend.block(),
        }
    }

    /// Puts the prompts of a request into the prefix cache; returns their whole blocks.
    pub(crate) fn warm(&self, path: &str, body: &[u8]) -> Result<usize, String> {
        let api = Api::of_path(path).ok_or_else(|| format!("{path} is no generation path"))?;
        let request = read(body).and_then(|body| parse(api, body, self.parse_context()));
        let prompts = request.map_err(|e| e.message)?.prompts;
        self.backend.warm(&prompts);
        Ok(prompts.iter().map(|p| p.blocks.len()).sum())
    }

    /// All figures.
    pub(crate) fn stats(&self) -> StatsSnapshot {
        let load = self.backend.load();
        StatsSnapshot {
            phase: self.phase().as_str(),
            running: load.running,
            waiting: load.waiting,
            waiting_peak: load.waiting_peak,
            prefix_queries: load.prefix_queries,
            prefix_hits: load.prefix_hits,
            open_connections: self.connections.get(),
            ..self.recorder.snapshot()
        }
    }

    /// Forgets all figures; with `cache` the prefix cache too.
    pub(crate) fn reset(&self, cache: bool) {
        self.recorder.reset();
        self.backend.reset_totals();
        if cache {
            self.backend.reset_cache();
        }
    }
}
