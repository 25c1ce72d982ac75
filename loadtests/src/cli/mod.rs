//! The command line.

mod capacity;
mod compare;
mod demo;
mod engine;
mod history;
mod overview;
mod report;
mod run;
mod signals;
mod summary;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Simulated engines and load tests for Streamgate.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Engine(engine::Args),
    Run(run::Args),
    Report(report::ReportArgs),
    Recompute(report::RecomputeArgs),
    Request(report::RequestArgs),
    Manifest(report::ManifestArgs),
    History(history::Args),
    Capacity(capacity::Args),
    Compare(compare::Args),
    Overview(overview::Args),
    Demo(demo::Args),
}

impl Cli {
    /// Runs the subcommand to its end.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Run(args) => run::run(&args),
            Command::Report(args) => report::report(&args),
            Command::Recompute(args) => report::recompute(&args),
            Command::Request(args) => report::request(&args),
            Command::Manifest(args) => report::manifest(&args),
            Command::History(args) => history::run(&args),
            Command::Overview(args) => overview::run(&args),
            Command::Compare(args) => compare::run(&args),
            Command::Capacity(args) => capacity::run(&args),
            Command::Demo(args) => demo::run(args),
            Command::Engine(args) => engine::run(args).map(|()| ExitCode::SUCCESS),
        }
    }
}
