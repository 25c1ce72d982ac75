//! `quota`.

use super::{HOUR, ms, secs};
use crate::config::model::{
    OnFence, Quota, QuotaFloors, Redis, StoreKind, StrictFailover, WhenUnavailable,
};
use crate::config::read::Section;
use crate::config::read::kind::{duration, key_prefix, one_of, path, redis_url, variable, whole};
use std::path::PathBuf;

const UNAVAILABLE: [(&str, WhenUnavailable); 3] = [
    ("escrow", WhenUnavailable::Escrow),
    ("closed", WhenUnavailable::Closed),
    ("open", WhenUnavailable::Open),
];

/// The section, with the files and the variable it names not read yet.
pub(in crate::config) struct RawQuota {
    pub quota: Quota,
    /// At most one of the two, and none if the URL has a password.
    pub password_env: Option<String>,
    pub password_file: Option<PathBuf>,
    pub ca: Option<PathBuf>,
    /// Both or none.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// `store` (`memory` or `redis`, default `memory`), `redis` (below), `replica_lease` (1.5 s to
/// 1 min, default 3 s), `operation_timeout` (1 ms to 10 s, default 50 ms), `when_unavailable`
/// (`escrow`, `closed` or `open`, default `escrow`), `on_fence` (`keep` or `cut`, default
/// `keep`), `strict_failover` (`off` or `wait`, default `off`), `floors` (below).
pub(super) fn read(s: &mut Section<'_>) -> RawQuota {
    let default = Quota::default();
    let stores = one_of(&[("memory", StoreKind::Memory), ("redis", StoreKind::Redis)]);
    let fences = one_of(&[("keep", OnFence::Keep), ("cut", OnFence::Cut)]);
    let failovers = one_of(&[("off", StrictFailover::Off), ("wait", StrictFailover::Wait)]);
    let lease = duration(ms(1500)..=secs(60));
    let timeout = duration(ms(1)..=secs(10));
    let store = s.or("store", stores, default.store);
    let raw = s.section("redis", redis);
    let quota = Quota {
        store,
        replica_lease: s.or("replica_lease", lease, default.replica_lease),
        operation_timeout: s.or("operation_timeout", timeout, default.operation_timeout),
        when_unavailable: s.or("when_unavailable", one_of(&UNAVAILABLE), default.when_unavailable),
        on_fence: s.or("on_fence", fences, default.on_fence),
        strict_failover: s.or("strict_failover", failovers, default.strict_failover),
        floors: s.section("floors", floors),
        redis: raw.quota.redis,
    };
    RawQuota { quota, ..raw }
}

/// `url` (default `redis://127.0.0.1:6379/0`), `password_env`, `password_file` (default none),
/// `key_prefix` (default `sg`), `tls: {ca, cert, key}` (default none), `copies` (1 to 10,
/// default 1).
fn redis(s: &mut Section<'_>) -> RawQuota {
    let default = Redis::default();
    let (password_env, password_file) =
        (s.optional("password_env", variable), s.optional("password_file", path));
    let (ca, cert, key) = s.section("tls", |tls| {
        (tls.optional("ca", path), tls.optional("cert", path), tls.optional("key", path))
    });
    let redis = Redis {
        url: s.or("url", redis_url, default.url),
        key_prefix: s.or("key_prefix", key_prefix, default.key_prefix),
        copies: s.or("copies", whole(1..=10_u32), default.copies),
        tls: default.tls,
    };
    let quota = Quota { redis, ..Quota::default() };
    RawQuota { quota, password_env, password_file, ca, cert, key }
}

/// `percent` (0 to 100, default 0), `per_replica` (1 to 1000, default 1), `lease` (1.5 s to 1 h,
/// default 60 s).
fn floors(s: &mut Section<'_>) -> QuotaFloors {
    let default = QuotaFloors::default();
    QuotaFloors {
        percent: s.or("percent", whole(0..=100_u32), default.percent),
        per_replica: s.or("per_replica", whole(1..=1000_u32), default.per_replica),
        lease: s.or("lease", duration(ms(1500)..=HOUR), default.lease),
    }
}
