//! Sizes that depend on each other.

use crate::config::errors::Report;
use crate::config::raw::RawConfig;

/// One tenant may hold half of `limits.bodies`; a body above that could never come in.
pub(super) fn check(raw: &RawConfig, report: &Report<'_>) {
    let limits = &raw.limits;
    if limits.bodies / 2 < limits.body {
        report.contradiction(
            "limits.bodies",
            &["limits.body"],
            "less than twice limits.body, so the largest body could never come in",
            format!("write at least {}B, or lower limits.body", 2 * limits.body),
        );
    }
}
