//! Many objects: whatever is compared with whatever, it takes no time that anybody notices.

use crate::check_text;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// What takes longer grows faster than it should; it is a fraction of a second.
const LONG: Duration = Duration::from_secs(10);

const STREAMGATE: &str = "\
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: streamgate, namespace: llm}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: streamgate}}
    spec:
      containers:
        - name: streamgate
          image: streamgate:1
          args: [serve, --config, /etc/streamgate/streamgate.yaml]
          volumeMounts: [{name: config, mountPath: /etc/streamgate}]
      volumes: [{name: config, configMap: {name: streamgate}}]
";

/// A Streamgate with a pool for each model; the pools follow Services of `namespace`.
fn ingress(models: usize, namespace: &str) -> String {
    let mut text = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: streamgate, namespace: llm}
data:
  streamgate.yaml: |
    tenants: [{id: t, max_in_flight: 4}]
    anonymous: t
    pools:
"
    .to_owned();
    for n in 0..models {
        let discovery =
            format!("{{kubernetes: {{namespace: {namespace}, service: m{n}, port: http}}}}");
        writeln!(text, "      - {{name: m{n}, models: [m{n}], discovery: {discovery}}}").unwrap();
    }
    text + STREAMGATE
}

/// An engine with the Service of its name.
fn engine(name: &str, label: &str, not_ready: bool) -> String {
    format!(
        "\
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: llm}}
spec:
  replicas: 2
  template:
    metadata: {{labels: {{app: {label}}}}}
    spec:
      terminationGracePeriodSeconds: 180
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.20.0
          args: [--model, m, --shutdown-timeout, \"90\"]
          lifecycle: {{preStop: {{sleep: {{seconds: 10}}}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: llm}}
spec:
  selector: {{app: {label}}}
  publishNotReadyAddresses: {not_ready}
  ports: [{{name: http, port: 8000}}]
"
    )
}

fn within(text: &str, code: &str, count: usize) {
    let begin = Instant::now();
    let report = check_text(text);
    let took = begin.elapsed();
    assert!(took < LONG, "{took:?}");
    let found = report.findings().iter().filter(|finding| finding.code == code).count();
    assert_eq!(found, count, "{code}");
}

#[test]
fn a_hundred_models_are_little_work() {
    let engines: String =
        (0..100).map(|n| engine(&format!("m{n}"), &format!("m{n}"), false)).collect();
    within(&(ingress(100, "llm") + &engines), "pool-finds-nothing", 0);
    within(&(ingress(100, "elsewhere") + &engines), "pool-finds-nothing", 100);
}

#[test]
fn services_that_select_everything_are_little_work() {
    let engines: String = (0..150).map(|n| engine(&format!("m{n}"), "m", true)).collect();
    within(&engines, "service-not-ready", 150 * 150);
}
