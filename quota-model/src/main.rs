//! Explores the quota protocol: `streamgate-quota-model [--quick] [NAMES…]`.
#![expect(clippy::print_stdout, reason = "a command line tool")]

use anyhow::Context as _;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use streamgate_quota_model::cases::{self, Case, Expect};
use streamgate_quota_model::explore::{Bounds, Found, explore};
use streamgate_quota_model::results;

/// Explores the configurations of the quota protocol, each to its end or to a bound.
#[derive(Parser)]
struct Args {
    /// Configurations (all if none); a name ending in `-` stands for all that begin so.
    names: Vec<String>,
    /// Only those that `cargo test` explores.
    #[arg(long)]
    quick: bool,
    /// Leases of one tick everywhere: smaller, but cannot express that leases end at different times.
    #[arg(long)]
    short: bool,
    /// Seconds for each configuration.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// States for each configuration.
    #[arg(long, default_value_t = 20_000_000)]
    states: usize,
    /// Resident memory, MiB.
    #[arg(long, default_value_t = 5_000)]
    memory: u64,
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Show the steps of every counterexample.
    #[arg(long)]
    trace: bool,
    /// Put the results into this file.
    #[arg(long)]
    record: Option<PathBuf>,
    /// Only list the configurations.
    #[arg(long)]
    list: bool,
}

impl Args {
    fn takes(&self, case: &Case) -> bool {
        let fits = |name: &String| {
            name == case.name || (name.ends_with('-') && case.name.starts_with(name.as_str()))
        };
        (self.names.is_empty() || self.names.iter().any(fits))
            && (case.quick.is_some() || !self.quick)
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            time: Duration::from_secs(self.seconds),
            states: self.states,
            memory: self.memory << 20,
            threads: self.threads,
        }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let all = cases::all();
    let mut wrong = 0;
    for case in all.iter().filter(|case| args.takes(case)) {
        if args.list {
            println!("{:24} {}", case.name, case.about);
            continue;
        }
        let mut case = case.clone();
        if args.short {
            case.cfg.lease_self = 1;
            case.cfg.lease_store = 1;
        }
        let found = explore(&case.cfg, &args.bounds());
        wrong += usize::from(!show(&case, &found, args.trace));
        if let Some(path) = &args.record {
            results::record(path, &all, &case, &found)
                .with_context(|| format!("recording into {}", path.display()))?;
        }
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints a result. `false`: it is not what the case expects.
fn show(case: &Case, found: &Found, trace: bool) -> bool {
    let verdict = match (&found.violation, found.exhausted) {
        (Some((property, _)), _) => format!("violates: {property}"),
        (None, true) => "holds, exhausted".to_owned(),
        (None, false) => "holds, bounded".to_owned(),
    };
    let expected = match (case.expect, &found.violation) {
        (Expect::Holds, None) => true,
        (Expect::Violates(want), Some((got, _))) => want == *got,
        _ => false,
    };
    println!(
        "{:24} {:>9} states  depth {:>3}  {:>6.1} s  {verdict}{}",
        case.name,
        found.states,
        found.depth,
        found.took.as_secs_f64(),
        if expected { "" } else { "  <-- unexpected" }
    );
    if let Some((_, steps)) = found.violation.as_ref().filter(|_| trace || !expected) {
        let steps: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
        println!("    {}", steps.join("; "));
    }
    expected
}
