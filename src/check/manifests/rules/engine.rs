//! vLLM.

use super::hook::{Proof, Reading};
use super::{Behind, deadline, grace_remedy, hook, probes};
use crate::check::manifests::command::{EngineCommand, Image, Launch, Number, Version};
use crate::check::manifests::objects::{Container, Workload};
use crate::check::manifests::report::Timeline;
use crate::core::budget::{
    ENGINE_KEEP_ALIVE, EngineBudget, Moment, Rule, Seconds, TEARDOWN, Violation,
};
use std::time::Duration;

/// The first release that knows `--shutdown-timeout`.
const FIRST: Version = Version(0, 18, 0);

pub(super) fn check(
    workload: &Workload,
    container: &Container,
    command: &EngineCommand,
    behind: &Behind<'_>,
) -> Timeline {
    version(container);
    launch(container, command);
    servers(container, command);
    probes::engine(container);
    hook::signal(container, "vLLM");
    let Reading { hook, proves } = hook::engine(workload, container, behind);
    let keep_alive = number(container, &command.keep_alive, "env", "VLLM_HTTP_TIMEOUT_KEEP_ALIVE");
    let engine = keep_alive.map_or(ENGINE_KEEP_ALIVE, Duration::from_secs);
    let timeout = timeout(container, command);
    let shutdown_timeout = Duration::from_secs(timeout.unwrap_or(0));
    // An engine that aborts leaves nothing to be cut.
    let cuts = match shutdown_timeout {
        Duration::ZERO => Vec::new(),
        timeout => behind.cuts(workload, timeout),
    };
    let budget = EngineBudget {
        grace: workload.grace.0,
        hook,
        shutdown_timeout,
        cut: cuts.iter().filter_map(|pool| pool.cut.after_sigterm()).min(),
    };
    let mut violations = budget.violations();
    // What cannot be told was reported as that.
    violations.retain(|violation| match violation.rule {
        Rule::EngineAborts => timeout.is_some(),
        Rule::EnginePropagation => proves == Proof::Waits,
        _ => true,
    });
    if timeout.is_some_and(|timeout| timeout > 0) && proves == Proof::Waits {
        violations.extend(behind.demands.total.and_then(|total| budget.stream(total)));
    }
    violations.extend(EngineBudget::keep_alive(behind.demands.upstream_idle, engine));
    for violation in &violations {
        report(workload, container, &budget, violation);
    }
    deadline::check(container, &budget, &cuts);
    let (moments, longest) = match proves {
        Proof::Waits | Proof::Length => (budget.timeline(), budget.longest_stream()),
        Proof::Nothing => (unknown(budget.grace), Duration::ZERO),
    };
    Timeline::new(workload, container, "vLLM", budget.grace, moments, longest)
}

/// What happens when with a hook that nobody can read.
fn unknown(grace: Duration) -> Vec<Moment> {
    let begin = "deleted; what preStop waits for cannot be told, nor when SIGTERM comes";
    let end = "SIGKILL, if the container still runs";
    vec![Moment { at: Duration::ZERO, event: begin }, Moment { at: grace, event: end }]
}

fn report(
    workload: &Workload,
    container: &Container,
    budget: &EngineBudget,
    violation: &Violation,
) {
    let longest = Seconds(violation.right.value);
    let sum = violation.sum();
    let (code, key, remedy) = match violation.rule {
        Rule::EngineAborts => {
            let most = budget.grace.saturating_sub(budget.hook.longest()).saturating_sub(TEARDOWN);
            let problem = "--shutdown-timeout is 0s: at SIGTERM vLLM aborts every running stream, and some of them look finished";
            let remedy = format!(
                "add --shutdown-timeout with the length of the longest stream; {} of grace leave room for {}",
                Seconds(budget.grace),
                Seconds(most)
            );
            return container.scope.error("engine-aborts", &container.key("args"), problem, remedy);
        }
        Rule::EngineGrace => (
            "engine-grace",
            workload.pod_key("terminationGracePeriodSeconds"),
            format!(
                "{}, or shorten --shutdown-timeout or the preStop wait",
                grace_remedy(workload, sum)
            ),
        ),
        Rule::EnginePropagation => (
            "engine-propagation",
            container.key("lifecycle.preStop"),
            format!(
                "wait at least {} in preStop, or drain the endpoint there (docs/rolling-updates.md)",
                Seconds(sum)
            ),
        ),
        Rule::EngineDrainWait => (
            "engine-drain-wait",
            container.key("lifecycle.preStop"),
            format!(
                "ask for at most {longest}, or let the caller wait longer than {}",
                Seconds(sum)
            ),
        ),
        Rule::EngineStream => (
            "engine-stream",
            container.key("args"),
            format!(
                "raise --shutdown-timeout (with engine_shutdown_timeout) or the preStop wait, or lower timeouts.total to {longest}"
            ),
        ),
        _ => (
            "engine-keep-alive",
            container.key("env"),
            format!(
                "set timeouts.upstream_idle below {longest}, or raise VLLM_HTTP_TIMEOUT_KEEP_ALIVE"
            ),
        ),
    };
    container.scope.error(code, &key, violation.to_string(), remedy);
}

