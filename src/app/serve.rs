//! `streamgate serve`: start, listen, run until the drain has ended.

use super::cli::ServeArgs;
use super::compose::{Process, VERSION};
use super::listener::{Door, bind};
use super::reload::Reloader;
use super::signals;
use super::tls::TlsAcceptor;
use crate::admin::Admin;
use crate::admin::access::Access;
use crate::config::{self, Config};
use crate::lifecycle::{EndpointDrainHandle, Lifecycle};
use crate::telemetry::logging::{self, LogFormat, LogParams};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How long the start waits to hear what drains.
const FIRST_READ: Duration = Duration::from_secs(1);
/// How long the runtime may take to stop after the last answer.
const STOP: Duration = Duration::from_millis(500);
/// How long the last records may take to reach the disk.
const RECORDS: Duration = Duration::from_secs(2);

/// Below this many client connections the start says so.
const FEW_CLIENTS: usize = 256;

type Failure = Box<dyn std::error::Error>;

/// Run the ingress until it is told to stop. Exit code: 0 drained, 1 could not start, 2 streams
/// had to be cut.
pub fn serve(args: ServeArgs) -> ExitCode {
    match start(args) {
        Ok(code) => code,
        Err(failure) => {
            // Before logging works, and readable in a terminal.
            let _ = writeln!(std::io::stderr(), "streamgate: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: ServeArgs) -> Result<ExitCode, Failure> {
    let config = Arc::new(Config::load(&args.config)?);
    let log = logging::init(&log_params(&config))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.runtime.threads.get())
        .enable_all()
        .build()?;
    let process = {
        let _inside = runtime.enter();
        Process::new(config)?
    };
    let telemetry = process.telemetry.clone();
    let code = runtime.block_on(run(process, &args.config))?;
    // What is left are idle connections, which nothing waits for.
    runtime.shutdown_timeout(STOP);
    telemetry.close(RECORDS);
    drop(log);
    Ok(ExitCode::from(code))
}

async fn run(process: Process, path: &Path) -> Result<u8, Failure> {
    let config = process.config.clone();
    let proxy_port = bind("listen.proxy", config.listen.proxy)?;
    let admin_port = bind("listen.admin", config.listen.admin)?;
    let tls = match &config.listen.tls {
        Some(files) => Some(Arc::new(TlsAcceptor::load(&files.cert, &files.key)?)),
        None => None,
    };
    let lifecycle = Lifecycle::start(&config.drain, process.admission.clone());
    signals::forward(lifecycle.clone())?;
    let endpoints = process.endpoint_drains();
    let admin = Arc::new(admin(&process, &lifecycle, &endpoints));
    let reloader = Reloader::new(path, process.clone(), admin.clone())?;
    process.pools.keep();
    let max_clients = process.descriptors.clients;
    process.store.ready().await;
    // What drains already is not chosen by the first request.
    endpoints.ready(FIRST_READ).await;
    tracing::info!(
        version = VERSION,
        proxy = %proxy_port.local_addr()?,
        admin = %admin_port.local_addr()?,
        tls = tls.is_some(),
        max_clients,
        "serving"
    );
    if max_clients < FEW_CLIENTS {
        let limit = process.descriptors.limit;
        tracing::warn!(limit, max_clients, "few file descriptors; raise `ulimit -n`");
    }
    let end = lifecycle.clone();
    let serving_admin = tokio::spawn(admin.serve(admin_port, async move {
        end.exit().await;
    }));
    let gateway = process.gateway.clone();
    let door =
        Door { listener: proxy_port, tls, gateway, farewell: lifecycle.farewell(), max_clients };
    let code = tokio::select! {
        code = lifecycle.exit() => code,
        never = door.open() => match never {},
        never = reloader.run() => match never {},
    };
    endpoints.close().await;
    process.store.leave().await;
    // A blocked drain call gets its answer.
    let _ = serving_admin.await;
    Ok(code)
}

fn admin(process: &Process, lifecycle: &Lifecycle, endpoints: &EndpointDrainHandle) -> Admin {
    let config = &process.config;
    Admin {
        observe: Arc::new(process.observer(lifecycle.clone())),
        telemetry: process.telemetry.clone(),
        drain: Arc::new(lifecycle.clone()),
        endpoints: Arc::new(endpoints.clone()),
        access: Access::new(
            config.admin.token.as_ref().map(config::Secret::expose),
            config.drain.http_prestop,
        ),
        version: VERSION,
        default_wait: config.drain.deadline,
        max_connections: process.descriptors.admin,
    }
}

fn log_params(config: &Config) -> LogParams {
    LogParams {
        format: match config.log.format {
            config::LogFormat::Json => LogFormat::Json,
            config::LogFormat::Text => LogFormat::Text,
        },
        level: config.log.level.as_str().parse().unwrap_or(tracing::Level::INFO),
    }
}
