//! Every fixture says in its head which findings it must give: exactly these, with these numbers.

use crate::{check_file, fixture, shown};
use std::path::PathBuf;
use streamgate::check::Level;

/// The findings that the head of a file expects, in the order of the report.
fn expected(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let finding = |n: usize| {
        let line = lines[n].strip_prefix("# expect: ")?;
        Some((line.to_owned(), lines[n + 1].strip_prefix("#   ").unwrap().to_owned()))
    };
    (0..lines.len()).filter_map(finding).collect()
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(fixture(folder)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn wrong_budgets_give_exactly_their_findings() {
    let files = files("wrong");
    assert!(files.len() >= 40, "{}", files.len());
    let mut wrong = Vec::new();
    for path in &files {
        let report = check_file(path);
        let found: Vec<_> = report.findings().iter().map(shown).collect();
        let expected = expected(&std::fs::read_to_string(path).unwrap());
        assert!(!expected.is_empty(), "{} expects nothing", path.display());
        if found != expected {
            wrong.push(format!("{}\n  {expected:#?}\n  {found:#?}", path.display()));
        }
        let errors = report.findings().iter().any(|finding| finding.level == Level::Error);
        assert_eq!(report.passed(), !errors, "{}", path.display());
        for finding in report.findings() {
            assert!(!finding.remedy.is_empty());
            let document = finding.place.document.as_deref();
            assert!(finding.code == "nothing-to-check" || document.is_some(), "{finding:?}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn right_budgets_give_none() {
    for path in files("right") {
        let report = check_file(&path);
        let found: Vec<_> = report.findings().iter().map(shown).collect();
        assert_eq!(found, [], "{}", path.display());
        assert!(report.passed());
    }
}

#[test]
fn the_published_case_is_told_apart() {
    let broken = check_file(&fixture("wrong/published-grace-180-timeout-0.yaml"));
    assert!(!broken.passed());
    assert!(broken.findings().iter().any(|finding| finding.code == "engine-aborts"));
    let whole = check_file(&fixture("right/published-prestop-10-timeout-90.yaml"));
    assert!(whole.passed());
    let text = whole.to_string();
    for line in [
        "Deployment llm/vllm, container vllm (vLLM), grace 180s",
        "       10s  SIGTERM at the latest; vLLM lets running streams end",
        "      100s  vLLM gives up what still runs",
        "      120s  vLLM has exited",
        "      180s  SIGKILL, if the container still runs",
        "    a stream of up to 95s completes, whenever the pod is deleted",
        "manifests: the shutdown budget holds (0 errors, 0 warnings, 0 notes)",
    ] {
        assert!(text.lines().any(|got| got == line), "no line {line:?} in\n{text}");
    }
}

#[test]
fn nothing_is_said_of_streams_after_a_hook_that_nobody_can_read() {
    for name in ["prestop-script", "prestop-script-behind-streamgate", "prestop-without-deadline"] {
        let text = check_file(&fixture(&format!("wrong/{name}.yaml"))).to_string();
        let (_, engine) = text.split_once("container vllm (vLLM)").unwrap();
        let lines: Vec<_> = engine.lines().skip(1).take(3).collect();
        assert_eq!(
            lines[0],
            "        0s  deleted; what preStop waits for cannot be told, nor when SIGTERM comes",
            "{text}"
        );
        assert_eq!(lines[2], "    no stream surely completes", "{text}");
    }
}

#[test]
fn a_call_that_drains_too_little_is_no_wait() {
    let text = check_file(&fixture("wrong/prestop-drain-of-one-replica.yaml")).to_string();
    for line in [
        "       85s  SIGTERM at the latest; vLLM lets running streams end",
        "    a stream of up to 80s completes, whenever the pod is deleted",
    ] {
        assert!(text.lines().any(|got| got == line), "no line {line:?} in\n{text}");
    }
}
