//! `streamgate-overhead`: what Streamgate costs beside a bare Pingora proxy, on loopback.
//!
//! One run drives the simulated engine directly, through a bare `ProxyHttp` and through the
//! Streamgate binary, in turns, so that what else the machine does falls on all three alike. Only
//! ratios and differences within one run mean something (`docs/performance.md`).
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

mod bare;
mod cases;
mod child;
mod client;
mod engine;
mod figures;
mod memory;
mod process;
mod run;
mod table;

use clap::{Parser, Subcommand};
use std::net::SocketAddr;
use std::process::ExitCode;

/// The product's allocator: the baseline differs from it in the proxy alone.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure and print a Markdown table.
    Run(run::Args),
    /// Be the bare Pingora proxy.
    Bare {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        upstream: SocketAddr,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Bare { listen, upstream } => bare::serve(listen, upstream),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("streamgate-overhead: {error:#}");
            ExitCode::FAILURE
        }
    }
}
