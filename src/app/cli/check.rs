//! `streamgate check`.

use super::{CheckArgs, answer, failure};
use crate::check;
use std::process::ExitCode;

/// Validate and print the outcome to standard output, whatever it is.
pub(super) fn run(args: &CheckArgs) -> ExitCode {
    if !args.manifests.is_empty() {
        return failure(
            "--manifests is not supported by this version; leave it out to check the configuration",
        );
    }
    let report = check::configuration(&args.config);
    let code = if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if !args.json {
        return answer(&report.to_string(), code);
    }
    match report.to_json() {
        Ok(json) => answer(&json, code),
        Err(error) => failure(&format!("cannot write JSON: {error}")),
    }
}
