//! The file as it is written: one type a section, values typed and in their range, nothing
//! resolved yet. Each field states unit, range and default; `config/streamgate.yaml` says the
//! same to operators.

mod identity;
mod pool;
mod quota;
mod sections;
mod tenant;

pub(super) use identity::{RawIdentity, RawJwt, RawTrustedHeader};
pub(super) use pool::{RawDiscovery, RawPool};
pub(super) use quota::RawQuota;
pub(super) use tenant::{RawQueue, RawTenant};

use super::errors::Report;
use super::model::{Drain, Limits, Listen, Log, Runtime, Slo, Streams, Timeouts};
use super::read::kind::{label, path};
use super::read::{At, Section};
use super::yaml::Node;
use std::path::PathBuf;
use std::time::Duration;

/// The whole file.
pub(super) struct RawConfig {
    pub listen: Listen,
    /// `admin.token_file`: file that holds the admin API's bearer token. Default: none.
    pub admin_token_file: Option<PathBuf>,
    /// At least one.
    pub pools: Vec<At<RawPool>>,
    /// At least one.
    pub tenants: Vec<At<RawTenant>>,
    /// `reject` or a tenant id. Default `reject`.
    pub anonymous: String,
    pub identity: RawIdentity,
    pub quota: RawQuota,
    pub slo: Slo,
    pub timeouts: Timeouts,
    pub limits: Limits,
    pub streams: Streams,
    pub drain: Drain,
    /// `records.path`: file that gets one JSON line a request. Default: none.
    pub records_path: Option<PathBuf>,
    pub log: Log,
    pub runtime: Runtime,
}

/// The word that `anonymous` has when nobody is.
pub(super) const REJECT: &str = "reject";

/// Read the whole tree.
pub(super) fn read(tree: &Node, report: &Report<'_>) -> RawConfig {
    Section::read(report, "", Some(tree), |root| RawConfig {
        listen: root.section("listen", sections::listen),
        admin_token_file: root.section("admin", |s| s.optional("token_file", path)),
        pools: root.sections("pools", "add a pool of endpoints", pool::read),
        tenants: root.sections("tenants", "add a tenant", tenant::read),
        anonymous: root.or("anonymous", label, REJECT.to_owned()),
        identity: root.section("identity", identity::read),
        quota: root.section("quota", quota::read),
        slo: root.section("slo", sections::slo),
        timeouts: root.section("timeouts", sections::timeouts),
        limits: root.section("limits", sections::limits),
        streams: root.section("streams", sections::streams),
        drain: root.section("drain", sections::drain),
        records_path: root.section("records", |s| s.optional("path", path)),
        log: root.section("log", sections::log),
        runtime: root.section("runtime", sections::runtime),
    })
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const HOUR: Duration = secs(3600);