/// `None`: it cannot be told, and that is reported.
fn timeout(container: &Container, command: &EngineCommand) -> Option<u64> {
    let named = command.file.as_ref().filter(|_| command.shutdown_timeout == Number::Absent);
    if command.launch == Launch::Hidden {
        container.scope.error(
            "engine-hidden",
            &container.key("command"),
            "vLLM's image, but its command line is not in the manifest",
            "write `vllm serve …` here, so that its shutdown can be checked",
        );
        return None;
    }
    if let Some(file) = named {
        container.scope.error(
            "engine-unreadable",
            &container.key("args"),
            format!("--shutdown-timeout may be in {file:?}, which is not in the manifests"),
            "write --shutdown-timeout as an argument; it goes before the file",
        );
        return None;
    }
    match &command.shutdown_timeout {
        Number::Absent => Some(0),
        other => number(container, other, "args", "--shutdown-timeout"),
    }
}

/// A number of the command line, if it is known; reported if it is none.
fn number(container: &Container, number: &Number, key: &str, name: &str) -> Option<u64> {
    match number {
        Number::Absent | Number::Known(_) => {}
        Number::Wrong(why) => {
            let remedy = format!("write {name} with a whole number");
            container.scope.error(
                "invalid-value",
                &container.key(key),
                format!("{name}: {why}"),
                remedy,
            );
        }
        Number::Unknown(what) => container.scope.error(
            "engine-unreadable",
            &container.key(key),
            format!("the value of {name} depends on {what}, which the manifests do not hold"),
            "write it as a literal value",
        ),
    }
    number.known()
}

fn version(container: &Container) {
    let Some(reference) = &container.image else { return };
    let image = Image::parse(reference);
    match image.version() {
        Some(version) if version < FIRST => container.scope.error(
            "engine-version",
            &container.key("image"),
            format!("vLLM {version} knows no --shutdown-timeout: it aborts every running stream at SIGTERM"),
            format!("use {FIRST} or newer"),
        ),
        Some(_) => {}
        None => container.scope.note(
            "engine-version-unknown",
            &container.key("image"),
            format!("which vLLM this is cannot be told from {reference:?}"),
            format!("name a release; --shutdown-timeout exists from {FIRST} on"),
        ),
    }
}

fn launch(container: &Container, command: &EngineCommand) {
    if command.launch == Launch::BehindShell {
        container.scope.error(
            "engine-behind-shell",
            &container.key("command"),
            "a shell stays in front of vLLM and does not pass SIGTERM on: vLLM is killed in the middle of its streams",
            "write `exec vllm serve …` as the last command of the script",
        );
    }
}

/// Measured: with two API servers some streams get an error at once and others freeze.
fn servers(container: &Container, command: &EngineCommand) {
    let servers = number(container, &command.api_servers, "args", "--api-server-count");
    let ranks = number(container, &command.ranks, "args", "--data-parallel-size");
    let (name, count) = match (servers, ranks) {
        (Some(count), _) => ("--api-server-count", count),
        (None, Some(ranks)) => {
            ("--data-parallel-size (as many API servers unless told otherwise)", ranks)
        }
        (None, None) => return,
    };
    if count > 1 {
        container.scope.error(
            "engine-api-servers",
            &container.key("args"),
            format!("{name} is {count}: with more than one API server vLLM breaks streams when it drains"),
            "write --api-server-count 1, and scale by replicas",
        );
    }
}
