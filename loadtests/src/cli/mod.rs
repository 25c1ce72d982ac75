//! The command line.

mod engine;

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
}

impl Cli {
    /// Runs the subcommand to its end.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Engine(args) => engine::run(args).map(|()| ExitCode::SUCCESS),
        }
    }
}
