//! The layers of `src/`: nothing imports upward or sideways, foreign crates stay in their rooms,
//! the core is pure, and no file is too long to read.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

#[path = "layering/rules.rs"]
mod rules;
#[path = "layering/source.rs"]
mod source;

use rules::{LONGEST_FILE, check};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `directory`, with its path relative to the repository.
fn files(directory: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(directory)];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((relative(&path), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/")
}

#[test]
fn no_import_goes_up_or_sideways() {
    let files = files("src");
    assert!(files.len() > 50, "only {} files found", files.len());
    let faults: Vec<String> = files.iter().flat_map(|(path, text)| check(path, text)).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn no_file_is_too_long() {
    let directories = ["src", "tests", "loadtests"];
    let files = directories.into_iter().flat_map(files);
    let long = files.filter(|(_, text)| text.lines().count() > LONGEST_FILE);
    let long: Vec<String> = long.map(|(path, _)| path).collect();
    assert!(long.is_empty(), "longer than {LONGEST_FILE} lines: {long:?}");
}

/// The rules catch what they are for.
mod self_test {
    use super::check;

    fn faults(path: &str, text: &str) -> usize {
        check(path, text).len()
    }

    #[test]
    fn a_layer_may_use_itself_and_the_layers_below() {
        assert_eq!(faults("src/proxy/mod.rs", "use crate::admission::A;\nuse crate::core::b;"), 0);
        assert_eq!(faults("src/proxy/a/b.rs", "use crate::proxy::c;\nuse super::super::d;"), 0);
        assert_eq!(faults("src/app/mod.rs", "use crate::{admin, proxy::{Gateway, b}, core};"), 0);
        assert_eq!(faults("src/config/mod.rs", "mod a;\nuse crate::core::ids::{A, B};"), 0);
        assert_eq!(faults("src/main.rs", "use streamgate::app;"), 0);
        assert_eq!(faults("src/lib.rs", "pub mod core;\npub mod app;"), 0);
    }

    #[test]
    fn an_upward_or_sideways_path_is_a_fault_however_it_is_written() {
        for (path, text) in [
            ("src/core/a.rs", "use crate::config::Config;"),
            ("src/core/a/b.rs", "fn f(_: &crate::proxy::Gateway) {}"),
            ("src/config/mod.rs", "use crate::telemetry::Event;"),
            ("src/telemetry/mod.rs", "use crate::{core::ids, config};"),
            ("src/quota/redis/lease.rs", "use crate::{core::{ids, quota::{A}},\n admission::B};"),
            ("src/upstream/mod.rs", "pub(crate) use crate :: tenants :: T;"),
            ("src/admin/mod.rs", "use crate::proxy::Gateway as G;"),
            ("src/admission/mod.rs", "use super::lifecycle::Gate;"),
            ("src/admission/queue.rs", "use super::super::lifecycle::Gate;"),
            ("src/proxy/x.rs", "type A = r#crate::app::Listener;"),
        ] {
            assert_eq!(faults(path, text), 1, "{path}: {text}");
        }
    }

    #[test]
    fn everything_below_src_has_a_layer() {
        assert_eq!(faults("src/utils/mod.rs", ""), 1);
        assert_eq!(faults("src/core/a.rs", "use crate::utils::x;"), 1);
        assert_eq!(faults("src/app/a.rs", "use crate::*;"), 1);
    }

    #[test]
    fn comments_and_texts_are_not_imports() {
        let text = r##"
            //! [`crate::proxy`] uses this.
            /* use crate::app; /* nested: redis:: */ */
            const A: &str = "use crate::app; \" redis::x";
            const B: &str = r#"crate::app " tokio::x"#;
            const C: (char, u8) = ('"', b'\'');
            fn f<'a>(x: &'a str) -> &'a str { x }
        "##;
        assert_eq!(faults("src/core/a.rs", text), 0);
        assert_eq!(faults("src/core/a.rs", &format!("{text}\nuse crate::app;")), 1);
    }

    #[test]
    fn foreign_crates_stay_in_their_rooms() {
        for (path, text, wanted) in [
            ("src/proxy/a.rs", "use pingora_core::protocols::http::ServerSession;", 0),
            ("src/app/a.rs", "use pingora_http::ResponseHeader;", 0),
            ("src/upstream/a.rs", "use pingora_core::upstreams::peer::HttpPeer;", 1),
            ("src/admission/a.rs", "fn f(_: &pingora_http::RequestHeader) {}", 1),
            ("src/quota/redis/mod.rs", "use redis::aio::ConnectionManager;", 0),
            ("src/admission/a.rs", "use redis::Client;", 1),
            ("src/admission/a.rs", "use redis as r;", 1),
            ("src/admission/a.rs", "let redis = store.redis(); config::redis::url();", 0),
            ("src/telemetry/a.rs", "use prometheus::Registry;", 0),
            ("src/admin/a.rs", "use prometheus::{Encoder, TextEncoder};", 0),
            ("src/lifecycle/a.rs", "use prometheus::IntGauge;", 1),
            ("src/upstream/a.rs", "use kube::{Api, Client};\nuse k8s_openapi::api;", 0),
            ("src/check/a.rs", "use k8s_openapi::api::core::v1::Pod;", 1),
            ("src/app/a.rs", "use kube_runtime::watcher;", 1),
        ] {
            assert_eq!(faults(path, text), wanted, "{path}: {text}");
        }
    }

    #[test]
    fn the_core_is_pure() {
        for text in [
            "use tokio::sync::watch;",
            "use std::fs;",
            "use std::{fs, fmt};",
            "fn f() { std::fs::read(p); }",
            "fn f() -> Instant { Instant::now() }",
            "fn f() { std::time::SystemTime::now(); }",
            "use tracing::info;",
            "use rand::Rng;",
            "fn f() { std::env::var(x); }",
            "use std::net::TcpStream;",
        ] {
            assert_eq!(faults("src/core/a.rs", text), 1, "{text}");
            assert_eq!(faults("src/admission/a.rs", text), 0, "{text}");
        }
        let tested = "use std::net::IpAddr;\n#[cfg(test)]\nmod tests {\n use std::fs; }";
        assert_eq!(faults("src/core/a.rs", tested), 0);
        assert_eq!(faults("src/core/a_tests.rs", "let now = Instant::now();"), 0);
    }
}
