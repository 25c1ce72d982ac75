//! `streamgate-quota-model [--quick] [NAMES…]`: explores the configurations and says what was found.

use clap::Parser;
use std::time::Duration;
use streamgate_quota_model::cases::{self, Case, Expect};
use streamgate_quota_model::explore::{Bounds, explore};

/// Explores the quota protocol.
#[derive(Parser)]
struct Args {
    /// Configurations (all if none); a name ending in `-` stands for all that begin so.
    names: Vec<String>,
    /// Only those that `cargo test` explores.
    #[arg(long)]
    quick: bool,
    /// Leases of one tick everywhere.
    #[arg(long)]
    short: bool,
    /// Seconds for each configuration.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// States for each configuration.
    #[arg(long, default_value_t = 20_000_000)]
    states: usize,
    /// Resident memory, MiB.
    #[arg(long, default_value_t = 5_500)]
    memory: u64,
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Show the steps of every counterexample.
    #[arg(long)]
    trace: bool,
}

fn main() {
    let args = Args::parse();
    let bounds = Bounds {
        time: Duration::from_secs(args.seconds),
        states: args.states,
        memory: args.memory << 20,
        threads: args.threads,
    };
    let named = |case: &Case| {
        args.names.is_empty()
            || args
                .names
                .iter()
                .any(|n| n == case.name || n.ends_with('-') && case.name.starts_with(n.as_str()))
    };
    let mut all = cases::all();
    if args.short {
        for case in &mut all {
            case.cfg.lease_self = 1;
            case.cfg.lease_store = 1;
        }
    }
    for case in all.iter().filter(|case| named(case) && (case.quick.is_some() || !args.quick)) {
        let found = explore(&case.cfg, &bounds);
        let verdict = match (&found.violation, found.exhausted) {
            (Some((property, _)), _) => format!("violates: {property}"),
            (None, true) => "holds, exhausted".to_owned(),
            (None, false) => "holds, bounded".to_owned(),
        };
        let expected = match (case.expect, &found.violation) {
            (Expect::Holds, None) => "",
            (Expect::Violates(want), Some((got, _))) if want == *got => "",
            _ => "  <-- unexpected",
        };
        println!(
            "{:24} {:>9} states  depth {:>3}  {:>6.1} s  {verdict}{expected}",
            case.name,
            found.states,
            found.depth,
            found.took.as_secs_f64()
        );
        if let (Some((_, steps)), true) = (&found.violation, args.trace || !expected.is_empty()) {
            println!(
                "    {}",
                steps.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join("; ")
            );
        }
    }
}
