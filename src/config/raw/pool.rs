//! `pools[]`.

use super::{HOUR, ms, secs};
use crate::config::model::{Health, PoolKind, Retries, Strategy};
use crate::config::read::kind::{
    dns_label, duration, endpoint, label, one_of, path, service_port, text, url_path, variable,
    whole,
};
use crate::config::read::{At, Section};
use crate::core::discovery::PortRef;
use std::path::PathBuf;
use std::time::Duration;

const KINDS: [(&str, PoolKind); 2] =
    [("engines", PoolKind::Engines), ("gateway", PoolKind::Gateway)];
const STRATEGIES: [(&str, Strategy); 4] = [
    ("random", Strategy::Random),
    ("least-request", Strategy::LeastRequest),
    ("prefix-cache", Strategy::PrefixCache),
    ("expected-ttft", Strategy::ExpectedTtft),
];

/// One pool as written.
pub(in crate::config) struct RawPool {
    /// Required; a label.
    pub name: String,
    /// Required; names, or `"*"` alone.
    pub models: Vec<At<String>>,
    /// `host:port`; required unless `discovery` is given.
    pub endpoints: Vec<At<String>>,
    /// Default: none.
    pub discovery: Option<RawDiscovery>,
    /// `engines` or `gateway`. Default `engines`.
    pub kind: PoolKind,
    /// Default `least-request`; only for `engines`.
    pub strategy: Option<Strategy>,
    /// 0 to 1000000; 0: no cap. Default 0.
    pub max_in_flight: u32,
    /// 0 to 1000000; 0: no cap. Default 0.
    pub max_in_flight_per_endpoint: u32,
    /// Name of an environment variable. Default: none.
    pub api_key_env: Option<String>,
    /// File whose content, without surrounding white space, is the key. Default: none.
    pub api_key_file: Option<PathBuf>,
    /// `path` (default `/health`; for a gateway: none), `interval` (100 ms to 1 h, default 2 s),
    /// `timeout` (1 ms to 1 min, default 1 s).
    pub health: Health,
    /// `max_attempts` (1 to 10, default 3), `budget_percent` (0 to 100, default 20),
    /// `min_per_second` (0 to 1000, default 10).
    pub retries: Retries,
    /// 0 s to 1 h; 0: streams are never cut at an engine's deadline. Default 0 s.
    pub engine_shutdown_timeout: Duration,
}

/// One way to find endpoints.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::config) struct RawDiscovery {
    /// `host:port`.
    pub dns: Option<String>,
    /// Namespace, service, port (1 to 65535, or a port's name).
    pub kubernetes: Option<(String, String, Option<PortRef>)>,
}

pub(super) fn read(s: &mut Section<'_>) -> RawPool {
    let kind = s.or("kind", one_of(&KINDS), PoolKind::Engines);
    let cap = || whole(0..=1_000_000_u32);
    RawPool {
        name: s.required("name", label, "give the pool a name"),
        models: s.required_list("models", text, "name the models it serves, or [\"*\"]"),
        endpoints: s.list("endpoints", endpoint),
        discovery: s.optional_section("discovery", discovery),
        kind,
        strategy: s.optional("strategy", one_of(&STRATEGIES)),
        max_in_flight: s.or("max_in_flight", cap(), 0),
        max_in_flight_per_endpoint: s.or("max_in_flight_per_endpoint", cap(), 0),
        api_key_env: s.optional("api_key_env", variable),
        api_key_file: s.optional("api_key_file", path),
        health: s.section("health", |s| health(s, kind)),
        retries: s.section("retries", retries),
        engine_shutdown_timeout: s.or(
            "engine_shutdown_timeout",
            duration(Duration::ZERO..=HOUR),
            Duration::ZERO,
        ),
    }
}

fn discovery(s: &mut Section<'_>) -> RawDiscovery {
    RawDiscovery {
        dns: s.optional("dns", endpoint),
        kubernetes: s.optional_section("kubernetes", |s| {
            let namespace = s.required("namespace", dns_label, "name the service's namespace");
            let service = s.required("service", dns_label, "name the service");
            let remedy = "give the port on which the engines listen, or the name of the port";
            (namespace, service, s.required("port", |port| service_port(port).map(Some), remedy))
        }),
    }
}

fn health(s: &mut Section<'_>, kind: PoolKind) -> Health {
    let default = Health::of(kind);
    Health {
        path: s.optional("path", url_path).or(default.path),
        interval: s.or("interval", duration(ms(100)..=HOUR), default.interval),
        timeout: s.or("timeout", duration(ms(1)..=secs(60)), default.timeout),
    }
}

fn retries(s: &mut Section<'_>) -> Retries {
    let default = Retries::default();
    Retries {
        max_attempts: s.or("max_attempts", whole(1..=10), default.max_attempts),
        budget_percent: s.or("budget_percent", whole(0..=100), default.budget_percent),
        min_per_second: s.or("min_per_second", whole(0..=1000), default.min_per_second),
    }
}
