//! `streamgate status` and `streamgate drain`: they talk to a running replica.

use super::cli::{DrainArgs, StatusArgs};
use crate::admin::client::{AdminClient, ClientError};
use crate::admin::status::{self, StatusOptions};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// The environment variable with the admin API's token, for replicas that are not on loopback.
const TOKEN: &str = "STREAMGATE_ADMIN_TOKEN";

/// Show the state of a replica.
pub fn status(args: StatusArgs) -> ExitCode {
    finish(block_on(async {
        let client = AdminClient::new(&args.admin, token())?;
        let terminal = std::io::stdout().is_terminal();
        let options = StatusOptions { watch: args.watch, json: args.json, terminal };
        let stop = async {
            let _ = tokio::signal::ctrl_c().await;
        };
        status::run(&client, options, &mut std::io::stdout(), stop).await?;
        Ok(ExitCode::SUCCESS)
    }))
}

/// Drain a replica and wait. Exit code 0 drained, 2 the deadline passed.
pub fn drain(args: DrainArgs) -> ExitCode {
    if let Some(endpoint) = &args.endpoint {
        return drain_endpoint(&args, endpoint);
    }
    finish(block_on(async {
        let client = AdminClient::new(&args.admin, token())?;
        let report = client.drain(args.wait).await?;
        let text = if report.drained {
            format!("drained after {:.1} s", report.waited_seconds)
        } else {
            format!(
                "not drained after {:.1} s: {} in flight, {} queued",
                report.waited_seconds, report.in_flight, report.queued
            )
        };
        writeln!(std::io::stdout(), "{text}")?;
        Ok(ExitCode::from(report.exit_code()))
    }))
}

/// Drain an endpoint fleet-wide and wait. The same exit codes.
fn drain_endpoint(args: &DrainArgs, endpoint: &str) -> ExitCode {
    finish(block_on(async {
        let client = AdminClient::new(&args.admin, token())?;
        let report = client.drain_endpoint(endpoint, args.wait).await?;
        let confirmed = format!("{} of {} replicas", report.confirmed, report.replicas.len());
        let text = if report.drained {
            format!(
                "{endpoint} drained after {:.1} s, confirmed by {confirmed}",
                report.waited_seconds
            )
        } else {
            let known = if report.fleet_known { "" } else { "; other replicas are out of reach" };
            format!(
                "{endpoint} not drained after {:.1} s: {} in flight, confirmed by {confirmed}{known}",
                report.waited_seconds, report.in_flight
            )
        };
        writeln!(std::io::stdout(), "{text}")?;
        Ok(ExitCode::from(report.exit_code()))
    }))
}

fn token() -> Option<String> {
    std::env::var(TOKEN).ok()
}

fn block_on(work: impl Future<Output = Result<ExitCode, ClientError>>) -> Result<ExitCode, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(work).map_err(|error| error.to_string())
}

fn finish(result: Result<ExitCode, String>) -> ExitCode {
    result.unwrap_or_else(|problem| {
        // Nowhere is left to report that standard error is gone.
        let _ = writeln!(std::io::stderr(), "streamgate: {problem}");
        ExitCode::FAILURE
    })
}
