//! The real binary, driven as an operator does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

use std::path::Path;
use std::process::{Command, Output};
use streamgate::config::Config;
use streamgate::tenants::TenantRegistry;

fn streamgate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_streamgate")).args(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn check(file: &Path, more: &[&str]) -> Output {
    let file = file.to_str().unwrap();
    streamgate(&[&["check", "--config", file], more].concat())
}

fn written(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// Five mistakes: an unknown key, a plain key for a hash, a cap of zero, a wrong type, a tenant
/// that is not there.
const FIVE: &str = "\
pools:
- name: p
  models: ['*']
  endpoints: ['127.0.0.1:8001']
  max_inflight: 4
tenants:
- id: t
  api_keys: [plain-secret-key]
  max_in_flight: 0
timeouts: {connect: true}
anonymous: guests
";

#[test]
fn check_reports_five_mistakes_as_five_errors() {
    let file = written(FIVE);
    let output = check(file.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    let first = format!("{}: 5 errors", file.path().display());
    assert_eq!(text.lines().next(), Some(first.as_str()), "{text}");
    assert_eq!(text.matches("\n    fix: ").count(), 5, "{text}");
    for line in [
        "  pools[0].max_inflight (line 5): unknown key",
        "    fix: did you mean `max_in_flight`?",
        "  tenants[0].api_keys[0] (line 8): not the hash of a key, found ***",
        "  tenants[0].max_in_flight (line 9): out of range, found 0",
        "  timeouts.connect (line 10): expected a duration, got a boolean, found true",
        "  anonymous (line 11): there is no such tenant, found \"guests\"",
    ] {
        assert!(text.lines().any(|got| got == line), "no line {line:?} in\n{text}");
    }
    assert!(!text.contains("plain-secret-key"));
    assert_eq!(stderr(&output), "");
}

#[test]
fn check_reports_the_same_as_json() {
    let file = written(FIVE);
    let output = check(file.path(), &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(json["ok"], false);
    assert_eq!(json["file"], file.path().to_str().unwrap());
    assert_eq!(json["summary"], serde_json::Value::Null);
    let errors = json["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 5);
    assert_eq!(
        errors[2],
        serde_json::json!({
            "path": "tenants[0].max_in_flight",
            "line": 9,
            "value": "0",
            "problem": "out of range",
            "remedy": "write a whole number from 1 to 1000000",
        })
    );
    assert_eq!(errors[0]["value"], serde_json::Value::Null);
}

#[test]
fn check_of_a_valid_file_says_so() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/demo.yaml");
    let output = check(&demo, &[]);
    assert_eq!(output.status.code(), Some(0));
    let expected = format!("{}: valid (2 tenants, 1 pool, 2 endpoints)\n", demo.display());
    assert_eq!(stdout(&output), expected);

    let output = check(&demo, &["--json"]);
    assert_eq!(output.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(json["ok"], true);
    assert_eq!(json["errors"], serde_json::json!([]));
    assert_eq!(json["summary"], serde_json::json!({"tenants": 2, "pools": 1, "endpoints": 2}));
}

#[test]
fn check_of_a_missing_file_is_an_error_in_both_forms() {
    let missing = Path::new("no-such-file.yaml");
    let output = check(missing, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).starts_with("no-such-file.yaml: 1 error\n  file: cannot read the file")
    );
    let output = check(missing, &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(json["errors"].as_array().unwrap().len(), 1);
}

/// The value of a `name: "…"` line.
fn quoted<'t>(text: &'t str, name: &str) -> &'t str {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split('"').nth(1).unwrap()
}

#[test]
fn a_new_key_opens_the_door_its_hash_describes() {
    let outputs = [streamgate(&["key", "new", "team-a"]), streamgate(&["key", "new", "team-b"])];
    let [a, b] = outputs.each_ref().map(|output| {
        assert_eq!(output.status.code(), Some(0));
        let text = stdout(output);
        (quoted(text, "key: "), quoted(text, "api_keys: "))
    });
    assert!(a.0.starts_with("sg-") && a.0.len() == 67, "{a:?}");
    assert_ne!(a.0, b.0);
    let config: Config = format!(
        "pools: [{{name: p, models: ['*'], endpoints: ['127.0.0.1:8001']}}]\n\
         tenants:\n\
         - {{id: team-a, api_keys: [\"{}\"], max_in_flight: 1}}\n\
         - {{id: team-b, api_keys: [\"{}\"], max_in_flight: 1}}\n",
        a.1, b.1
    )
    .parse()
    .unwrap();
    let registry = TenantRegistry::from(&config);
    for (key, tenant) in [(a.0, "team-a"), (b.0, "team-b")] {
        let bearer = format!("Bearer {key}");
        let by_bearer = registry.identify(Some(bearer.as_bytes()), None).unwrap();
        let by_header = registry.identify(None, Some(key.as_bytes())).unwrap();
        assert_eq!((by_bearer.id.as_str(), by_header.id.as_str()), (tenant, tenant));
    }
}

#[test]
fn wrong_usage_is_64_and_help_is_0() {
    for args in [
        &[][..],
        &["fly"],
        &["check"],
        &["serve"],
        &["drain"],
        &["key", "new"],
        &["key", "new", "a b"],
    ] {
        let output = streamgate(args);
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert_eq!(stdout(&output), "", "{args:?}");
        assert_ne!(stderr(&output), "", "{args:?}");
    }
    let help = streamgate(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for command in ["serve", "check", "drain", "status", "key"] {
        assert!(stdout(&help).contains(command));
    }
    assert_eq!(streamgate(&["--version"]).status.code(), Some(0));
}
