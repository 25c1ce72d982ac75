//! `streamgate-loadtests`: one file a subcommand under `cli`.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("streamgate-loadtests: {error:#}");
            ExitCode::FAILURE
        }
    }
}
