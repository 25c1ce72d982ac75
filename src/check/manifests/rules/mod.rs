//! What is asked of the objects. Each file is one subject; all of them report through the scope
//! of what they look at.

mod disruption;
mod engine;
mod hook;
mod ingress;
mod probes;
mod rollout;
mod service;
mod settings;

pub(super) use settings::Fallback;

use super::command::{self, EngineCommand, IngressCommand};
use super::objects::{Container, Objects, Workload};
use super::report::Timeline;
use crate::config::Timeouts;
use settings::Settings;
use std::time::Duration;

/// A container that the rules are about.
enum Role {
    Engine(EngineCommand),
    Ingress(IngressCommand),
}

/// A workload with the containers that the rules are about. Never without one.
struct Subject<'o> {
    workload: &'o Workload,
    containers: Vec<(&'o Container, Role)>,
}

impl<'o> Subject<'o> {
    fn of(workload: &'o Workload) -> Option<Self> {
        let role = |container| {
            let engine = command::engine(container).filter(|engine| !engine.headless);
            let ingress = || command::ingress(container).map(Role::Ingress);
            engine.map(Role::Engine).or_else(ingress).map(|role| (container, role))
        };
        let containers: Vec<_> = workload.containers.iter().filter_map(role).collect();
        (!containers.is_empty()).then_some(Self { workload, containers })
    }

    fn is_ingress(&self) -> bool {
        self.containers.iter().any(|(_, role)| matches!(role, Role::Ingress(_)))
    }
}

/// What the ingress in front asks of an engine.
#[derive(Default)]
struct Demands {
    /// The longest stream it admits; `None`: not known, or without a bound.
    total: Option<Duration>,
    /// How long it keeps an idle connection.
    upstream_idle: Duration,
}

/// Check everything. `None`: there is nothing that the rules are about.
pub(super) fn check(objects: &Objects, fallback: &Fallback<'_>) -> Option<Vec<Timeline>> {
    let subjects: Vec<_> = objects.workloads.iter().filter_map(Subject::of).collect();
    let mut timelines = Vec::new();
    let mut demands: Option<Demands> = None;
    for (subject, container, command) in subjects.iter().flat_map(ingresses) {
        let settings = Settings::find(subject.workload, container, command, objects, fallback);
        let timeouts = settings.timeouts();
        // With several of them, what one of them does is enough to break a stream.
        let demands = demands.get_or_insert_with(Demands::default);
        demands.total = demands.total.max(timeouts.total);
        demands.upstream_idle = demands.upstream_idle.max(timeouts.upstream_idle);
        timelines.extend(ingress::check(subject.workload, container, &settings));
    }
    let demands = demands.unwrap_or_else(|| {
        let Timeouts { total, upstream_idle, .. } = fallback.timeouts();
        Demands { total, upstream_idle }
    });
    for (subject, container, command) in subjects.iter().flat_map(engines) {
        timelines.push(engine::check(subject.workload, container, command, &demands));
    }
    for subject in &subjects {
        rollout::check(subject);
    }
    disruption::check(&subjects, objects);
    service::check(&subjects, objects);
    (!subjects.is_empty()).then_some(timelines)
}

fn ingresses<'s, 'o>(
    subject: &'s Subject<'o>,
) -> impl Iterator<Item = (&'s Subject<'o>, &'o Container, &'s IngressCommand)> {
    subject.containers.iter().filter_map(move |(container, role)| match role {
        Role::Ingress(command) => Some((subject, *container, command)),
        Role::Engine(_) => None,
    })
}

fn engines<'s, 'o>(
    subject: &'s Subject<'o>,
) -> impl Iterator<Item = (&'s Subject<'o>, &'o Container, &'s EngineCommand)> {
    subject.containers.iter().filter_map(move |(container, role)| match role {
        Role::Engine(command) => Some((subject, *container, command)),
        Role::Ingress(_) => None,
    })
}

/// Where the grace period is written, and what to write.
fn grace_remedy(workload: &Workload, least: Duration) -> String {
    let least = crate::core::budget::Seconds(least);
    match workload.grace {
        (_, true) => format!("raise terminationGracePeriodSeconds to at least {least}"),
        (_, false) => format!(
            "write terminationGracePeriodSeconds, at least {least}: without it Kubernetes grants 30s"
        ),
    }
}
