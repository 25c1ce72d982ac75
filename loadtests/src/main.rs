//! `streamgate-loadtests`: one file a subcommand under `cli`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the command line's own output")]

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
