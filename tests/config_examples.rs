//! Every file in `config/` is a valid configuration.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

use std::path::{Path, PathBuf};
use streamgate::config::{Config, KeyHash};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config")
}

fn load(name: &str) -> Config {
    Config::load(&directory().join(name)).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn every_example_is_valid() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        load(&name);
        names.push(name);
    }
    for expected in
        ["streamgate.yaml", "demo.yaml", "minimal.yaml", "kubernetes.yaml", "fleet.yaml"]
    {
        assert!(names.iter().any(|name| name == expected), "{expected} is not in {names:?}");
    }
}

#[test]
fn the_demo_is_what_its_comments_say() {
    let demo = load("demo.yaml");
    assert_eq!(demo.listen.proxy.to_string(), "127.0.0.1:8080");
    assert_eq!(demo.listen.admin.to_string(), "127.0.0.1:9180");
    let endpoints: Vec<_> = demo.pools[0].endpoints.iter().map(|e| e.as_str()).collect();
    assert_eq!(endpoints, ["127.0.0.1:18001", "127.0.0.1:18002"]);
    for (id, cap, key) in [("interactive", 4, "sg-demo-interactive"), ("batch", 2, "sg-demo-batch")]
    {
        let tenant = demo.tenant(id).unwrap();
        assert_eq!(tenant.policy.max_in_flight, cap);
        assert_eq!(tenant.key_hashes[..], [KeyHash::of(key.as_bytes())]);
    }
}
