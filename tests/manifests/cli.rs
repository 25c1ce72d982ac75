//! The real binary: exit codes, standard input, both forms.

use crate::fixture;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn check(args: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_streamgate"));
    command.arg("check").args(args).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that reads nothing may be gone before.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

/// Check a manifest beside the configuration `text`: the exit code, and what it prints.
fn check_with(text: &str, manifest: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("streamgate.yaml");
    std::fs::write(&file, text).unwrap();
    let output = check(&["--config", file.to_str().unwrap(), "--manifests", manifest], "");
    (output.status.code(), stdout(&output).to_owned())
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn path(name: &str) -> String {
    fixture(name).to_str().unwrap().to_owned()
}

#[test]
fn the_exit_code_tells_fine_from_wrong_from_unreadable() {
    let right = path("right/both.yaml");
    let wrong = path("wrong/grace-too-short.yaml");
    let code = |args: &[&str], stdin: &str| check(args, stdin).status.code();
    assert_eq!(code(&["--manifests", &right], ""), Some(0));
    assert_eq!(code(&["--manifests", &wrong], ""), Some(1));
    assert_eq!(code(&["--manifests", &right, &wrong], ""), Some(1));
    assert_eq!(code(&["--manifests", &right, "no-such-file.yaml"], ""), Some(66));
    assert_eq!(code(&["--manifests", "-"], "a: [1\n"), Some(66));
    assert_eq!(code(&["--manifests", "-"], ""), Some(1), "nothing is proven by nothing");
    assert_eq!(code(&["--manifests"], ""), Some(64));
    assert_eq!(code(&[], ""), Some(64));
}

#[test]
fn warnings_alone_pass() {
    let text =
        std::fs::read_to_string(fixture("right/published-prestop-10-timeout-90.yaml")).unwrap();
    let without_budget = text.split("\n---\n").next().unwrap();
    let output = check(&["--manifests", "-"], without_budget);
    assert!(stdout(&output).contains("warning  pdb-missing  Deployment llm/vllm"));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_folder_and_standard_input_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for (name, to) in [("list.yaml", "a.yaml"), ("streamgate.yaml", "b.yml")] {
        std::fs::copy(fixture("right").join(name), folder.path().join(to)).unwrap();
    }
    let output = check(&["--manifests", folder.path().to_str().unwrap()], "");
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    for workload in ["Deployment llm/vllm, ", "Deployment llm/streamgate, "] {
        assert!(stdout(&output).contains(workload), "{}", stdout(&output));
    }
    let text = std::fs::read_to_string(fixture("wrong/grace-too-short.yaml")).unwrap();
    let output = check(&["--manifests", "-"], &text);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    let finding = "error  engine-grace  Deployment llm/vllm, container vllm: \
                   spec.template.spec.terminationGracePeriodSeconds (standard input, document 1 (line 3))";
    assert!(text.lines().any(|line| line == finding), "{text}");
    assert!(
        text.contains("    fix: raise terminationGracePeriodSeconds to at least 120s"),
        "{text}"
    );
}

#[test]
fn everything_wrong_is_told_at_once() {
    let output = check(&["--manifests", &path("wrong"), "no-such-file.yaml", "-"], "a: [1\n");
    assert_eq!(output.status.code(), Some(66));
    let text = stdout(&output);
    assert!(text.contains("unreadable  no-such-file.yaml: cannot read the file"));
    assert!(text.contains("unreadable  standard input: not readable YAML, line "));
    for code in ["engine-aborts", "ingress-grace", "pdb-blocks", "rollout-stuck"] {
        assert!(text.contains(&format!("error  {code}  ")), "{code}");
    }
}

#[test]
fn the_json_form_has_the_same() {
    let output = check(&["--json", "--manifests", &path("wrong/grace-too-short.yaml")], "");
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!((&json["ok"], &json["file"]), (&false.into(), &serde_json::Value::Null));
    let manifests = &json["manifests"];
    assert_eq!(manifests["workloads"][0]["grace_seconds"], 119.0);
    assert_eq!(manifests["workloads"][0]["longest_stream_seconds"], 95.0);
    assert_eq!(manifests["workloads"][0]["timeline"][1]["at_seconds"], 10.0);
    assert_eq!(manifests["unreadable"], serde_json::json!([]));
    let finding = &manifests["findings"][0];
    assert_eq!(finding["code"], "engine-grace");
    assert_eq!(finding["level"], "error");
    assert_eq!(finding["object"], "Deployment llm/vllm");
    assert_eq!(finding["container"], "vllm");
    assert_eq!(finding["key"], "spec.template.spec.terminationGracePeriodSeconds");
}

#[test]
fn a_configuration_stands_in_for_a_config_map_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("streamgate.yaml");
    let text = "listen: {admin: '0.0.0.0:9180'}\n\
        admin: {token_file: /etc/streamgate-admin/token}\n\
        pools: [{name: p, models: ['*'], endpoints: ['vllm:8000']}]\n\
        tenants: [{id: t, max_in_flight: 4}]\n\
        anonymous: t\n\
        timeouts: {total: 130s}\n\
        drain: {propagation: 10s, deadline: 150s, cut_margin: 5s, http_prestop: true}\n";
    std::fs::write(&file, text).unwrap();
    let config = file.to_str().unwrap();
    let manifest = path("wrong/streamgate-config-elsewhere.yaml");
    let output = check(&["--config", config, "--manifests", &manifest], "");
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(
        stdout(&output).starts_with(&format!("{config}: valid (1 tenant, 1 pool, 1 endpoint)\n\n"))
    );
    std::fs::write(&file, text.replace("deadline: 150s", "deadline: 170s")).unwrap();
    let output = check(&["--config", config, "--manifests", &manifest], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("error  ingress-grace  "), "{}", stdout(&output));
    std::fs::write(&file, "pools: []\n").unwrap();
    let output = check(&["--config", config, "--manifests", &manifest], "");
    assert_eq!(output.status.code(), Some(1), "an invalid configuration fails the check");
}

#[test]
fn a_configuration_is_compared_with_engines_alone() {
    let text = "pools: [{name: p, models: ['*'], endpoints: ['vllm:8000'], engine_shutdown_timeout: 90s}]\n\
        tenants: [{id: t, max_in_flight: 4}]\n\
        anonymous: t\n\
        timeouts: {total: 90s}\n";
    let run = |text: &str| check_with(text, &path("right/published-prestop-10-timeout-90.yaml"));
    let (code, shown) = run(text);
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("engine-deadline"), "{shown}");
    let (code, shown) = run(&text.replace("timeout: 90s}]", "timeout: 0s}]"));
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("warning  engine-deadline  "), "{shown}");
    let (code, shown) =
        run(&text.replace("timeout: 90s}]", "timeout: 0s}]").replace("total: 90s", "total: 0s"));
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("error  engine-deadline  "), "{shown}");
    let remedy = "    fix: set pools[0].engine_shutdown_timeout: 90s in the configuration named by --config\n";
    assert!(shown.contains(remedy), "{shown}");
}

#[test]
fn a_configuration_with_memory_says_that_one_replica_drains() {
    let text = "pools: [{name: p, models: ['*'], discovery: {dns: 'vllm:8000'}, engine_shutdown_timeout: 90s}]\n\
        tenants: [{id: t, max_in_flight: 4}]\n\
        anonymous: t\n\
        timeouts: {total: 90s}\n";
    let run = |text: &str| check_with(text, &path("right/drain-call.yaml"));
    let (code, shown) = run(text);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("warning  hook-drains-one-replica  StatefulSet llm/vllm"), "{shown}");
    let (code, shown) = run(&format!("{text}quota: {{store: redis}}\n"));
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("hook-drains-one-replica"), "{shown}");
}
