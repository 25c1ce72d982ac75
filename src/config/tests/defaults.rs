//! The reference file and the code say the same.

use super::*;
use std::collections::BTreeSet;

const REFERENCE: &str = include_str!("../../../config/streamgate.yaml");

#[test]
fn the_reference_shows_every_key() {
    let tree = yaml::parse(REFERENCE).unwrap();
    let report = Report::new(&tree);
    raw::read(&tree, &report);
    // Sections the reference can only show as a comment, because they have no default.
    let commented = ["listen.tls"];
    let asked: BTreeSet<String> = report.keys();
    for key in &asked {
        let shown = !tree.matches(key).is_empty() || commented.contains(&key.as_str());
        assert!(shown, "{key} is not in config/streamgate.yaml");
    }
}

#[test]
fn the_reference_shows_the_defaults() {
    let required = format!(
        "pools: [{{name: main, models: ['*'], endpoints: ['127.0.0.1:8001', '127.0.0.1:8002']}}]\n\
         tenants: [{{id: main, api_keys: ['{KEY_A}'], max_in_flight: 4}}]\n"
    );
    assert_eq!(valid(REFERENCE), valid(&required));
}

#[test]
fn null_is_the_default_of_every_optional_key() {
    let nulls = "listen: null\nadmin: null\nanonymous: null\nidentity: null\nquota: null\n\
                 slo: {ttft: null}\ntimeouts: null\nlimits: null\nstreams: null\ndrain: null\n\
                 records: null\nlog: null\nruntime: {threads: null}\n";
    let pool = ", kind: null, strategy: null, health: {path: null}, retries: null, discovery: null";
    let tenant =
        ", on_limit: null, queue: null, models: null, pool: null, mode: null, weight: null";
    assert_eq!(valid(&with(pool, tenant, nulls)), valid(&section("")));
}

#[test]
fn defaults_follow_the_values_they_depend_on() {
    let config = valid(&section("timeouts: {first_byte: 1s}\nslo: {e2e: 500ms}\n"));
    let one = std::time::Duration::from_secs(1);
    assert_eq!((config.timeouts.head_hold, config.timeouts.connect), (one, one));
    assert_eq!(config.slo.ttft, std::time::Duration::from_millis(500));
    let gateway = valid(&with(", kind: gateway", "", ""));
    assert_eq!(gateway.pools[0].health.path, None);
    assert_eq!(valid(&section("")).pools[0].health.path.as_deref(), Some("/health"));
}
