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
use streamgate::config::{Config, Discovery};

const FOLDERS: [&str; 5] =
    ["base", "overlays/vllm", "overlays/discovery", "overlays/aibrix", "overlays/redis"];

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
        // Notes say what it costs; nothing is left out.
        let costs = ["caps-not-shared", "spare-device"];
        let found = report.findings().iter().filter(|finding| !costs.contains(&finding.code));
        assert_eq!(found.count(), 0, "{name}\n{report}");
        assert!(report.findings().iter().all(|finding| finding.level == Level::Note), "{report}");
    }
}

#[test]
fn the_engines_and_the_ingress_of_an_overlay_fit_together() {
    for (name, kind) in [("vllm", "StatefulSet"), ("discovery", "Deployment")] {
        let report = check_text(&text(&render(&folder(&format!("overlays/{name}")))));
        let shown = report.to_string();
        for line in [
            "Deployment streamgate/streamgate, container streamgate (Streamgate), grace 200s",
            &format!("{kind} streamgate/vllm, container vllm (vLLM), grace 210s"),
            "      175s  Streamgate ends what still runs, with an error event",
            "      185s  vLLM gives up what still runs",
            "    a stream of up to 165s completes, whenever the pod is deleted",
        ] {
            assert!(shown.lines().any(|got| got == line), "no {line:?} in\n{shown}");
        }
    }
}

#[test]
fn an_engine_with_another_shutdown_timeout_than_its_pool_is_found() {
    for name in ["overlays/vllm", "overlays/discovery"] {
        let changed = text(&render(&folder(name)))
            .replace("engine_shutdown_timeout: 90s", "engine_shutdown_timeout: 2m");
        let report = check_text(&changed);
        let finding = report.findings().iter().find(|finding| finding.level != Level::Note);
        let finding = finding.unwrap();
        assert_eq!((finding.code, finding.level), ("engine-deadline", Level::Warning), "{report}");
        assert_eq!(
            finding.remedy,
            "set pools[0].engine_shutdown_timeout: 90s in ConfigMap streamgate/streamgate, \
             or change --shutdown-timeout to what it says"
        );
    }
}

/// What kustomize makes of `namePrefix`: names of objects, and where they name each other. It
/// knows nothing of configurations and of hooks.
fn prefixed(mut objects: Vec<Value>, prefix: &str) -> Vec<Value> {
    let put = |value: Option<&mut Value>| {
        if let Some(value) = value
            && let Some(name) = value.as_str()
        {
            *value = format!("{prefix}{name}").into();
        }
    };
    for object in &mut objects {
        put(object.pointer_mut("/metadata/name"));
        let volumes = object.pointer_mut("/spec/template/spec/volumes");
        for volume in volumes.and_then(Value::as_array_mut).into_iter().flatten() {
            put(volume.pointer_mut("/configMap/name"));
            put(volume.pointer_mut("/secret/secretName"));
        }
    }
    objects
}

#[test]
fn an_overlay_whose_names_were_changed_is_found() {
    let codes = |objects: &[Value]| -> Vec<_> {
        let report = check_text(&text(objects));
        let findings = report.findings().iter().map(|finding| (finding.level, finding.code));
        findings.filter(|(level, _)| *level != Level::Note).collect()
    };
    let objects = || render(&folder("overlays/discovery"));
    assert_eq!(
        codes(&prefixed(objects(), "prod-")),
        [(Level::Error, "hook-address"), (Level::Warning, "pool-finds-nothing")]
    );
    let mut moved = objects();
    moved.iter_mut().for_each(|object| object["metadata"]["namespace"] = "llm".into());
    assert_eq!(
        codes(&moved),
        [(Level::Error, "hook-endpoint"), (Level::Warning, "pool-finds-nothing")]
    );
    assert_eq!(
        codes(&prefixed(render(&folder("overlays/vllm")), "prod-")),
        [(Level::Error, "hook-endpoint"), (Level::Error, "hook-address")]
    );
}

#[test]
fn an_overlay_without_its_redis_drains_one_replica() {
    for name in ["overlays/vllm", "overlays/discovery"] {
        let redis = r#"store: redis\n  redis: {url: \"redis://redis:6379/0\"}"#;
        let whole = text(&render(&folder(name)));
        assert!(whole.contains(redis), "{whole}");
        let report = check_text(&whole.replace(redis, "store: memory"));
        let findings = report.findings().iter().filter(|finding| finding.level == Level::Error);
        let codes: Vec<_> = findings.map(|finding| finding.code).collect();
        assert_eq!(codes, ["hook-drains-one-replica"], "{name}\n{report}");
    }
}

