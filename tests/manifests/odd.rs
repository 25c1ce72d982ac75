//! Input that nobody meant: it ends in a message, never in a panic.

use crate::{check_text, fixture};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn wrong_types_are_told_with_their_paths() {
    let report = check_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: [x]\nspec:\n  replicas: many\n  template:\n    \
         spec:\n      terminationGracePeriodSeconds: 1.5\n      containers:\n      - image: vllm/vllm-openai:v0.20.0\n        \
         args: --shutdown-timeout 90\n        lifecycle: {preStop: {sleep: {seconds: -3}}}\n",
    );
    let told: Vec<_> = report
        .findings()
        .iter()
        .filter(|finding| finding.code == "invalid-value")
        .map(|finding| format!("{}: {}", finding.place.key, finding.problem))
        .collect();
    for expected in [
        "metadata: expected a section, found a list",
        "spec.replicas: expected a whole number, found \"many\"",
        "spec.template.spec.terminationGracePeriodSeconds: not a whole number, found 1.5",
        "spec.template.spec.containers[0].args: expected a list, found \"--shutdown-timeout 90\"",
        "spec.template.spec.containers[0].lifecycle.preStop.sleep.seconds: out of range, found -3",
    ] {
        assert!(told.iter().any(|told| told == expected), "no {expected:?} in {told:#?}");
    }
}

#[test]
fn workloads_without_a_pod_template_are_told() {
    for text in [
        "kind: Deployment\n",
        "kind: StatefulSet\nspec: {template: {}}\n",
        "kind: Deployment\nspec: 3\n",
    ] {
        let report = check_text(text);
        let missing = |finding: &streamgate::check::Finding| {
            finding.code == "invalid-value"
                && (finding.problem == "missing" || finding.place.key == "spec")
        };
        assert!(report.findings().iter().any(missing), "{text}: {report}");
    }
}

#[test]
fn text_that_is_no_manifest_is_told() {
    for (text, readable) in [
        ("just text\n", true),
        ("- a\n- b\n", true),
        ("\t\u{1}", false),
        ("{", false),
        ("&a [*a]\n", false),
    ] {
        let report = check_text(text);
        assert!(!report.passed(), "{text:?}");
        assert_eq!(report.is_readable(), readable, "{text:?}: {report}");
    }
}

#[test]
fn a_huge_file_is_refused() {
    let mut text = "a: b\n".repeat(4 << 20);
    text.push_str("kind: Deployment\n");
    let report = check_text(&text);
    assert!(
        report.unreadable()[0].problem.contains("too large: a file may have 16 MiB"),
        "{report}"
    );
}

#[test]
fn durations_out_of_range_do_not_overflow() {
    let text =
        std::fs::read_to_string(fixture("right/published-prestop-10-timeout-90.yaml")).unwrap();
    for number in [
        "18446744073709551615",
        "18446744073709551616",
        "1e300",
        "-9223372036854775808",
        "31622401",
    ] {
        for (from, to) in [
            ("Seconds: 180", format!("Seconds: {number}")),
            ("seconds: 10", format!("seconds: {number}")),
            ("\"90\"", format!("\"{number}\"")),
        ] {
            assert!(text.contains(from));
            let report = check_text(&text.replacen(from, &to, 1));
            let codes: Vec<_> = report.findings().iter().map(|finding| finding.code).collect();
            assert!(codes.contains(&"invalid-value"), "{from} → {to}: {report}");
        }
    }
}

/// An engine that runs a script with these variables.
fn with_variables(variables: &[(String, String)], script: &str) -> String {
    let text =
        std::fs::read_to_string(fixture("right/published-prestop-10-timeout-90.yaml")).unwrap();
    let mut env = String::from("          env:\n");
    for (name, value) in variables {
        env.push_str(&format!("            - {{name: {name}, value: {value:?}}}\n"));
    }
    let args = "          args: [--model, m, --shutdown-timeout, \"90\"]\n";
    assert!(text.contains(args));
    let command = format!("          command: [sh, -c, {script:?}]\n");
    text.replace(args, &format!("{command}{env}"))
}

#[test]
fn variables_that_hold_each_other_do_not_grow_for_ever() {
    let twice = (1..40).map(|n| (format!("A{n}"), format!("$(A{0})$(A{0})", n - 1)));
    let variables: Vec<_> = [("A0".to_owned(), "a".to_owned())].into_iter().chain(twice).collect();
    let report = check_text(&with_variables(&variables, "exec vllm serve m $A39"));
    let problems: Vec<_> = report.findings().iter().map(|f| f.problem.as_str()).collect();
    assert!(problems.iter().any(|problem| problem.contains("depends on A39,")), "{problems:?}");
    let report = check_text(&with_variables(&variables, "exec vllm serve m $(A16)$(A16)$(A16)"));
    assert!(!report.passed(), "{report}");
    let many = (0..20_000).map(|n| (format!("B{n}"), "$(A16)".to_owned()));
    let variables: Vec<_> = variables.into_iter().chain(many).collect();
    let right = "exec vllm serve m --shutdown-timeout 90 --seed $A3";
    let report = check_text(&with_variables(&variables, right));
    assert!(report.passed(), "{report}");
}

#[test]
fn scripts_that_hold_each_other_end() {
    for nested in ["eval \"$A{}\"; ", "sh -c \"$A{}\"; "] {
        let inner = |n: usize| nested.replace("{}", &n.to_string());
        let scripts = (0..9).map(|n| (format!("A{n}"), inner(n + 1).repeat(50)));
        let last = ("A9".to_owned(), "vllm serve m; ".to_owned());
        let variables: Vec<_> = scripts.chain([last]).collect();
        let report = check_text(&with_variables(&variables, &inner(0)));
        assert!(!report.passed(), "{report}");
    }
}

/// Every place in a value.
fn places(value: &Value, at: &mut Vec<String>, path: String) {
    at.push(path.clone());
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            places(value, at, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")));
        }),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(n, value)| places(value, at, format!("{path}/{n}")));
        }
        _ => {}
    }
}

fn instead() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~é$`'\"\\\\\n]{0,30}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[], {"a": 1}, null])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_stands_at_any_place_there_is_an_answer(which in any::<prop::sample::Index>(), value in instead()) {
        let text = std::fs::read_to_string(fixture("right/both.yaml")).unwrap();
        let mut documents: Vec<Value> = text
            .split("\n---\n")
            .map(|document| serde_saphyr::from_str(document).unwrap())
            .collect();
        let mut all = Vec::new();
        for (n, document) in documents.iter().enumerate() {
            places(document, &mut all, format!("{n}"));
        }
        let place = &all[which.index(all.len())];
        let (document, pointer) = place.split_at(place.find('/').unwrap_or(place.len()));
        let document: usize = document.parse().unwrap();
        *documents[document].pointer_mut(pointer).unwrap() = value;
        // JSON is YAML.
        let text: Vec<_> = documents.iter().map(Value::to_string).collect();
        let report = check_text(&text.join("\n---\n"));
        prop_assert!(!report.to_string().is_empty());
    }

    #[test]
    fn any_text_gives_an_answer(text in "[a-z:\\[\\]{}&*!|>%@`'\"# \n\t-]{0,200}") {
        check_text(&text);
    }
}
