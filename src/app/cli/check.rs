//! `streamgate check`.

use super::{CheckArgs, UNREADABLE, answer, failure};
use crate::check::{self, ManifestReport};
use std::process::ExitCode;

/// Validate and print the outcome to standard output, whatever it is.
pub(super) fn run(args: &CheckArgs) -> ExitCode {
    let report = match &args.config {
        Some(config) if args.manifests.is_empty() => check::configuration(config),
        config => {
            check::manifests(config.as_deref(), &args.manifests, &mut std::io::stdin().lock())
        }
    };
    let readable = report.manifests().is_none_or(ManifestReport::is_readable);
    let code = match (readable, report.passed()) {
        (false, _) => ExitCode::from(UNREADABLE),
        (true, true) => ExitCode::SUCCESS,
        (true, false) => ExitCode::FAILURE,
    };
    if !args.json {
        return answer(&report.to_string(), code);
    }
    match report.to_json() {
        Ok(json) => answer(&json, code),
        Err(error) => failure(&format!("cannot write JSON: {error}")),
    }
}
