//! The command line: what may be written, and who does it.
//!
//! `check` and `key` need only a configuration and are done here. The others need a process to
//! run or to talk to; the composition root does them, handed in as [`Hooks`].
//!
//! Exit codes: 0 done, 1 failed (`check`: invalid, or the budget does not hold), 2 the deadline
//! passed (`drain`), 64 wrong usage, 66 manifests that cannot be read (`check`). Wrong usage is not clap's own 2, which a script would take for a drain that ran late.

mod args;
mod check;
mod key;

pub use args::{CheckArgs, Cli, Command, DrainArgs, KeyCommand, ServeArgs, StatusArgs};

use clap::Parser;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Wrong usage (`EX_USAGE` of sysexits).
const USAGE: u8 = 64;

/// Some input of `check --manifests` is no YAML or cannot be opened (`EX_NOINPUT` of sysexits):
/// whatever else was found, nothing is proven.
const UNREADABLE: u8 = 66;

/// The commands that others do.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// Run the ingress until it is told to stop.
    pub serve: fn(ServeArgs) -> ExitCode,
    /// Ask a running replica to drain, and wait.
    pub drain: fn(DrainArgs) -> ExitCode,
    /// Show the state of a running replica.
    pub status: fn(StatusArgs) -> ExitCode,
}

/// Parse the command line of this process and do what it says. Help and version are printed to
/// standard output with exit code 0, wrong usage to standard error with 64.
pub fn run(hooks: Hooks) -> ExitCode {
    run_with(std::env::args_os(), hooks)
}

fn run_with(args: impl IntoIterator<Item = OsString>, hooks: Hooks) -> ExitCode {
    match Cli::try_parse_from(args) {
        Ok(cli) => dispatch(cli.command, hooks),
        Err(error) => {
            let code = if error.use_stderr() { USAGE } else { 0 };
            // Nowhere is left to report that the terminal is gone.
            let _ = error.print();
            ExitCode::from(code)
        }
    }
}

fn dispatch(command: Command, hooks: Hooks) -> ExitCode {
    match command {
        Command::Serve(args) => (hooks.serve)(args),
        Command::Check(args) => check::run(&args),
        Command::Drain(args) => (hooks.drain)(args),
        Command::Status(args) => (hooks.status)(args),
        Command::Key(KeyCommand::New { tenant }) => key::new(&tenant),
    }
}

/// Print a command's answer; a closed pipe is a failure, not a panic.
fn answer(text: &str, code: ExitCode) -> ExitCode {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => code,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Print why a command failed.
fn failure(text: &str) -> ExitCode {
    // Nowhere is left to report that standard error is gone.
    let _ = writeln!(std::io::stderr(), "streamgate: {text}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests;
