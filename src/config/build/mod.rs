//! Raw → validated. Resolves what lies outside the text (files, environment variables) and
//! reports what cannot be resolved. Total: after a report the result is thrown away, so
//! placeholders of wrong values never reach anybody.

mod files;
mod pools;
mod quota;
mod tenants;

use super::errors::Report;
use super::model::{Admin, Config, Identity, Jwks, Jwt, Records, TrustedHeader};
use super::outside::Outside;
use super::raw::{REJECT, RawConfig, RawIdentity, RawJwt, RawTrustedHeader};
use super::read::At;
use crate::core::ids::{ModelName, TenantId};
use crate::core::policy::{ModelSet, Revision};
use std::sync::Arc;

/// Build the configuration.
pub(super) fn build(
    raw: RawConfig,
    revision: Revision,
    report: &Report<'_>,
    outside: &dyn Outside,
) -> Config {
    let files = files::Files { report, outside };
    if let Some(tls) = &raw.listen.tls {
        files.tls(tls);
    }
    if let Some(path) = &raw.records_path {
        files.writable("records.path", path);
    }
    let token = raw.admin_token_file.as_deref();
    let token = token.and_then(|path| files.secret("admin.token_file", path));
    let tenants = raw.tenants.into_iter();
    Config {
        revision,
        admin: Admin { token, token_file: raw.admin_token_file },
        pools: raw.pools.into_iter().map(|pool| Arc::new(pools::build(pool, &files))).collect(),
        tenants: tenants.map(|t| Arc::new(tenants::build(t.value, revision))).collect(),
        anonymous: (raw.anonymous != REJECT).then(|| TenantId::from(raw.anonymous)),
        identity: identity(raw.identity),
        records: Records { path: raw.records_path },
        listen: raw.listen,
        quota: quota::build(raw.quota, &files),
        slo: raw.slo,
        timeouts: raw.timeouts,
        limits: raw.limits,
        streams: raw.streams,
        drain: raw.drain,
        log: raw.log,
        runtime: raw.runtime,
    }
}

/// No name at all is any model: the default of a tenant.
fn model_set(models: Vec<At<String>>) -> ModelSet {
    if models.is_empty() || models.iter().any(|model| model.value == "*") {
        return ModelSet::Any;
    }
    ModelSet::Only(models.into_iter().map(|model| ModelName::from(model.value)).collect())
}

fn identity(raw: RawIdentity) -> Identity {
    Identity {
        jwt: raw.jwt.and_then(jwt),
        trusted_header: raw.trusted_header.and_then(trusted_header),
    }
}

fn jwt(raw: RawJwt) -> Option<Jwt> {
    let jwks = raw.jwks_file.map(Jwks::File).or(raw.jwks_url.map(Jwks::Url))?;
    let RawJwt { issuer, audience, tenant_claim, .. } = raw;
    Some(Jwt { issuer, audience, jwks, tenant_claim })
}

fn trusted_header(raw: RawTrustedHeader) -> Option<TrustedHeader> {
    let from = raw.from.into_iter().map(|network| network.value).collect();
    Some(TrustedHeader { name: raw.name?, from })
}
