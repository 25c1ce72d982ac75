//! What the whole way of a file guarantees; parts are tested beside their code.

mod collecting;
mod defaults;
mod discovery;
mod files;
mod forms;
mod later_forms;
mod pool_rules;
mod quota;
mod secrets;
mod tenant_rules;
mod unsupported;
mod value_rules;

use super::*;

/// SHA-256 of `sg-demo-interactive` and of `sg-demo-batch`.
const KEY_A: &str = "sha256:0a2179ee7f4f90836e12c83c8c4419505105d02af3271ea174a37a489909873c";
const KEY_B: &str = "sha256:856d3b53f86eb70a4528486a9c6f88e1040fde41f3520285779fdbffcf7791f3";

/// The least valid configuration, with `more` fields in its pool and its tenant and `rest` as
/// further sections.
fn with(pool: &str, tenant: &str, rest: &str) -> String {
    format!(
        "pools:\n- {{name: p, models: ['*'], endpoints: ['127.0.0.1:8001'] {pool}}}\n\
         tenants:\n- {{id: t, api_keys: ['{KEY_A}'], max_in_flight: 1 {tenant}}}\n{rest}"
    )
}

fn section(rest: &str) -> String {
    with("", "", rest)
}

/// `path: problem` of each error, in order.
fn problems(text: &str) -> Vec<String> {
    match text.parse::<Config>() {
        Ok(_) => Vec::new(),
        Err(errors) => {
            errors.errors().iter().map(|e| format!("{}: {}", e.path, e.problem)).collect()
        }
    }
}

#[track_caller]
fn valid(text: &str) -> Config {
    text.parse().unwrap_or_else(|errors| panic!("{errors}\n---\n{text}"))
}

/// Exactly this one problem.
#[track_caller]
fn only(text: &str, problem: &str) {
    assert_eq!(problems(text), [problem], "\n---\n{text}");
}
