//! API keys: one key, one tenant; and every tenant can be somebody.

use crate::config::errors::Report;
use crate::config::raw::RawConfig;
use std::collections::HashMap;

pub(super) fn check(raw: &RawConfig, report: &Report<'_>) {
    let mut seen = HashMap::new();
    for key in raw.tenants.iter().flat_map(|tenant| &tenant.api_keys) {
        if let Some(first) = seen.insert(key.value, &key.path) {
            report.contradiction(
                &key.path,
                &[],
                format!("the same key as {first}"),
                "a key belongs to one tenant: make a new one with `streamgate key new TENANT`",
            );
        }
    }
    let elsewhere = raw.identity.jwt.is_some() || raw.identity.trusted_header.is_some();
    for tenant in &raw.tenants {
        if tenant.api_keys.is_empty() && tenant.id != raw.anonymous && !elsewhere {
            report.contradiction(
                &format!("{}.api_keys", tenant.path),
                &["anonymous", "identity", &format!("{}.id", tenant.path)],
                "nobody can be this tenant: it has no key and is not the anonymous one",
                "add the `sha256:…` line of `streamgate key new TENANT`",
            );
        }
    }
}
