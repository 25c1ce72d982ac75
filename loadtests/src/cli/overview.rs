//! `streamgate-loadtests overview`: one page over all results.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args as ClapArgs;
use streamgate_loadtests::report;

/// Write README.md into a folder of result folders: every published figure beside the measured
/// one, computed anew from the records.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// The folder.
    #[arg(default_value = "loadtests/results")]
    results: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let path = args.results.join("README.md");
    let text =
        report::overview(&args.results).with_context(|| format!("{}", args.results.display()))?;
    std::fs::write(&path, text).with_context(|| format!("{}", path.display()))?;
    println!("{}", path.display());
    Ok(ExitCode::SUCCESS)
}
