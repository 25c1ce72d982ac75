//! vLLM.

use super::front::PoolCut;
use super::hook::{Proof, Reading};
use super::{Behind, deadline, grace_remedy, hook, probes, sidecar};
use crate::check::manifests::command::{EngineCommand, Image, Launch, Number, Server, Version};
use crate::check::manifests::objects::{Container, Workload};
use crate::check::manifests::report::Timeline;
use crate::core::budget::{
    ENGINE_KEEP_ALIVE, EngineBudget, Hook, Moment, Rule, Seconds, TEARDOWN, Violation,
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
    for server in &command.servers {
        launch(container, server);
        servers(container, server);
    }
    probes::engine(container);
    hook::signal(container, "vLLM");
    sidecar::check(workload, behind);
    let Reading { hook, proves } = hook::engine(workload, container, behind);
    let keep_alive = number(container, &command.keep_alive, "env", "VLLM_HTTP_TIMEOUT_KEEP_ALIVE");
    let keep_alive = keep_alive.map_or(ENGINE_KEEP_ALIVE, Duration::from_secs);
    let subject = Subject { workload, container, behind, hook, proves, keep_alive };
    let budgets = command.servers.iter().map(|server| subject.budget(server));
    // Whichever runs, what the worst of them completes is what can be relied on.
    let worst = budgets.min_by_key(EngineBudget::longest_stream);
    let budget = worst.unwrap_or_else(|| subject.granted(Duration::ZERO).0);
    let (moments, longest) = match proves {
        Proof::Waits | Proof::Length => (budget.timeline(), budget.longest_stream()),
        Proof::Nothing => (unknown(budget.grace), Duration::ZERO),
    };
    Timeline::new(workload, container, "vLLM", budget.grace, moments, longest)
}

/// What is the same for every server of a script.
struct Subject<'s, 'o> {
    workload: &'s Workload,
    container: &'s Container,
    behind: &'s Behind<'o>,
    hook: Hook,
    proves: Proof,
    keep_alive: Duration,
}

impl Subject<'_, '_> {
    /// The budget with this `--shutdown-timeout`, and what the pools in front do.
    fn granted(&self, shutdown_timeout: Duration) -> (EngineBudget, Vec<PoolCut>) {
        // An engine that aborts leaves nothing to be cut.
        let cuts = match shutdown_timeout {
            Duration::ZERO => Vec::new(),
            timeout => self.behind.cuts(self.workload, timeout),
        };
        let budget = EngineBudget {
            grace: self.workload.grace.0,
            hook: self.hook,
            shutdown_timeout,
            cut: cuts.iter().filter_map(|pool| pool.cut.after_sigterm()).min(),
        };
        (budget, cuts)
    }

    /// The budget of one server, reported.
    fn budget(&self, server: &Server) -> EngineBudget {
        let Self { workload, container, behind, .. } = *self;
        unwritten(container, server);
        let timeout = timeout(container, server);
        let (budget, cuts) = self.granted(Duration::from_secs(timeout.unwrap_or(0)));
        let mut violations = budget.violations();
        // What cannot be told was reported as that.
        violations.retain(|violation| match violation.rule {
            Rule::EngineAborts => timeout.is_some(),
            Rule::EnginePropagation => self.proves == Proof::Waits,
            _ => true,
        });
        if timeout.is_some_and(|timeout| timeout > 0) && self.proves == Proof::Waits {
            violations.extend(behind.demands.total.and_then(|total| budget.stream(total)));
        }
        let upstream_idle = behind.demands.upstream_idle;
        violations.extend(EngineBudget::keep_alive(upstream_idle, self.keep_alive));
        for violation in &violations {
            report(workload, container, &budget, violation);
        }
        deadline::check(container, &budget, &cuts);
        budget
    }
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
fn timeout(container: &Container, server: &Server) -> Option<u64> {
    if server.launch == Launch::Hidden {
        container.scope.error(
            "engine-hidden",
            &container.key("command"),
            "vLLM's image, but its command line is not in the manifest",
            "write `vllm serve …` here, so that its shutdown can be checked",
        );
        return None;
    }
    match &server.shutdown_timeout {
        Number::Absent if server.file.is_some() => None,
        Number::Absent => Some(0),
        other => number(container, other, "args", "--shutdown-timeout"),
    }
}

/// What may be set where the manifests do not show it.
fn unwritten(container: &Container, server: &Server) {
    let flags = [
        ("--shutdown-timeout", &server.shutdown_timeout),
        ("--api-server-count", &server.api_servers),
    ];
    let names = |set: &dyn Fn(&Number) -> bool| {
        let names = flags.iter().filter(|(_, number)| set(number)).map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(" and ")
    };
    let report = |problem, remedy| {
        container.scope.error("engine-unreadable", &container.key("args"), problem, remedy);
    };
    let open = flags.iter().find_map(|(_, number)| match number {
        Number::Open(what) => Some(what),
        _ => None,
    });
    if let Some(what) = open {
        let names = names(&|number| matches!(number, Number::Open(_)));
        report(
            format!(
                "{names} may be in an argument that depends on {what}, which the manifests do not hold"
            ),
            format!("write {names} behind that argument: the last one counts"),
        );
    }
    if let Some(file) = &server.file {
        let names = names(&|number| *number == Number::Absent);
        if !names.is_empty() {
            report(
                format!("{names} may be in {file:?}, which is not in the manifests"),
                format!("write {names} as an argument; it goes before the file"),
            );
        }
    }
}

/// A number of the command line, if it is known; reported if it is none.
fn number(container: &Container, number: &Number, key: &str, name: &str) -> Option<u64> {
    match number {
        Number::Absent | Number::Known(_) | Number::Open(_) => {}
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

fn launch(container: &Container, server: &Server) {
    if let Some(obstacle) = server.launch.obstacle("vLLM") {
        container.scope.error(
            "engine-behind-shell",
            &container.key("command"),
            format!("{obstacle}: vLLM is killed in the middle of its streams"),
            "write `exec vllm serve …` as the last command of the script",
        );
    }
}

/// Measured: with two API servers some streams get an error at once and others freeze.
fn servers(container: &Container, server: &Server) {
    let servers = number(container, &server.api_servers, "args", "--api-server-count");
    let ranks = number(container, &server.ranks, "args", "--data-parallel-size");
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
