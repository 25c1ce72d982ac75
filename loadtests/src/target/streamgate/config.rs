//! The configuration that a run gives to Streamgate.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::plan::hex;
use crate::scenario::{Policy, Scenario, StreamgateSpec};

/// A tenant that a scenario does not describe has this cap: none that matters.
const NO_CAP: u32 = 100_000;

/// Where one replica listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) proxy: SocketAddr,
    pub(super) admin: SocketAddr,
}

/// What a configuration depends on.
pub(super) struct Wanted<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) spec: &'a StreamgateSpec,
    pub(super) strategy: Policy,
    pub(super) endpoints: &'a [SocketAddr],
    pub(super) redis: Option<SocketAddr>,
}

/// The API key of a tenant, made up from its name.
pub(super) fn key(tenant: &str) -> String {
    format!("sg-load-{tenant}")
}

/// The configuration, as JSON: a YAML file may hold it.
pub(super) fn config(wanted: &Wanted<'_>, ports: Ports) -> Value {
    let scale = wanted.scenario.time_scale;
    let slo = &wanted.scenario.slo;
    let scaled = |length: Duration| text(length.div_f64(scale));
    let seconds = |s: u64| scaled(Duration::from_secs(s));
    let endpoints: Vec<String> = wanted.endpoints.iter().map(ToString::to_string).collect();
    let mut pool = json!({"name": "sim", "models": ["*"], "endpoints": endpoints});
    pool["strategy"] = json!(wanted.strategy);
    merge(&mut pool, &Value::Object(wanted.spec.pool.clone()), scale);
    let mut all = json!({
        "listen": {"proxy": ports.proxy.to_string(), "admin": ports.admin.to_string()},
        "pools": [pool],
        "tenants": tenants(wanted.scenario, wanted.spec),
        "slo": {"ttft": scaled(slo.ttft.0), "tpot": scaled(slo.tpot.0), "e2e": scaled(slo.e2e.0)},
        "timeouts": {
            "first_byte": seconds(120),
            "head_hold": seconds(30),
            "stream_idle": seconds(60),
        },
        "drain": {"propagation": seconds(10), "deadline": seconds(150), "cut_margin": seconds(5)},
        "log": {"format": "json", "level": "warn"},
    });
    if let Some(redis) = wanted.redis {
        all["quota"] = json!({"store": "redis", "redis": {"url": format!("redis://{redis}/0")}});
    }
    merge(&mut all, &Value::Object(wanted.spec.config.clone()), scale);
    all
}

fn tenants(scenario: &Scenario, spec: &StreamgateSpec) -> Vec<Value> {
    let asked = scenario.phases.iter().flat_map(|p| &p.requests).map(|r| r.tenant.as_str());
    let described: Vec<&str> = spec.tenants.iter().filter_map(|t| t.get("id")?.as_str()).collect();
    let others: BTreeSet<&str> = asked.filter(|id| !described.contains(id)).collect();
    let plain = |id: &str| {
        let entry = json!({"id": id, "max_in_flight": NO_CAP});
        entry.as_object().cloned().unwrap_or_default()
    };
    let all = spec.tenants.iter().cloned().chain(others.into_iter().map(plain));
    all.map(|tenant| with_key(tenant, scenario.time_scale)).collect()
}

fn with_key(tenant: Map<String, Value>, scale: f64) -> Value {
    let mut entry = json!({});
    merge(&mut entry, &Value::Object(tenant), scale);
    let id = entry["id"].as_str().unwrap_or_default().to_owned();
    let hash = hex(&Sha256::digest(key(&id)));
    entry["api_keys"] = json!([format!("sha256:{hash}")]);
    entry
}

/// Lays `over` over `base`, dividing every duration in it by the scale: scenarios speak of
/// virtual time. Those of `quota` are left alone: leases are between replicas and a store, which
/// run in real time.
fn merge(base: &mut Value, over: &Value, scale: f64) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                let scale = if name == "quota" { 1.0 } else { scale };
                merge(base.entry(name.clone()).or_insert(Value::Null), value, scale);
            }
        }
        (base, Value::String(word)) => *base = Value::String(rescaled(word, scale)),
        (base, Value::Object(_)) => {
            *base = json!({});
            merge(base, over, scale);
        }
        (base, over) => *base = over.clone(),
    }
}

fn rescaled(word: &str, scale: f64) -> String {
    let starts_as_number = word.starts_with(|c: char| c.is_ascii_digit());
    match humantime::parse_duration(word) {
        Ok(length) if starts_as_number => text(length.div_f64(scale)),
        _ => word.to_owned(),
    }
}

/// Whole milliseconds, at least one for what is not zero.
fn text(length: Duration) -> String {
    if length.is_zero() {
        return "0s".into();
    }
    format!("{}ms", (length.as_secs_f64() * 1e3).round().max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        let text = r#"
name: t
about: t
seed: 1
time_scale: 10
engines: {count: 1}
target:
  streamgate:
    tenants: [{id: b, max_in_flight: 2, on_limit: queue, queue: {max_wait: 20s}}]
    config: {timeouts: {stream_idle: 30s}, quota: {replica_lease: 3s}}
    pool: {max_in_flight: 12}
prompts: {p: {kind: unique, sentences: 1}}
phases:
- name: x
  closed: {lanes: 1, length: 1s}
  requests: [{tenant: a, prompt: p, max_tokens: 1}, {tenant: b, prompt: p, max_tokens: 1}]
"#;
        Scenario::parse("t", text).unwrap()
    }

    #[test]
    fn durations_are_scaled_and_tenants_get_keys() {
        let scenario = scenario();
        let crate::scenario::TargetSpec::Streamgate(spec) = &scenario.target else { panic!() };
        let addr: SocketAddr = "127.0.0.1:7000".parse().unwrap();
        let wanted = Wanted {
            scenario: &scenario,
            spec,
            strategy: Policy::LeastRequest,
            endpoints: &[addr],
            redis: None,
        };
        let config = config(&wanted, Ports { proxy: addr, admin: addr });
        assert_eq!(config["slo"]["ttft"], "200ms");
        assert_eq!(config["timeouts"]["stream_idle"], "3000ms");
        assert_eq!(config["timeouts"]["first_byte"], "12000ms");
        assert_eq!(config["quota"]["replica_lease"], "3000ms");
        assert_eq!(config["pools"][0]["strategy"], "least-request");
        assert_eq!(config["pools"][0]["max_in_flight"], 12);
        let (b, a) = (&config["tenants"][0], &config["tenants"][1]);
        assert_eq!(
            (b["id"].as_str(), b["queue"]["max_wait"].as_str()),
            (Some("b"), Some("2000ms"))
        );
        assert_eq!((a["id"].as_str(), a["max_in_flight"].as_u64()), (Some("a"), Some(100_000)));
        let hash = hex(&Sha256::digest("sg-load-b"));
        assert_eq!(b["api_keys"][0], format!("sha256:{hash}"));
    }
}
