//! Streamgate itself.

use super::settings::Settings;
use super::{Gate, grace_remedy, hook, probes};
use crate::check::manifests::command;
use crate::check::manifests::objects::{Container, Handler, PreStop, Workload};
use crate::check::manifests::report::Timeline;
use crate::core::budget::{IngressBudget, Rule, Seconds, Violation};

/// `None`: its configuration is in error, and that is reported; with other values it would have
/// another budget.
pub(super) fn check(gate: &Gate<'_>) -> Option<Timeline> {
    let Gate { workload, container, settings } = gate;
    launch(container);
    let drain = settings.drain();
    let budget = IngressBudget {
        grace: workload.grace.0,
        before: hook::ingress(container),
        propagation: drain.propagation,
        deadline: drain.deadline,
        cut_margin: drain.cut_margin,
        total: settings.timeouts().total,
    };
    if settings.broken {
        return None;
    }
    for violation in budget.violations() {
        report(workload, container, settings, &violation);
    }
    unbounded(container, settings, &budget);
    probes::ingress(container, settings.admin());
    hook::signal(container, "Streamgate");
    pre_stop(container, settings);
    alone(workload, settings);
    let (moments, longest) = (budget.timeline(), budget.longest_stream());
    Some(Timeline::new(workload, container, "Streamgate", budget.grace, moments, longest))
}

fn is_prestop(path: &str) -> bool {
    path.split('?').next() == Some("/prestop")
}

fn report(workload: &Workload, container: &Container, settings: &Settings, violation: &Violation) {
    let sum = violation.sum();
    let source = &settings.source;
    let (code, key, remedy) = match violation.rule {
        Rule::IngressGrace => (
            "ingress-grace",
            workload.pod_key("terminationGracePeriodSeconds"),
            format!("{}, or lower drain.deadline in {source}", grace_remedy(workload, sum)),
        ),
        Rule::IngressPropagation => (
            "ingress-propagation",
            container.path.clone(),
            format!(
                "raise drain.propagation in {source} to at least {}; more behind a cloud's load balancer",
                Seconds(sum)
            ),
        ),
        _ => (
            "ingress-stream",
            container.path.clone(),
            format!(
                "raise drain.deadline in {source} to at least {} (and the grace period with it), or lower timeouts.total",
                Seconds(sum)
            ),
        ),
    };
    container.scope.error(code, &key, violation.to_string(), remedy);
}

fn launch(container: &Container) {
    let command = command::ingress(container);
    if let Some(obstacle) = command.and_then(|command| command.launch.obstacle("Streamgate")) {
        container.scope.error(
            "ingress-behind-shell",
            &container.key("command"),
            format!("{obstacle}: SIGTERM begins no drain, and what still runs is killed"),
            "write `exec streamgate serve …` as the last command of the script",
        );
    }
}

fn unbounded(container: &Container, settings: &Settings, budget: &IngressBudget) {
    if budget.total.is_none() {
        container.scope.note(
            "stream-unbounded",
            &container.path,
            format!("timeouts.total is 0s: streams that run longer than {} are cut, with an error event, when a replica goes", Seconds(budget.longest_stream())),
            format!("set timeouts.total in {} to prove that none is", settings.source),
        );
    }
}

/// The kubelet comes from another address, and only to ports it reaches.
fn pre_stop(container: &Container, settings: &Settings) {
    let Some(PreStop::Handler(Handler::Http { path, port, aside })) = &container.pre_stop else {
        return;
    };
    if !is_prestop(path) {
        return;
    }
    probes::admin_port(
        container,
        settings.admin(),
        (port.as_ref(), aside.as_ref()),
        &container.key("lifecycle.preStop.httpGet"),
    );
    if !settings.drain().http_prestop {
        container.scope.error(
            "ingress-prestop",
            &container.key("lifecycle.preStop.httpGet"),
            "the call is refused: drain.http_prestop is false, and the kubelet does not come from loopback",
            format!("set drain.http_prestop: true in {}", settings.source),
        );
    }
}

fn alone(workload: &Workload, settings: &Settings) {
    if settings.counts_alone() && workload.replicas.is_some_and(|replicas| replicas > 1) {
        workload.scope.note(
            "caps-not-shared",
            &workload.key("spec.replicas"),
            "every replica counts for itself (quota.store: memory): a tenant's cap holds once for each of them",
            "divide the caps by the replicas, or use quota.store: redis",
        );
    }
}
