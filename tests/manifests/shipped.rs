//! What `k8s/` ships: it gives no finding, is what a real kustomize makes of it, and is valid for
//! Kubernetes.

use crate::kustomize::{documents, id, render, texts};
use crate::{check_text, root, skipped};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use streamgate::check::Level;

const FOLDERS: [&str; 4] = ["base", "overlays/vllm", "overlays/aibrix", "overlays/redis"];

fn folder(name: &str) -> PathBuf {
    root().join("k8s").join(name)
}

/// JSON documents are YAML documents.
fn text(objects: &[Value]) -> String {
    objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n")
}

#[test]
fn no_overlay_gives_a_finding() {
    for name in FOLDERS {
        let report = check_text(&text(&render(&folder(name))));
        assert!(report.is_readable(), "{name}\n{report}");
        let wrong = report.findings().iter().filter(|finding| finding.level != Level::Note);
        assert_eq!(wrong.count(), 0, "{name}\n{report}");
    }
}

#[test]
fn the_engines_and_the_ingress_of_an_overlay_fit_together() {
    let report = check_text(&text(&render(&folder("overlays/vllm"))));
    let shown = report.to_string();
    for line in [
        "Deployment streamgate/streamgate, container streamgate (Streamgate), grace 200s",
        "StatefulSet streamgate/vllm, container vllm (vLLM), grace 210s",
        "    a stream of up to 165s completes, whenever the pod is deleted",
    ] {
        assert!(shown.lines().any(|got| got == line), "no {line:?} in\n{shown}");
    }
}

#[test]
fn every_file_is_used() {
    let mut open = vec![root().join("k8s")];
    let mut there = BTreeSet::new();
    let mut used = BTreeSet::new();
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.ends_with("kustomization.yaml") {
                let file = documents(&path).remove(0);
                let patches = file["patches"].as_array().into_iter().flatten();
                let patches = patches.map(|patch| patch["path"].as_str().unwrap());
                used.extend(
                    texts(&file["resources"]).into_iter().chain(patches).map(|name| at.join(name)),
                );
            } else if path.extension().is_some_and(|end| end == "yaml") {
                there.insert(path);
            }
        }
    }
    let unused: Vec<_> = there.difference(&used).collect();
    assert!(unused.is_empty(), "{unused:?}");
    assert!(there.len() > 15, "{there:?}");
}

/// What the installed kustomize gives; `None`: there is none.
fn real(folder: &Path) -> Option<String> {
    for (program, verb) in [("kustomize", "build"), ("kubectl", "kustomize")] {
        let Ok(output) = Command::new(program).arg(verb).arg(folder).output() else { continue };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return Some(String::from_utf8(output.stdout).unwrap());
    }
    None
}

#[test]
fn a_real_kustomize_gives_the_same() {
    for name in FOLDERS {
        let Some(output) = real(&folder(name)) else {
            skipped("comparison of k8s/ with kustomize: neither kustomize nor kubectl here");
            return;
        };
        let by_id = |objects: Vec<Value>| -> BTreeMap<_, _> {
            objects.into_iter().map(|object| (id(&object), object)).collect()
        };
        let real: Vec<Value> = serde_saphyr::from_multiple(&output).unwrap();
        assert_eq!(by_id(render(&folder(name))), by_id(real), "{name}");
    }
}

/// The interpreter with the validator; `None`: there is no Python, or no way to install it.
fn interpreter() -> Option<String> {
    let output = Command::new(root().join("scripts/venv.sh"))
        .args(["k8s", "kubernetes_validate"])
        .output()
        .unwrap();
    if output.status.success() {
        return Some(String::from_utf8(output.stdout).unwrap().trim().to_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    skipped(&format!("validation of k8s/ by Kubernetes' schemas: {why}"));
    None
}

#[test]
fn every_object_is_valid_for_the_last_three_versions_of_kubernetes() {
    let Some(python) = interpreter() else { return };
    // What the overlays share is validated once.
    let mut objects: Vec<Value> = Vec::new();
    for object in FOLDERS.into_iter().flat_map(|name| render(&folder(name))) {
        if !objects.contains(&object) {
            objects.push(object);
        }
    }
    // The only kind that is not Kubernetes' own.
    let own = objects.iter().filter(|object| object["kind"] != "ServiceMonitor").count();
    assert!(own > 20, "only {own} objects");
    let mut command = Command::new(&python);
    command.arg(root().join("tests/k8s/validate.py")).arg("ServiceMonitor");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let input = serde_json::to_vec(&objects).unwrap();
    child.stdin.take().unwrap().write_all(&input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let validated = String::from_utf8(output.stdout).unwrap();
    let counts: Vec<_> = validated.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(counts, vec![own.to_string(); 3], "{validated}");
}
