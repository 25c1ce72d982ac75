//! `streamgate-loadtests run`: run a scenario and report it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;
use streamgate_loadtests::report::{self, OnBroken};
use streamgate_loadtests::run::{Options, run as run_scenario};
use streamgate_loadtests::scenario::{Policy, Scenario, Spacing, TargetSpec};
use tokio_util::sync::CancellationToken;

use super::signals::stopped;
use super::summary;

/// Run a scenario, record every planned request, and write a report.
///
/// Ends with 0, or 3 if the run is not valid (the generator itself was late, or it was stopped),
/// or 4 if a figure is outside of what the scenario expects and --strict was given.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// The scenario file.
    scenario: PathBuf,
    /// Result folder (default: loadtests/results/NAME).
    #[arg(long)]
    out: Option<PathBuf>,
    /// Times faster than real (default: the scenario's).
    #[arg(long)]
    scale: Option<f64>,
    /// Seed; may be given several times (default: the scenario's).
    #[arg(long = "seed")]
    seeds: Vec<u64>,
    /// That many seeds, counted up from the first.
    #[arg(long, conflicts_with = "seeds")]
    repeat: Option<u64>,
    /// Draw arrivals as a Poisson process instead of evenly; no figure is then expected.
    #[arg(long)]
    poisson: bool,
    /// Policy of the router or strategy of Streamgate, in place of the scenario's; no figure is
    /// then expected.
    #[arg(long, value_parser = policy)]
    policy: Option<Policy>,
    /// Base address of a url target, in place of the scenario's.
    #[arg(long)]
    base: Option<String>,
    /// Prometheus text to scrape beside a url target; may be given several times.
    #[arg(long, requires = "base")]
    metrics: Vec<String>,
    /// The streamgate program.
    #[arg(long, env = "STREAMGATE_BIN")]
    streamgate: Option<PathBuf>,
    /// Fail when a figure is outside of what the scenario expects.
    #[arg(long)]
    strict: bool,
    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

fn policy(text: &str) -> Result<Policy, String> {
    serde_json::from_value(text.into()).map_err(|e| e.to_string())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut scenario = Scenario::read(&args.scenario)?;
    if let Some(scale) = args.scale.filter(|s| !(s.is_finite() && *s >= 1.0)) {
        anyhow::bail!("--scale {scale}: give a number of 1 or more");
    }
    adapt(&mut scenario, args);
    if let Some(base) = &args.base {
        let TargetSpec::Url(url) = &mut scenario.target else {
            anyhow::bail!("--base {base}: the scenario has no url target; leave it out");
        };
        url.base.clone_from(base);
        url.metrics.extend(args.metrics.iter().cloned());
    }
    let first = args.seeds.first().copied().unwrap_or(scenario.seed);
    let repeat = args.repeat.map(|n| (first..first + n.max(1)).collect());
    let seeds = repeat.unwrap_or_else(|| args.seeds.clone());
    let out = args.out.clone();
    let options = Options {
        out: out.unwrap_or_else(|| PathBuf::from("loadtests/results").join(&scenario.name)),
        seeds: if seeds.is_empty() { vec![scenario.seed] } else { seeds },
        command: command(),
        progress: !args.quiet,
        streamgate: args.streamgate.clone(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let stop = CancellationToken::new();
        tokio::select! {
            ran = run_scenario(&scenario, &options, stop.clone()) => ran.map(Some),
            () = stopped_twice(&stop) => Ok(None),
        }
    })?;
    if ended.is_none() {
        return Ok(ExitCode::from(130));
    }
    let figures = report::write(&options.out, OnBroken::Skip)?;
    summary::print(&figures, &options.out);
    Ok(summary::code(&figures, args.strict))
}

fn adapt(scenario: &mut Scenario, args: &Args) {
    if let Some(scale) = args.scale {
        scenario.time_scale = scale;
    }
    if args.poisson || args.policy.is_some() {
        // The published figures are those of the scenario as it stands.
        scenario.expect.clear();
    }
    for phase in &mut scenario.phases {
        if let Some(open) = phase.open.as_mut().filter(|_| args.poisson) {
            open.spacing = Spacing::Poisson;
        }
        if args.policy.is_some() {
            phase.policy = args.policy;
        }
    }
    if let Some(policy) = args.policy {
        match &mut scenario.target {
            TargetSpec::Direct(direct) => direct.policy = policy,
            TargetSpec::Streamgate(streamgate) => streamgate.strategy = policy,
            TargetSpec::Url(_) => {}
        }
    }
}

/// The command as it was given, without the folder of the program.
fn command() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("streamgate-loadtests {}", words.join(" "))
}

/// The first signal stops the run, and what was measured is kept; returns at the second.
async fn stopped_twice(stop: &CancellationToken) {
    stopped().await;
    eprintln!(
        "\nstopping; what was measured is kept (once more to end at once, without the last second and the report)"
    );
    stop.cancel();
    stopped().await;
}
