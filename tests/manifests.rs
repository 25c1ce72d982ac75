//! The check of Kubernetes manifests, on fixtures, on the command line and on what is shipped in
//! `k8s/`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

#[path = "manifests/cli.rs"]
mod cli;
#[path = "manifests/fixtures.rs"]
mod fixtures;
#[path = "manifests/hook.rs"]
mod hook;
#[path = "manifests/kustomize.rs"]
mod kustomize;
#[path = "manifests/large.rs"]
mod large;
#[path = "manifests/odd.rs"]
mod odd;
#[path = "manifests/shipped.rs"]
mod shipped;

use std::io::Write;
use std::path::{Path, PathBuf};
use streamgate::check::{Finding, ManifestReport, manifests};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/manifests").join(name)
}

/// Say that a test could not do its work here; not captured, so that it is seen.
fn skipped(why: &str) {
    std::io::stderr().write_all(format!("SKIPPED: {why}\n").as_bytes()).unwrap();
}

/// Check a text as standard input.
fn check_text(text: &str) -> ManifestReport {
    let report = manifests(None, &["-".into()], &mut text.as_bytes());
    report.manifests().unwrap().clone()
}

fn check_file(path: &Path) -> ManifestReport {
    let report = manifests(None, &[path.to_owned()], &mut std::io::empty());
    report.manifests().unwrap().clone()
}

/// `error engine-grace | Deployment llm/vllm / vllm | spec.…` and the problem.
fn shown(finding: &Finding) -> (String, String) {
    let Finding { level, code, place, problem, .. } = finding;
    let parts = [place.object.as_deref(), place.container.as_deref()];
    let parts = parts.into_iter().flatten().collect::<Vec<_>>().join(" / ");
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let line = format!("{level} {code} | {} | {}", or_dash(&parts), or_dash(&place.key));
    (line, problem.clone())
}
