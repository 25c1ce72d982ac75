//! `streamgate-loadtests demo`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;
use streamgate_loadtests::demo;
use tokio_util::sync::CancellationToken;

use super::signals::stopped;

/// Two simulated engines, Streamgate in front of them, and a small load from two tenants.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// The streamgate program.
    #[arg(long, env = "STREAMGATE_BIN")]
    streamgate: PathBuf,
    /// Its configuration, with the keys of the tenants in its comments.
    #[arg(long, default_value = "config/demo.yaml")]
    config: PathBuf,
    /// Times faster than real that the engines generate.
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options =
        demo::Options { streamgate: args.streamgate, config: args.config, speed: args.speed };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = CancellationToken::new();
        let token = stop.clone();
        tokio::spawn(async move {
            stopped().await;
            token.cancel();
        });
        demo::run(&options, stop).await?;
        Ok(ExitCode::SUCCESS)
    })
}
