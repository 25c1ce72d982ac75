//! `streamgate-loadtests engine`: one simulated engine as a process.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use clap::{Args as ClapArgs, ValueEnum};
use streamgate_loadtests::engine::{
    EngineConfig, InstantProfile, Profile, StepModel, faults, process,
};

/// Run a simulated vLLM engine until SIGTERM.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// The model it serves.
    #[arg(long, default_value = "sim")]
    model: String,
    /// How tokens come about.
    #[arg(long, value_enum, default_value_t = Kind::Calibrated)]
    profile: Kind,
    /// How many times faster than real time it runs (at least 1).
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
    /// What SIGTERM does, as vLLM's option: seconds for streams to complete; 0 aborts them.
    #[arg(long, default_value_t = 0.0)]
    shutdown_timeout: f64,
    /// Sequences that run at once (default: 8 calibrated, unlimited instant).
    #[arg(long)]
    max_num_seqs: Option<usize>,
    /// Requests that may wait; more get 503 (default: unlimited).
    #[arg(long)]
    max_num_queued_reqs: Option<usize>,
    /// Prompt and output tokens of a request.
    #[arg(long)]
    max_model_len: Option<usize>,
    /// Instant profile: time between tokens.
    #[arg(long, default_value = "20ms")]
    token_interval: humantime::Duration,
    /// Instant profile: time to the first token.
    #[arg(long, default_value = "0s")]
    first_token: humantime::Duration,
    /// Calibrated profile: blocks of the prefix cache.
    #[arg(long)]
    cache_blocks: Option<usize>,
    /// Comments in silent streams, in seconds (default: none).
    #[arg(long)]
    sse_keep_alive_interval: Option<f64>,
    /// One write an event even if several are due.
    #[arg(long)]
    no_merge: bool,
    /// Print the table of faults and exit.
    #[arg(long)]
    help_faults: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// The step model of a replica.
    Calibrated,
    /// Tokens at fixed intervals.
    Instant,
}

impl Args {
    fn config(&self) -> anyhow::Result<EngineConfig> {
        let seconds = |name: &str, value: f64| {
            Duration::try_from_secs_f64(value)
                .with_context(|| format!("--{name} {value}: give seconds, 0 or more"))
        };
        let defaults = EngineConfig::default();
        anyhow::ensure!(
            self.time_scale >= 1.0 && self.time_scale.is_finite(),
            "--time-scale {}: give a number of at least 1",
            self.time_scale
        );
        anyhow::ensure!(self.max_num_seqs != Some(0), "--max-num-seqs 0: give at least 1");
        Ok(EngineConfig {
            listen: self.listen,
            model: self.model.clone(),
            profile: self.profile(),
            time_scale: self.time_scale,
            max_num_queued: self.max_num_queued_reqs,
            max_model_len: self.max_model_len.unwrap_or(defaults.max_model_len),
            merge_writes: !self.no_merge,
            sse_keep_alive: self
                .sse_keep_alive_interval
                .map(|s| seconds("sse-keep-alive-interval", s))
                .transpose()?,
            ..defaults
        })
    }

    fn profile(&self) -> Profile {
        match self.profile {
            Kind::Instant => Profile::Instant(InstantProfile {
                first_token: self.first_token.into(),
                token_interval: self.token_interval.into(),
                max_running: self.max_num_seqs,
            }),
            Kind::Calibrated => {
                let model = StepModel::default();
                Profile::Calibrated(StepModel {
                    max_running: self.max_num_seqs.unwrap_or(model.max_running),
                    cache_blocks: self.cache_blocks.unwrap_or(model.cache_blocks),
                    ..model
                })
            }
        }
    }
}

/// Serves until the engine has exited by itself after a signal.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    if args.help_faults {
        print!("{}", faults::TABLE);
        return Ok(());
    }
    let config = args.config()?;
    let timeout = Duration::try_from_secs_f64(args.shutdown_timeout)
        .with_context(|| format!("--shutdown-timeout {}: give seconds", args.shutdown_timeout))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listen = config.listen;
    let serving = process::serve(config, timeout, |addr| eprintln!("engine listening on {addr}"));
    runtime.block_on(serving).with_context(|| format!("cannot serve on {listen}"))
}
