//! What a scenario must hold beyond its shape; every mistake is told at once.

use std::collections::BTreeSet;

use super::types::{Action, PhaseSpec, PromptKind, Scenario, TargetSpec};
use crate::figures::FIGURES;

fn say(found: &mut Vec<String>, path: String, what: String) {
    found.push(format!("{path}: {what}"));
}

/// All mistakes of a scenario: key path, what is wrong, what to do.
pub(super) fn mistakes(scenario: &Scenario) -> Vec<String> {
    let mut found = Vec::new();
    if !(scenario.time_scale.is_finite() && scenario.time_scale >= 1.0) {
        say(&mut found, "time_scale".into(), format!("{} must be 1 or more", scenario.time_scale));
    }
    let file_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if scenario.name.is_empty() || !scenario.name.chars().all(file_safe) {
        say(
            &mut found,
            "name".into(),
            format!("{:?} must be letters, digits, -, _ or .", scenario.name),
        );
    }
    match (&scenario.target, &scenario.engines) {
        (TargetSpec::Url(_), Some(_)) => {
            say(&mut found, "engines".into(), "a url target has its own; leave engines out".into());
        }
        (TargetSpec::Direct(_) | TargetSpec::Streamgate(_), None) => {
            say(
                &mut found,
                "engines".into(),
                "missing: this target needs simulated engines".into(),
            );
        }
        _ => {}
    }
    if scenario.engines.as_ref().is_some_and(|e| e.count == 0 || e.count > 26) {
        say(&mut found, "engines.count".into(), "must be 1 to 26 (they are called A to Z)".into());
    }
    if scenario.phases.is_empty() {
        say(&mut found, "phases".into(), "at least one is needed".into());
    }
    let mut names = BTreeSet::new();
    for (i, phase) in scenario.phases.iter().enumerate() {
        if !names.insert(&phase.name) {
            say(&mut found, format!("phases[{i}].name"), format!("{:?} is used twice", phase.name));
        }
        for mistake in phase_mistakes(scenario, phase) {
            found.push(format!("phases[{i}].{mistake}"));
        }
    }
    for (i, expect) in scenario.expect.iter().enumerate() {
        if !FIGURES.iter().any(|(name, _)| *name == expect.figure) {
            let known: Vec<&str> = FIGURES.iter().map(|(n, _)| *n).collect();
            let known = known.join(", ");
            say(
                &mut found,
                format!("expect[{i}].figure"),
                format!("{:?} is none of {known}", expect.figure),
            );
        }
        if expect.phase.as_ref().is_some_and(|p| !names.contains(p)) {
            say(
                &mut found,
                format!("expect[{i}].phase"),
                format!("{:?} is no phase", expect.phase.as_deref().unwrap_or("")),
            );
        }
    }
    found
}

fn phase_mistakes(scenario: &Scenario, phase: &PhaseSpec) -> Vec<String> {
    let mut found = Vec::new();
    if phase.open.is_some() == phase.closed.is_some() {
        found.push("open: exactly one of open and closed is needed".to_owned());
    }
    if let Some(open) = &phase.open {
        for (i, segment) in open.segments.iter().enumerate() {
            if !(segment.rate.is_finite() && segment.rate >= 0.0) {
                found.push(format!(
                    "open.segments[{i}].rate: {} must be 0 or more, in arrivals a second",
                    segment.rate
                ));
            }
        }
    }
    if phase.closed.is_some_and(|c| c.lanes == 0) {
        found.push("closed.lanes: 0 must be 1 or more".to_owned());
    }
    if phase.requests.is_empty() {
        found.push("requests: at least one is needed".to_owned());
    }
    for (i, request) in phase.requests.iter().enumerate() {
        if request.max_tokens == 0 {
            found.push(format!("requests[{i}].max_tokens: 0 must be 1 or more"));
        }
        match scenario.prompts.get(&request.prompt) {
            None => {
                let known: Vec<&str> = scenario.prompts.keys().map(String::as_str).collect();
                let (given, known) = (&request.prompt, known.join(", "));
                found.push(format!(
                    "requests[{i}].prompt: {given:?} is not among the prompts ({known})"
                ));
            }
            Some(p) if p.kind == PromptKind::Grouped && phase.groups.is_none() => {
                found.push(format!("requests[{i}].prompt: a grouped prompt needs groups"));
            }
            Some(_) => {}
        }
    }
    if phase.groups.is_some_and(|g| g.count == 0 || (g.hot.is_some() && g.count != 8)) {
        found.push("groups.count: must be 8 with a hot group, else 1 or more".to_owned());
    }
    found.extend(action_mistakes(scenario, phase));
    found
}

fn action_mistakes(scenario: &Scenario, phase: &PhaseSpec) -> Vec<String> {
    let mut found = Vec::new();
    let simulated = scenario.engines.is_some();
    let real = matches!(scenario.target, TargetSpec::Streamgate(_));
    for (i, action) in phase.actions.iter().enumerate() {
        let needs_streamgate =
            matches!(action.what, Action::FreezeRedis { .. } | Action::RollStreamgate {});
        if let Some(engine) = named(&action.what).filter(|e| simulated && !possible(e)) {
            found.push(format!("actions[{i}].do: {engine:?} is no engine: they are A, B, C, …"));
        }
        if needs_streamgate && !real {
            found.push(format!("actions[{i}].do: needs target.streamgate"));
        } else if !simulated {
            found.push(format!("actions[{i}].do: needs simulated engines"));
        }
    }
    if phase.autoscale.is_some() && !simulated {
        found.push("autoscale: needs simulated engines".to_owned());
    }
    if phase.autoscale.is_some_and(|a| a.min > a.max || a.max > 26 || a.target_running <= 0.0) {
        found.push("autoscale: min ≤ max ≤ 26 and target_running > 0 must hold".to_owned());
    }
    found
}

/// The engine that an action names.
fn named(action: &Action) -> Option<&str> {
    match action {
        Action::DeletePod { engine, .. }
        | Action::Kill { engine }
        | Action::Drain { engine, .. } => Some(engine),
        Action::ResetCache { engine } => engine.as_deref(),
        Action::ScaleUp { .. } | Action::FreezeRedis { .. } | Action::RollStreamgate {} => None,
    }
}

/// Whether an engine may be called so; some come only later, so the count does not bound it.
fn possible(engine: &str) -> bool {
    matches!(engine.as_bytes(), [b'A'..=b'Z'])
}
