//! Sources of identity beside API keys.

use crate::config::errors::Report;
use crate::config::raw::RawConfig;

pub(super) fn check(raw: &RawConfig, report: &Report<'_>) {
    let Some(jwt) = &raw.identity.jwt else { return };
    if jwt.jwks_file.is_some() == jwt.jwks_url.is_some() {
        report.contradiction(
            "identity.jwt",
            &[],
            "exactly one source of keys is needed",
            "write either `jwks_file` or `jwks_url`",
        );
    }
}
