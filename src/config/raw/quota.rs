//! `quota`.

use super::{ms, secs};
use crate::config::model::{OnFence, Quota, StoreKind, StrictFailover, WhenUnavailable};
use crate::config::read::Section;
use crate::config::read::kind::{duration, one_of, redis_url};

const UNAVAILABLE: [(&str, WhenUnavailable); 3] = [
    ("escrow", WhenUnavailable::Escrow),
    ("closed", WhenUnavailable::Closed),
    ("open", WhenUnavailable::Open),
];

/// `store` (`memory` or `redis`, default `memory`), `redis.url` (default
/// `redis://127.0.0.1:6379/0`), `replica_lease` (500 ms to 1 min, default 3 s),
/// `operation_timeout` (1 ms to 10 s, default 50 ms), `when_unavailable` (`escrow`, `closed` or
/// `open`, default `escrow`), `on_fence` (`keep` or `cut`, default `keep`), `strict_failover`
/// (`off` or `wait`, default `off`).
pub(super) fn read(s: &mut Section<'_>) -> Quota {
    let default = Quota::default();
    let stores = one_of(&[("memory", StoreKind::Memory), ("redis", StoreKind::Redis)]);
    let fences = one_of(&[("keep", OnFence::Keep), ("cut", OnFence::Cut)]);
    let failovers = one_of(&[("off", StrictFailover::Off), ("wait", StrictFailover::Wait)]);
    let lease = duration(ms(500)..=secs(60));
    let timeout = duration(ms(1)..=secs(10));
    Quota {
        store: s.or("store", stores, default.store),
        redis_url: s.section("redis", |s| s.or("url", redis_url, default.redis_url)),
        replica_lease: s.or("replica_lease", lease, default.replica_lease),
        operation_timeout: s.or("operation_timeout", timeout, default.operation_timeout),
        when_unavailable: s.or("when_unavailable", one_of(&UNAVAILABLE), default.when_unavailable),
        on_fence: s.or("on_fence", fences, default.on_fence),
        strict_failover: s.or("strict_failover", failovers, default.strict_failover),
    }
}
