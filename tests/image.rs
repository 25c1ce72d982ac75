//! What the image is built from: `.dockerignore` leaves a workspace that cargo can load, and no
//! more; the `Dockerfile` builds the sources it was given, with the compiler that is promised.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Whether the file is sent to the builder: the last rule that names it, or a folder above it,
/// decides. Of Docker's patterns only `*` and plain paths are understood.
fn is_sent(path: &str) -> bool {
    let mut sent = true;
    for rule in read(".dockerignore").lines() {
        if rule.is_empty() || rule.starts_with('#') {
            continue;
        }
        let (keep, pattern) = rule.strip_prefix('!').map_or((false, rule), |path| (true, path));
        assert!(pattern == "*" || !pattern.contains(['*', '?', '[']), "not understood: {rule}");
        let is_below = path.strip_prefix(pattern).is_some_and(|rest| rest.starts_with('/'));
        if pattern == "*" || pattern == path || is_below {
            sent = keep;
        }
    }
    sent
}

/// Copy what is sent below `directory` of the repository.
fn send(directory: &Path, to: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root()).unwrap().to_owned();
        if path.is_dir() {
            if name != Path::new("target") && name != Path::new(".git") {
                send(&path, to);
            }
        } else if is_sent(name.to_str().unwrap()) {
            fs::create_dir_all(to.join(&name).parent().unwrap()).unwrap();
            fs::copy(&path, to.join(&name)).unwrap();
        }
    }
}

/// The instruction of the `Dockerfile` that compiles, in one line.
fn compiling() -> String {
    let text = read("Dockerfile").replace("\\\n", " ");
    text.lines()
        .find(|line| line.starts_with("RUN") && line.contains("cargo build"))
        .unwrap()
        .into()
}

#[test]
fn cargo_can_load_what_is_sent() {
    let context = tempfile::tempdir().unwrap();
    send(&root(), context.path());
    assert!(
        context.path().join("src/main.rs").exists() && context.path().join("Cargo.lock").exists()
    );
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(context.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn neither_secrets_nor_results_are_sent() {
    for path in [
        ".cargo/credentials.toml",
        ".env",
        ".git/config",
        "target/release/streamgate",
        "k8s/base/secret.yaml",
        "loadtests/clients/node_modules/package.json",
        "loadtests/results/README.md",
        "loadtests/target/debug/build.log",
    ] {
        assert!(!is_sent(path), "{path}");
    }
}

/// Cargo goes by the times of files; see the comment in the `Dockerfile`.
#[test]
fn what_another_tree_left_in_the_cache_is_not_taken_for_this_one() {
    let run = compiling();
    let (before, _) = run.split_once("cargo build").unwrap();
    assert!(before.contains("touch src/lib.rs src/main.rs"), "{run}");
    let caches: Vec<&str> =
        before.split_whitespace().filter(|word| word.contains("target=/build/target")).collect();
    assert!(
        !caches.is_empty() && caches.iter().all(|cache| cache.contains("sharing=locked")),
        "{run}"
    );
}

#[test]
fn the_compiler_is_the_oldest_that_is_promised() {
    let manifest = read("Cargo.toml");
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    let from = format!("FROM rust:{}-", version.trim_matches('"'));
    assert!(read("Dockerfile").contains(&from), "{from}");
}
