//! What may be written.

use crate::config::is_label;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Where a replica's admin API listens by default.
const ADMIN: &str = "http://127.0.0.1:9180";

/// An ingress for LLM inference that admits by what is running, knows whether a stream
/// completed, and drains without breaking one.
#[derive(Debug, Parser)]
#[command(name = "streamgate", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the ingress
    Serve(ServeArgs),
    /// Validate a configuration and prove the shutdown budget of manifests: everything that is
    /// wrong at once; exit 0 fine, 1 not, 66 manifests that cannot be read
    Check(CheckArgs),
    /// Drain a replica, or an engine endpoint; exit 0 drained, 2 deadline passed
    Drain(DrainArgs),
    /// Show the state of a replica
    Status(StatusArgs),
    /// Make API keys
    #[command(subcommand)]
    Key(KeyCommand),
}

/// `serve`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ServeArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

/// `check`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct CheckArgs {
    /// Configuration file; with manifests, for replicas whose ConfigMap is not among them
    #[arg(long, value_name = "FILE", required_unless_present = "manifests")]
    pub config: Option<PathBuf>,
    /// Kubernetes manifests to prove the shutdown budget of: files, folders, `-` for standard
    /// input
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub manifests: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `drain`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct DrainArgs {
    /// Admin API of the replica
    #[arg(long, value_name = "URL", default_value = ADMIN)]
    pub admin: String,
    /// Drain this engine endpoint, on all replicas, instead of the replica
    #[arg(long, value_name = "HOST:PORT", value_parser = endpoint)]
    pub endpoint: Option<String>,
    /// Longest wait, such as 150s
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub wait: Duration,
}

/// `status`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct StatusArgs {
    /// Admin API of the replica
    #[arg(long, value_name = "URL", default_value = ADMIN)]
    pub admin: String,
    /// Show it again and again until interrupted
    #[arg(long)]
    pub watch: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `key`.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Print a new API key once, and the line for the configuration
    New {
        /// Tenant the key is for; only labels the output
        #[arg(value_parser = label)]
        tenant: String,
    },
}

fn label(text: &str) -> Result<String, &'static str> {
    is_label(text).then(|| text.to_owned()).ok_or(
        "a tenant id has 1 to 63 letters, digits, `.`, `_` or `-`, beginning with a letter or digit",
    )
}

fn endpoint(text: &str) -> Result<String, &'static str> {
    let address = text.rsplit_once(':');
    let fits = address.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    fits.then(|| text.to_owned()).ok_or("an endpoint is host:port, such as 10.0.0.7:8000")
}
