//! `streamgate-loadtests compare`: the figures of two runs side by side.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args as ClapArgs;
use streamgate_loadtests::figures::{FIGURES, Figures, Group};
use streamgate_loadtests::report::{OnBroken, recompute};
use streamgate_loadtests::run::RECORDS;

/// Compare the figures of two runs of one scenario, computed anew from their records.
///
/// Ends with 1 if a figure differs by more than --within, or a phase is in one run only.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// A result folder, or a file of records.
    first: PathBuf,
    /// Another one.
    second: PathBuf,
    /// Largest difference in percent of the first. Counts may always differ by one.
    #[arg(long, default_value_t = 3.0)]
    within: f64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (first, second) = (figures(&args.first)?, figures(&args.second)?);
    let mut differ = 0;
    for a in &first.groups {
        let name = format!("{} {} seed {}", a.phase, a.tenant.as_deref().unwrap_or("all"), a.seed);
        let same = |b: &&Group| (b.seed, &b.phase, &b.tenant) == (a.seed, &a.phase, &a.tenant);
        match second.groups.iter().find(same) {
            Some(b) => differ += rows(&name, a, b, args.within),
            None => {
                println!("{name}: only in the first");
                differ += 1;
            }
        }
    }
    let more = second.groups.len().saturating_sub(first.groups.len());
    println!(
        "{differ} figures differ by more than {} %; {more} groups more in the second",
        args.within
    );
    Ok(if differ + more == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn figures(path: &Path) -> anyhow::Result<Figures> {
    let file = if path.is_dir() { path.join(RECORDS) } else { path.to_owned() };
    Ok(recompute(&file, OnBroken::Refuse)?.1)
}

/// Prints each figure of a group; returns how many differ too much.
fn rows(name: &str, a: &Group, b: &Group, within: f64) -> usize {
    let mut differ = 0;
    for (figure, get) in FIGURES {
        let (left, right) = match (get(a), get(b)) {
            (Some(left), Some(right)) => (left, right),
            (None, None) => continue,
            _ => {
                println!("{name} {figure}: no data on one side");
                differ += 1;
                continue;
            }
        };
        let percent = if left == right { 0.0 } else { (right - left).abs() / left.abs() * 100.0 };
        let count = left.fract() == 0.0 && right.fract() == 0.0;
        let far = percent > within && !(count && (left - right).abs() <= 1.0);
        println!(
            "{name} {figure}: {left:.4} {right:.4} ({percent:.2} %){}",
            if far { " FAR" } else { "" }
        );
        differ += usize::from(far);
    }
    differ
}
