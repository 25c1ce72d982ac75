//! The demo: two simulated engines, the real Streamgate in front of them, two tenants, a small
//! load without end, and what to try by hand.

mod display;
mod hints;
mod load;
mod settings;

pub use settings::{Settings, SettingsError, Tenant};

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, EngineConfig};
use crate::target::streamgate::process::{Process, listening};

/// Real time for Streamgate to end; the load has ended before.
const PATIENCE: Duration = Duration::from_secs(8);

/// What the demo is made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// The `streamgate` program.
    pub streamgate: PathBuf,
    /// Its configuration; the engines are started on the addresses it names.
    pub config: PathBuf,
    /// Times faster than real that the engines generate.
    pub speed: f64,
}

/// Runs the demo until `stop`, then stops everything that it started.
///
/// # Errors
/// When a port is in use (the message names the key to change), or something cannot be started.
pub async fn run(options: &Options, stop: CancellationToken) -> anyhow::Result<()> {
    let settings = Settings::read(&options.config)?;
    let file = options.config.display().to_string();
    free(settings.proxy, &file, "listen.proxy").await?;
    free(settings.admin, &file, "listen.admin").await?;
    let mut engines = Vec::new();
    for (i, addr) in settings.endpoints.iter().enumerate() {
        let key = format!("pools[].endpoints[{i}]");
        engines.push(engine(*addr, options.speed).await.with_context(|| busy(*addr, &file, &key))?);
    }
    let folder = tempfile::Builder::new().prefix("streamgate-demo-").tempdir()?;
    let process = streamgate(options, &settings, folder.path()).await?;
    print!("{}", hints::text(&settings));
    let load = load::Load::start(&settings, stop.clone())?;
    let ended = watch(process, &load, &settings, stop).await;
    load.stop().await;
    let process = ended?;
    let end = process.stop(PATIENCE).await;
    drop(engines);
    println!("{end}; the engines are stopped.");
    Ok(())
}

/// Shows the figures until the user stops, or Streamgate ends by itself.
async fn watch(
    mut process: Process,
    load: &load::Load,
    settings: &Settings,
    stop: CancellationToken,
) -> anyhow::Result<Process> {
    tokio::select! {
        () = stop.cancelled() => {}
        () = display::show(load, settings) => {}
        end = process.ended() => anyhow::bail!("streamgate ended by itself: {end}"),
    }
    println!("\nstopping");
    Ok(process)
}

async fn engine(addr: SocketAddr, speed: f64) -> std::io::Result<Engine> {
    Engine::start(EngineConfig { listen: addr, ..EngineConfig::calibrated(speed) }).await
}

async fn streamgate(
    options: &Options,
    settings: &Settings,
    folder: &Path,
) -> anyhow::Result<Process> {
    let config = options.config.to_string_lossy().into_owned();
    let args = ["serve", "--config", config.as_str()];
    let log = folder.join("streamgate.log");
    let mut process = Process::spawn("streamgate", &options.streamgate, &args, &log)?;
    process.ready(|| listening(settings.proxy)).await?;
    Ok(process)
}

/// Fails if something listens there.
async fn free(addr: SocketAddr, file: &str, key: &str) -> anyhow::Result<()> {
    match tokio::net::TcpListener::bind(addr).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error).with_context(|| busy(addr, file, key)),
    }
}

fn busy(addr: SocketAddr, file: &str, key: &str) -> String {
    format!("{addr} cannot be used: stop what listens there, or change `{key}` in {file}")
}
