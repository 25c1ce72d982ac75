//! The scenario files that are shipped.

use std::path::{Path, PathBuf};

use streamgate_loadtests::plan::PhasePlan;
use streamgate_loadtests::scenario::{Scenario, ScenarioError};

fn shipped() -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn every_shipped_scenario_is_valid() {
    let files = shipped();
    assert!(files.len() >= 9, "{files:?}");
    for file in files {
        let scenario = Scenario::read(&file).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(Some(scenario.name.as_str()), file.file_stem().and_then(|s| s.to_str()));
    }
}

#[test]
fn the_published_counts_are_planned() {
    let count = |name: &str| {
        let path = format!("{}/scenarios/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let scenario = Scenario::read(Path::new(&path)).unwrap();
        let of = |p| PhasePlan::of(p, scenario.seed).schedule.len();
        scenario.phases.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(count("w1"), [414]);
    assert_eq!(count("t0"), [210]);
    let routing = count("routing");
    assert_eq!((routing.len(), routing.iter().sum::<usize>()), (24, 2304));
}

#[test]
fn every_mistake_is_told_at_once() {
    let text = "name: a b\nabout: x\nseed: 1\ntime_scale: 0.5\ntarget: {direct: {}}\nprompts: {}\n\
                phases:\n- name: p\n  requests: [{tenant: a, prompt: none, max_tokens: 0}]\n\
                expect: [{figure: wrong}]\n";
    let Err(ScenarioError::Wrong { mistakes, .. }) = Scenario::parse("x", text) else {
        panic!("mistakes are told")
    };
    let paths: Vec<&str> = mistakes.iter().map(|m| m.split(':').next().unwrap()).collect();
    let expected = [
        "time_scale",
        "name",
        "engines",
        "phases[0].open",
        "phases[0].requests[0].max_tokens",
        "phases[0].requests[0].prompt",
        "expect[0].figure",
    ];
    assert_eq!(paths, expected, "{mistakes:#?}");
}

#[test]
fn mistakes_of_shape_and_of_meaning_are_told_together() {
    let text = "name: five\nabout: x\nseed: lots\ntime_scael: 10\nlag_bound: 5 parsecs\n\
                engines: {count: 2}\ntarget: {direct: {}}\n\
                prompts: {short: {kind: unique, sentences: 30}}\n\
                phases:\n- name: p\n  open: {segments: [{length: 10s, rate: -1}]}\n  \
                requests: [{tenant: a, prompt: short}]\n";
    let Err(ScenarioError::Wrong { mistakes, .. }) = Scenario::parse("x", text) else {
        panic!("mistakes are told")
    };
    let told = mistakes.join("\n");
    assert_eq!(mistakes.len(), 5, "{told}");
    for words in [
        &["seed: ", "\"lots\"", "u64"][..],
        &["time_scael: ", "unknown field", "`time_scale`"],
        &["lag_bound: ", "5 parsecs", "150ms, 30s"],
        &["phases[0].requests[0].max_tokens: missing: add it"],
        &["phases[0].open.segments[0].rate: ", "-1", "0 or more"],
    ] {
        let with_all = |m: &&String| words.iter().all(|w| m.contains(w));
        assert_eq!(mistakes.iter().filter(with_all).count(), 1, "{words:?} in {told}");
    }
}

#[test]
fn an_empty_file_misses_every_key() {
    let error = Scenario::parse("x.yaml", "{}").unwrap_err().to_string();
    for key in ["name", "about", "seed", "target", "prompts", "phases"] {
        assert!(error.contains(&format!("{key}: missing")), "{key} in {error}");
    }
}

#[test]
fn what_is_no_yaml_is_told_with_its_place() {
    let error = Scenario::parse("x.yaml", "name: [\n").unwrap_err().to_string();
    assert!(error.starts_with("x.yaml: ") && error.contains("line"), "{error}");
}

#[test]
fn a_wrong_key_is_told_with_its_place() {
    let error = Scenario::parse("x.yaml", "name: a\nabuot: x\n").unwrap_err().to_string();
    assert!(error.contains("abuot") && error.contains("x.yaml"), "{error}");
}
