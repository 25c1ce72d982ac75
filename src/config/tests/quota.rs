//! The quota section.

use super::*;
use std::time::Duration;

fn quota(fields: &str) -> String {
    section(&format!("quota: {{store: redis, {fields}}}\n"))
}

#[test]
fn nothing_but_defaults_stands_beside_a_store_in_memory() {
    let unused = |key: &str| format!("quota.{key}: does nothing with quota.store: memory");
    for (fields, keys) in [
        ("redis: {url: 'redis://10.0.0.5:6379/0'}", &["redis.url"][..]),
        ("redis: {password_env: NO_SUCH_VARIABLE_HERE}", &["redis.password_env"]),
        ("redis: {password_file: /no/such/file}", &["redis.password_file"]),
        ("redis: {key_prefix: a, copies: 2}", &["redis.key_prefix", "redis.copies"]),
        (
            "redis: {tls: {ca: /a, cert: /b, key: /c}}",
            &["redis.tls.ca", "redis.tls.cert", "redis.tls.key"],
        ),
        (
            "when_unavailable: closed, on_fence: cut, replica_lease: 9s",
            &["replica_lease", "when_unavailable", "on_fence"],
        ),
        ("operation_timeout: 2s, strict_failover: wait", &["operation_timeout", "strict_failover"]),
        (
            "floors: {percent: 1, per_replica: 2, lease: 2m}",
            &["floors.percent", "floors.per_replica", "floors.lease"],
        ),
    ] {
        let expected: Vec<_> = keys.iter().map(|key| unused(key)).collect();
        for store in ["store: memory, ", ""] {
            let text = section(&format!("quota: {{{store}{fields}}}\n"));
            assert_eq!(problems(&text), expected, "{text}");
            let errors = text.parse::<Config>().unwrap_err();
            let remedy = "set quota.store: redis, or remove the key";
            assert!(errors.errors().iter().all(|error| error.remedy == remedy));
        }
    }
    let defaults = "store: memory, redis: {url: 'redis://127.0.0.1', password_env: null, \
                    key_prefix: sg, tls: {ca: null}, copies: 1}, replica_lease: 3000ms, \
                    operation_timeout: 50ms, when_unavailable: escrow, on_fence: keep, \
                    strict_failover: off, floors: {percent: 0, per_replica: 1, lease: 1m}";
    let config = valid(&section(&format!("quota: {{{defaults}}}\n")));
    assert_eq!(config.quota, Quota::default());
}

#[test]
fn every_key_reads() {
    let config = valid(&quota(
        "redis: {url: 'rediss://u:p@h/1', key_prefix: 'x:y', copies: 2}, \
         replica_lease: 8s, operation_timeout: 2s, when_unavailable: escrow, on_fence: cut, \
         strict_failover: wait, floors: {percent: 25, per_replica: 2, lease: 2m}",
    ));
    let expected = Quota {
        store: StoreKind::Redis,
        redis: Redis {
            url: RedisUrl::parse("rediss://u:p@h/1").unwrap(),
            key_prefix: "x:y".to_owned(),
            tls: RedisTls::default(),
            copies: 2,
        },
        replica_lease: Duration::from_secs(8),
        operation_timeout: Duration::from_secs(2),
        when_unavailable: WhenUnavailable::Escrow,
        on_fence: OnFence::Cut,
        strict_failover: StrictFailover::Wait,
        floors: QuotaFloors { percent: 25, per_replica: 2, lease: Duration::from_secs(120) },
    };
    assert_eq!(config.quota, expected);
}

#[test]
fn ranges_and_choices() {
    only(&quota("replica_lease: 1s"), "quota.replica_lease: out of range");
    only(&quota("floors: {percent: 101}"), "quota.floors.percent: out of range");
    only(&quota("redis: {copies: 0}"), "quota.redis.copies: out of range");
    only(
        &quota("redis: {key_prefix: 'a{b}'}"),
        "quota.redis.key_prefix: not usable as the beginning of a key",
    );
    only(&section("quota: {store: etcd, on_fence: cut}\n"), "quota.store: not one of the choices");
}

#[test]
fn the_store_answers_well_within_the_lease() {
    only(
        &quota("operation_timeout: 751ms"),
        "quota.operation_timeout: longer than a quarter of quota.replica_lease",
    );
}

#[test]
fn floors_need_escrow_and_outlive_ordinary_slots() {
    only(
        &quota("when_unavailable: closed, floors: {percent: 10}"),
        "quota.floors.percent: floors are used only with when_unavailable: escrow",
    );
    only(
        &quota("floors: {percent: 10, lease: 2s}"),
        "quota.floors.lease: shorter than quota.replica_lease, so floors would end before ordinary slots",
    );
}

#[test]
fn copies_are_waited_for_or_not_named() {
    only(
        &quota("redis: {copies: 2}"),
        "quota.redis.copies: nothing waits for copies with strict_failover: off",
    );
    valid(&quota("redis: {copies: 2}, strict_failover: wait"));
}

#[test]
fn a_password_has_one_source() {
    only(
        &quota("redis: {url: 'redis://:p@h', password_env: PATH}"),
        "quota.redis.password_env: quota.redis.url gives a password too",
    );
    only(
        &quota("redis: {password_env: NO_SUCH_VARIABLE_HERE}"),
        "quota.redis.password_env: the environment variable NO_SUCH_VARIABLE_HERE is not set",
    );
}

#[test]
fn a_wrong_url_says_what_is_wrong_without_showing_it() {
    let text = quota("redis: {url: 'redis://u:hush@h:port/0'}");
    only(&text, "quota.redis.url: not a Redis URL: a port is not a number from 1 to 65535");
    let errors = text.parse::<Config>().unwrap_err();
    assert!(!format!("{errors} {errors:?}").contains("hush"));
}

#[test]
fn tls_files_need_a_tls_url_and_each_other() {
    only(
        &quota("redis: {tls: {ca: /no/such/file}}"),
        "quota.redis.tls.ca: the connections of quota.redis.url are not TLS",
    );
    only(
        &quota("redis: {url: 'rediss://h', tls: {cert: /no/such/file}}"),
        "quota.redis.tls.cert: quota.redis.tls.key is missing",
    );
}

#[test]
fn tls_files_are_read_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(["redis.test".to_owned()]).unwrap();
    let write = |name: &str, text: String| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let cert = write("cert", pair.cert.pem());
    let key = write("key", pair.signing_key.serialize_pem());
    let text = |ca: &str, cert: &str, key: &str| {
        quota(&format!("redis: {{url: 'rediss://h', tls: {{ca: {ca}, cert: {cert}, key: {key}}}}}"))
    };
    let config = valid(&text(&cert, &cert, &key));
    assert_eq!(config.quota.redis.tls.ca, Some(Secret::from(pair.cert.pem())));
    assert!(config.quota.redis.tls.client.is_some());
    assert!(!format!("{config:?}").contains("BEGIN"));
    only(&text(&key, &cert, &key), "quota.redis.tls.ca: no certificate in it");
    only(&text(&cert, &cert, &cert), "quota.redis.tls.key: no usable private key in it");
}