#[test]
fn a_hook_that_the_network_policy_keeps_out_is_found() {
    for name in ["vllm", "discovery"] {
        let mut objects = render(&folder(&format!("overlays/{name}")));
        let engine = objects.iter_mut().find(|object| {
            object["metadata"]["name"] == "vllm" && object["spec"]["template"].is_object()
        });
        let labels = &mut engine.unwrap()["spec"]["template"]["metadata"]["labels"];
        assert!(labels.as_object_mut().unwrap().remove("streamgate.io/drains-engines").is_some());
        let report = check_text(&text(&objects));
        let finding = report.findings().iter().find(|finding| finding.code == "hook-address");
        assert_eq!(
            finding.unwrap().problem,
            "NetworkPolicy streamgate keeps this pod from port 9180 of \"streamgate-admin\""
        );
    }
}

/// The only object of a kind and name.
fn only<'o>(objects: &'o [Value], kind: &str, name: &str) -> &'o Value {
    let wanted = (kind.to_owned(), name.to_owned());
    let found: Vec<_> = objects.iter().filter(|object| id(object) == wanted).collect();
    assert_eq!(found.len(), 1, "{kind} {name}");
    found[0]
}

#[test]
fn discovery_has_the_token_the_rights_and_the_way_that_it_needs() {
    let objects = render(&folder("overlays/discovery"));
    let config = &only(&objects, "ConfigMap", "streamgate")["data"]["streamgate.yaml"];
    let config = Config::parse_elsewhere(config.as_str().unwrap()).unwrap();
    let Some(Discovery::Kubernetes { namespace, service, port }) = &config.pools[0].discovery
    else {
        panic!("{:?}", config.pools[0])
    };
    // The service that it follows, and the port by its name there.
    let service = only(&objects, "Service", service);
    assert_eq!(service["metadata"]["namespace"], namespace.as_str());
    assert_eq!(service["spec"]["ports"][0]["name"], port.to_string());
    let engines = &only(&objects, "Deployment", "vllm")["spec"]["template"];
    for (label, value) in service["spec"]["selector"].as_object().unwrap() {
        assert_eq!(&engines["metadata"]["labels"][label], value);
    }
    // Its account holds the role of that namespace, and its token is mounted.
    let binding = only(&objects, "RoleBinding", "streamgate");
    let account = only(&objects, "ServiceAccount", "streamgate");
    let role = only(&objects, "Role", binding["roleRef"]["name"].as_str().unwrap());
    assert_eq!(role["metadata"]["namespace"], namespace.as_str());
    assert_eq!(binding["subjects"][0]["name"], account["metadata"]["name"]);
    assert_eq!(binding["subjects"][0]["namespace"], account["metadata"]["namespace"]);
    let pods = &only(&objects, "Deployment", "streamgate")["spec"]["template"];
    assert_eq!(pods["spec"]["serviceAccountName"], account["metadata"]["name"]);
    assert_eq!(pods["spec"].get("automountServiceAccountToken"), None);
    let rule = &role["rules"][0];
    assert_eq!(rule["apiGroups"][0], "discovery.k8s.io");
    assert_eq!(rule["resources"][0], "endpointslices");
    for verb in ["list", "watch"] {
        assert!(texts(&rule["verbs"]).contains(&verb));
    }
    // The policy that closes everything else leaves the engines and the API server open.
    let egress = &only(&objects, "NetworkPolicy", "streamgate-egress")["spec"];
    assert_eq!(egress["podSelector"]["matchLabels"], pods["metadata"]["labels"]);
    let ways = egress["egress"].as_array().unwrap();
    let open = |number: u16, to: Option<&Value>| {
        let port =
            |way: &Value| way["ports"].as_array().unwrap().iter().any(|p| p["port"] == number);
        ways.iter().any(|way| port(way) && way.pointer("/to/0/podSelector/matchLabels") == to)
    };
    assert!(open(443, None) && open(6443, None) && open(53, None));
    assert!(open(8000, Some(&service["spec"]["selector"])));
    let redis = only(&objects, "StatefulSet", "redis");
    assert!(open(6379, redis.pointer("/spec/template/metadata/labels")));
}

#[test]
fn only_discovery_mounts_a_token() {
    for name in FOLDERS {
        let objects = render(&folder(name));
        let mounts = |object: &Value| object["automountServiceAccountToken"] == true;
        let mounted = objects
            .iter()
            .any(|object| mounts(object) || mounts(&object["spec"]["template"]["spec"]));
        assert_eq!(mounted, name == "overlays/discovery", "{name}");
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
