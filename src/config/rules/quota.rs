//! The quota store: settings that contradict each other.

use crate::config::errors::Report;
use crate::config::model::{Quota, StoreKind, StrictFailover, WhenUnavailable};
use crate::config::raw::RawConfig;
use humantime::format_duration;

pub(super) fn check(raw: &RawConfig, report: &Report<'_>) {
    unused(raw, report);
    timing(raw, report);
    password(raw, report);
    tls(raw, report);
    let quota = &raw.quota.quota;
    if quota.floors.percent > 0 && quota.when_unavailable != WhenUnavailable::Escrow {
        report.contradiction(
            "quota.floors.percent",
            &["quota.when_unavailable"],
            "floors are used only with when_unavailable: escrow",
            "write `when_unavailable: escrow`, or remove the floors",
        );
    }
    if quota.redis.copies > 1 && quota.strict_failover == StrictFailover::Off {
        report.contradiction(
            "quota.redis.copies",
            &["quota.strict_failover"],
            "nothing waits for copies with strict_failover: off",
            "write `strict_failover: wait`, or remove the key",
        );
    }
}

/// Without a store that replicas share, every other key would do nothing; its default may stand.
fn unused(raw: &RawConfig, report: &Report<'_>) {
    let (quota, default) = (&raw.quota.quota, Quota::default());
    if quota.store != StoreKind::Memory {
        return;
    }
    let keys = [
        ("redis.url", quota.redis.url != default.redis.url),
        ("redis.password_env", raw.quota.password_env.is_some()),
        ("redis.password_file", raw.quota.password_file.is_some()),
        ("redis.key_prefix", quota.redis.key_prefix != default.redis.key_prefix),
        ("redis.tls.ca", raw.quota.ca.is_some()),
        ("redis.tls.cert", raw.quota.cert.is_some()),
        ("redis.tls.key", raw.quota.key.is_some()),
        ("redis.copies", quota.redis.copies != default.redis.copies),
        ("replica_lease", quota.replica_lease != default.replica_lease),
        ("operation_timeout", quota.operation_timeout != default.operation_timeout),
        ("when_unavailable", quota.when_unavailable != default.when_unavailable),
        ("on_fence", quota.on_fence != default.on_fence),
        ("strict_failover", quota.strict_failover != default.strict_failover),
        ("floors.percent", quota.floors.percent != default.floors.percent),
        ("floors.per_replica", quota.floors.per_replica != default.floors.per_replica),
        ("floors.lease", quota.floors.lease != default.floors.lease),
    ];
    for (key, _) in keys.into_iter().filter(|(_, differs)| *differs) {
        report.contradiction(
            &format!("quota.{key}"),
            &["quota.store"],
            "does nothing with quota.store: memory",
            "set quota.store: redis, or remove the key",
        );
    }
}

/// Replicas renew their lease four times in its length; an answer must not take longer.
fn timing(raw: &RawConfig, report: &Report<'_>) {
    let quota = &raw.quota.quota;
    if quota.operation_timeout > quota.replica_lease / 4 {
        report.contradiction(
            "quota.operation_timeout",
            &["quota.replica_lease"],
            "longer than a quarter of quota.replica_lease",
            format!("write at most {}", format_duration(quota.replica_lease / 4)),
        );
    }
    let floors = &quota.floors;
    if floors.percent > 0 && floors.lease < quota.replica_lease {
        report.contradiction(
            "quota.floors.lease",
            &["quota.replica_lease"],
            "shorter than quota.replica_lease, so floors would end before ordinary slots",
            format!("write at least {}", format_duration(quota.replica_lease)),
        );
    }
}

fn password(raw: &RawConfig, report: &Report<'_>) {
    let quota = &raw.quota;
    let given = [
        ("quota.redis.url", quota.quota.redis.url.password.is_some()),
        ("quota.redis.password_env", quota.password_env.is_some()),
        ("quota.redis.password_file", quota.password_file.is_some()),
    ];
    let mut given = given.into_iter().filter(|(_, given)| *given).map(|(key, _)| key);
    if let (Some(first), Some(second)) = (given.next(), given.next()) {
        report.contradiction(
            second,
            &[first],
            format!("{first} gives a password too"),
            "keep one of the two",
        );
    }
}

fn tls(raw: &RawConfig, report: &Report<'_>) {
    let quota = &raw.quota;
    let files = [
        ("quota.redis.tls.ca", quota.ca.is_some()),
        ("quota.redis.tls.cert", quota.cert.is_some()),
        ("quota.redis.tls.key", quota.key.is_some()),
    ];
    let plain = !quota.quota.redis.url.tls;
    if let Some((key, _)) = files.iter().find(|(_, given)| *given && plain) {
        report.contradiction(
            key,
            &["quota.redis.url"],
            "the connections of quota.redis.url are not TLS",
            "begin the URL with `rediss`, or remove the key",
        );
    }
    let (cert, key) = (files[1], files[2]);
    if cert.1 != key.1 {
        let (there, missing) = if cert.1 { (cert.0, key.0) } else { (key.0, cert.0) };
        report.contradiction(
            there,
            &[missing],
            format!("{missing} is missing"),
            "a client certificate and its key go together",
        );
    }
}
