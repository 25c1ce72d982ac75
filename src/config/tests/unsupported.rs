//! What this version does not serve is refused, not ignored.

use super::*;

/// One asking value for each line of the list.
const ASKING: [(&str, &str); 7] = [
    ("pools[].strategy", "expected-ttft"),
    ("tenants[].weight", "2"),
    ("tenants[].priority", "1"),
    ("tenants[].requests_per_minute", "60"),
    ("tenants[].tokens_per_minute", "1000"),
    ("identity.jwt", "{issuer: i, audience: a, jwks_url: 'https://i/keys', tenant_claim: t}"),
    ("identity.trusted_header", "{name: x-tenant, from: [10.0.0.0/8]}"),
];

fn document(key: &str, value: &str) -> String {
    match key.split_once("[].") {
        Some(("pools", field)) => with(&format!(", {field}: {value}"), "", ""),
        Some((_, field)) => with("", &format!(", {field}: {value}"), ""),
        None => {
            let close = "}".repeat(key.matches('.').count());
            let open = key.replacen('.', ": {", 9);
            section(&format!("{open}: {value}{close}\n"))
        }
    }
}

#[test]
fn each_is_refused_when_it_asks_for_something() {
    for (key, value) in ASKING {
        let path = key.replace("[]", "[0]");
        only(&document(key, value), &format!("{path}: not supported by this version"));
    }
}

#[test]
fn the_list_and_this_test_name_the_same_keys() {
    let listed: Vec<_> = crate::config::unsupported::keys().collect();
    assert_eq!(listed, ASKING.map(|(key, _)| key));
}

#[test]
fn its_default_asks_for_nothing_in_any_spelling() {
    valid(&with(", strategy: least-request", ", weight: 1, priority: 0", ""));
}

#[test]
fn a_value_that_is_wrong_anyway_is_one_error() {
    only(&with("", ", weight: 0", ""), "tenants[0].weight: out of range");
    only(&section("quota: {store: etcd}\n"), "quota.store: not one of the choices");
}
