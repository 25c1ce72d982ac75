//! What the code sees of what was written.

use super::*;
use crate::core::ids::{ModelName, PoolId};
use crate::core::policy::{Mode, ModelSet, OnLimit};
use std::time::Duration;

/// The whole format as the contract shows it, but for what this version refuses.
const CONTRACT: &str = r#"
listen:
  proxy: "0.0.0.0:8080"
  admin: "127.0.0.1:9180"
pools:
  - name: l20
    models: ["qwen38-27b"]
    endpoints: ["127.0.0.1:8001", "127.0.0.1:8002"]
    kind: engines
    strategy: least-request
    max_in_flight: 0
tenants:
  - id: interactive
    api_keys: ["KEY"]
    max_in_flight: 4
    on_limit: reject
    queue: {max_depth: 32, max_wait: 10s}
    weight: 1
    priority: 0
    requests_per_minute: 0
    tokens_per_minute: 0
    models: ["*"]
    pool: null
    mode: enforce
anonymous: reject
identity: {}
quota:
  store: memory
  redis: {url: "redis://127.0.0.1:6379/0"}
  replica_lease: 3s
  operation_timeout: 50ms
  when_unavailable: escrow
  on_fence: keep
  strict_failover: off
slo: {ttft: 2s, tpot: 150ms, e2e: 30s}
timeouts: {connect: 2s, first_byte: 120s, head_hold: 30s, stream_idle: 60s, write_stall: 30s, total: 0s}
limits: {body: 16MiB, header: 64KiB}
drain: {propagation: 10s, deadline: 150s, cut_margin: 5s}
records: {path: null}
log: {format: json, level: info}
"#;

#[test]
fn the_contract_is_accepted_and_shows_the_defaults() {
    let config = valid(&CONTRACT.replace("KEY", KEY_A));
    assert_eq!(config.listen, Listen::default());
    assert_eq!(config.timeouts, Timeouts::default());
    assert_eq!(config.slo, Slo::default());
    assert_eq!(config.drain, Drain::default());
    assert_eq!(config.limits, Limits { body: 16 << 20, bodies: 256 << 20, header: 65536 });
    assert_eq!(config.quota, Quota::default());
    assert_eq!(config.timeouts.total, None);
    assert_eq!(config.anonymous, None);
    assert_eq!(config.pools[0].max_in_flight, None);
    assert_eq!(config.pools[0].models, ModelSet::Only(vec![ModelName::from("qwen38-27b")]));
    assert_eq!(config.tenants[0].policy.models, ModelSet::Any);
    assert_eq!(config.tenants[0].policy.on_limit, OnLimit::Reject);
}

#[test]
fn every_supported_tenant_key_reaches_the_policy() {
    let tenant = ", on_limit: queue, queue: {max_depth: 3, max_wait: 250ms}, models: [m], pool: p, \
                  mode: shadow, may_route: true";
    let config = valid(&with("", tenant, "anonymous: t\n"));
    let policy = &config.tenant("t").unwrap().policy;
    assert_eq!(
        policy.on_limit,
        OnLimit::Queue { max_depth: 3, max_wait: Duration::from_millis(250) }
    );
    assert_eq!(policy.models, ModelSet::Only(vec![ModelName::from("m")]));
    assert_eq!(policy.pool, Some(PoolId::from("p")));
    assert_eq!((policy.mode, policy.may_route), (Mode::Shadow, true));
    assert_eq!(config.anonymous.as_ref().unwrap().as_str(), "t");
    assert_eq!(config.tenants[0].key_hashes[..], [KeyHash::of(b"sg-demo-interactive")]);
}

#[test]
fn every_supported_pool_key_reaches_the_pool() {
    let pool = ", kind: gateway, max_in_flight: 9, max_in_flight_per_endpoint: 8, \
                health: {path: /up, interval: 5s, timeout: 500ms}, \
                retries: {max_attempts: 1, budget_percent: 0, min_per_second: 0}";
    let config = valid(&with(pool, "", ""));
    let pool = config.pool("p").unwrap();
    assert_eq!(pool.kind, PoolKind::Gateway);
    assert_eq!((pool.max_in_flight, pool.max_in_flight_per_endpoint), (Some(9), Some(8)));
    assert_eq!(
        pool.health,
        Health {
            path: Some("/up".to_owned()),
            interval: Duration::from_secs(5),
            timeout: Duration::from_millis(500)
        }
    );
    assert_eq!(pool.retries, Retries { max_attempts: 1, budget_percent: 0, min_per_second: 0 });
    assert!(config.pool("q").is_none());
}

#[test]
fn the_remaining_sections_reach_the_configuration() {
    let config = valid(&section(
        "listen: {proxy: '[::]:0', admin: '[::1]:0'}\n\
         timeouts: {total: 1h, client_header: 1s, client_body: 2s, upstream_idle: 0s}\n\
         streams: {on_engine_abort: pass}\ndrain: {http_prestop: true}\n\
         log: {format: text, level: trace}\nruntime: {threads: 3}\n",
    ));
    assert_eq!(config.listen.proxy.to_string(), "[::]:0");
    assert_eq!(config.timeouts.total, Some(Duration::from_secs(3600)));
    assert_eq!(config.timeouts.client_header, Duration::from_secs(1));
    assert_eq!(config.timeouts.client_body, Duration::from_secs(2));
    assert_eq!(config.timeouts.upstream_idle, Duration::ZERO);
    assert_eq!(config.streams.on_engine_abort, OnEngineAbort::Pass);
    assert!(config.drain.http_prestop);
    assert_eq!(config.log, Log { format: LogFormat::Text, level: LogLevel::Trace });
    assert_eq!(config.runtime.threads.get(), 3);
}

#[test]
fn anchors_and_merge_keys_work() {
    let text = format!(
        "pools: [{{name: p, models: ['*'], endpoints: ['h:1']}}]\n\
         tenants:\n- &base {{id: a, api_keys: ['{KEY_A}'], max_in_flight: 7}}\n\
         - {{<<: *base, id: b, api_keys: ['{KEY_B}']}}\n"
    );
    assert_eq!(valid(&text).tenant("b").unwrap().policy.max_in_flight, 7);
}

#[test]
fn thousands_of_tenants_are_read() {
    let mut text = "pools: [{name: p, models: ['*'], endpoints: ['h:1']}]\ntenants:\n".to_owned();
    for n in 0..3000 {
        let hash = KeyHash::of(format!("key {n}").as_bytes()).to_config();
        text += &format!("- {{id: t{n}, api_keys: ['{hash}'], max_in_flight: 1}}\n");
    }
    assert_eq!(valid(&text).tenants.len(), 3000);
    let broken = text.replace("max_in_flight: 1", "max_in_flight: 0");
    assert_eq!(problems(&broken).len(), 3000);
}
