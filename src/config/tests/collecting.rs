use super::*;
use proptest::prelude::*;

#[test]
fn five_mistakes_of_five_sorts_are_five_errors() {
    let text = format!(
        "\
listen:
  porxy: 0.0.0.0:8080
pools:
  - name: p
    models: ['*']
    endpoints: ['127.0.0.1:8001']
    health: {{interval: 2}}
tenants:
  - id: t
    api_keys: ['{KEY_A}']
    max_in_flight: 0
    mode: [enforce]
anonymous: guests
"
    );
    let errors = text.parse::<Config>().unwrap_err();
    assert_eq!(
        errors.to_string(),
        "\
configuration: 5 errors
  listen.porxy (line 2): unknown key
    fix: did you mean `proxy`?
  pools[0].health.interval (line 7): a duration without unit, found 2
    fix: write a duration with its unit, from 100ms to 1h
  tenants[0].max_in_flight (line 11): out of range, found 0
    fix: write a whole number from 1 to 1000000
  tenants[0].mode (line 12): not one of the choices
    fix: write `enforce` or `shadow`
  anonymous (line 13): there is no such tenant, found \"guests\"
    fix: write `reject`, or the id of a tenant"
    );
}

#[test]
fn every_duplicate_key_is_an_error_wherever_it_is() {
    let text = format!("{}slo: {{ttft: 1s, ttft: 2s}}\nslo: {{}}\n", section(""));
    assert_eq!(
        problems(&text),
        [
            "slo.ttft: duplicate key, first given on line 5",
            "slo: duplicate key, first given on line 5",
        ]
    );
}

#[test]
fn a_mistyped_required_key_is_one_error_and_silences_what_follows_from_it() {
    only(
        &with("", ", models: [m]", "").replace("models: ['*']", "model: [m]"),
        "pools[0].model: unknown key",
    );
    only(&section("").replace("api_keys", "api_key"), "tenants[0].api_key: unknown key");
    only(&section("").replace("endpoints", "endpoint"), "pools[0].endpoint: unknown key");
    only(&section("").replace("pools:", "pool:"), "pool: unknown key");
}

#[test]
fn a_value_in_error_does_not_contradict_others() {
    only(
        &section("drain: {propagation: 200s, deadline: soon}\n"),
        "drain.deadline: not a duration",
    );
    only(
        &with("", ", models: [m]", "").replace("models: ['*']", "models: [7]"),
        "pools[0].models[0]: expected text, got a number",
    );
    only(
        &with(", kind: gatway, strategy: least-request", "", ""),
        "pools[0].kind: not one of the choices",
    );
}

#[test]
fn wrong_shapes_are_reported_and_the_rest_is_still_read() {
    assert_eq!(
        problems("pools: none\ntenants: [x]\nslo: 5\nlimits: [1]\nlog: {level: loud}\n"),
        [
            "pools: expected a list, got text",
            "tenants[0]: expected a section, got text",
            "slo: expected a section, got a number",
            "limits: expected a section, got a list",
            "log.level: not one of the choices",
        ]
    );
}

#[test]
fn an_empty_file_says_what_is_missing() {
    for text in ["", "---\n", "# nothing\n", "null"] {
        assert_eq!(problems(text), ["pools: missing", "tenants: missing"], "{text:?}");
    }
    assert_eq!(problems("pools: []\ntenants: []\n"), ["pools: empty list", "tenants: empty list"]);
    assert_eq!(problems("- a\n"), [": expected a section, got a list"]);
}

#[test]
fn broken_yaml_is_one_error_with_its_line() {
    for (text, line, problem) in [
        ("listen:\n  proxy: [\nslo: }\n", 2, "mismatched bracket '[' closed by '}'"),
        ("slo:\n  ttft: 1s\n   tpot: 1s\n", 3, "mapping values are not allowed in this context"),
        ("anonymous: 'x\n", 1, "unclosed quote"),
        ("slo: *goals\n", 1, "reference to unknown value"),
        ("slo: {}\n---\nslo: {}\n", 3, "only single YAML document expected but multiple found"),
        (&"[".repeat(100_000), 1, "recursion limit exceeded"),
    ] {
        let errors = text.parse::<Config>().unwrap_err();
        let [error] = errors.errors() else { panic!("{errors}") };
        assert_eq!((error.path.as_str(), error.line), ("", Some(line)), "{errors}");
        assert_eq!(error.problem, problem);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let errors = Config::load(Path::new("/nonexistent/streamgate.yaml")).unwrap_err();
    assert!(
        errors
            .to_string()
            .starts_with("/nonexistent/streamgate.yaml: 1 error\n  file: cannot read the file: "),
        "{errors}"
    );
}

proptest! {
    /// Whatever one line of the reference is replaced by: no panic, and refusals are explained.
    #[test]
    fn no_edit_of_the_reference_is_a_panic(line in 0..200_usize, edit in "[ -~]{0,40}") {
        let reference = include_str!("../../../config/streamgate.yaml");
        let mut lines: Vec<&str> = reference.lines().collect();
        let at = line % lines.len();
        lines[at] = &edit;
        if let Err(errors) = lines.join("\n").parse::<Config>() {
            prop_assert!(!errors.errors().is_empty());
            for error in errors.errors() {
                prop_assert!(!error.problem.is_empty() && !error.remedy.is_empty());
            }
        }
    }
}
