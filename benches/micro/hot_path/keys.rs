//! Who presents this key?

use divan::Bencher;
use std::fmt::Write as _;
use streamgate::config::{Config, KeyHash};
use streamgate::tenants::TenantRegistry;

#[divan::bench(args = [1, 1_000])]
fn known(bencher: Bencher<'_, '_>, keys: usize) {
    let registry = registry(keys);
    let last = format!("Bearer {}", key(keys - 1));
    bencher.bench_local(|| registry.identify(Some(last.as_bytes()), None));
}

#[divan::bench(args = [1, 1_000])]
fn unknown(bencher: Bencher<'_, '_>, keys: usize) {
    let registry = registry(keys);
    let other = format!("Bearer {}", key(keys));
    bencher.bench_local(|| registry.identify(Some(other.as_bytes()), None));
}

/// As long as a key made by `streamgate key new`.
fn key(number: usize) -> String {
    format!("sg-{number:064x}")
}

fn registry(keys: usize) -> TenantRegistry {
    let mut yaml = String::from(
        "pools: [{name: p, models: [\"*\"], endpoints: [\"127.0.0.1:8001\"]}]\ntenants:\n",
    );
    for number in 0..keys {
        let hash = KeyHash::of(key(number).as_bytes()).to_config();
        let _ = writeln!(yaml, "  - {{id: t{number}, api_keys: [\"{hash}\"], max_in_flight: 4}}");
    }
    let config: Config = yaml.parse().expect("a valid configuration");
    TenantRegistry::from(&config)
}
