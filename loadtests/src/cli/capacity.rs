//! `streamgate-loadtests capacity`: what the generator itself can do.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args as ClapArgs;
use streamgate_loadtests::null::NullTarget;
use streamgate_loadtests::report::{self, OnBroken};
use streamgate_loadtests::run::{Options, run as run_scenario};
use streamgate_loadtests::scenario::Scenario;
use tokio_util::sync::CancellationToken;

/// Measure the generator alone, against a target in this process that answers at once.
///
/// Ends with 0 if every arrival was good and the lag's P99 is below the bound, else with 3.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Arrivals a second.
    #[arg(long, default_value_t = 5000.0)]
    rate: f64,
    /// How long.
    #[arg(long = "for", default_value = "20s")]
    length: humantime::Duration,
    /// Largest P99 of the lag.
    #[arg(long, default_value = "5ms")]
    bound: humantime::Duration,
    /// Threads for generator and target together.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Result folder.
    #[arg(long, default_value = "loadtests/results/capacity")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(args.threads.max(1))
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let target = NullTarget::start().await?;
        let scenario = Scenario::parse("capacity", &text(args, &target))?;
        let options = Options {
            out: args.out.clone(),
            seeds: vec![scenario.seed],
            command: format!(
                "streamgate-loadtests capacity --rate {} --for {}",
                args.rate, args.length
            ),
            progress: false,
            streamgate: None,
        };
        run_scenario(&scenario, &options, CancellationToken::new()).await
    });
    ended?;
    let figures = report::write(&args.out, OnBroken::Refuse)?;
    let Some(group) = figures.groups.first() else { anyhow::bail!("nothing was measured") };
    let Some(lag) = group.lag_ms else { anyhow::bail!("no lag was measured") };
    println!(
        "planned {} good {} | lag ms: P50 {:.3} P95 {:.3} P99 {:.3} max {:.3} | bound {}",
        group.planned, group.good, lag.p50, lag.p95, lag.p99, lag.max, args.bound
    );
    let bound = Duration::from(args.bound).as_secs_f64() * 1e3;
    let passed = group.good == group.planned && lag.p99 < bound;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn text(args: &Args, target: &NullTarget) -> String {
    let (length, rate, bound) = (args.length, args.rate, args.bound);
    format!(
        "name: capacity\n\
         about: The generator alone, against a target that answers at once\n\
         seed: 1\n\
         lag_bound: {bound}\n\
         client: {{max_in_flight: 0}}\n\
         target: {{url: {{base: \"http://{}\"}}}}\n\
         prompts: {{short: {{kind: unique, sentences: 30}}}}\n\
         history: {{interval: 0s}}\n\
         phases:\n\
         - name: main\n\
         \x20 open: {{segments: [{{length: {length}, rate: {rate}}}]}}\n\
         \x20 requests: [{{tenant: a, prompt: short, max_tokens: 16}}]\n",
        target.addr()
    )
}
