//! What is asked of the objects. Each file is one subject; all of them report through the scope
//! of what they look at.

mod address;
mod deadline;
mod disruption;
mod endpoint;
mod engine;
mod front;
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
use crate::config::{Pool, Timeouts};
use front::{Front, PoolCut};
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
struct Demands {
    /// The longest stream it admits; `None`: not known, or without a bound.
    total: Option<Duration>,
    /// How long it keeps an idle connection.
    upstream_idle: Duration,
}

impl Demands {
    /// With several replicas, what one of them does is enough to break a stream. `None`: there is
    /// none.
    fn of(timeouts: impl Iterator<Item = Timeouts>) -> Option<Self> {
        timeouts.map(Self::from).reduce(|one, other| Self {
            total: one.total.max(other.total),
            upstream_idle: one.upstream_idle.max(other.upstream_idle),
        })
    }
}

impl From<Timeouts> for Demands {
    fn from(Timeouts { total, upstream_idle, .. }: Timeouts) -> Self {
        Self { total, upstream_idle }
    }
}

/// What stands in front of the engines.
struct Behind<'o> {
    demands: Demands,
    fronts: Vec<Front<'o>>,
    /// Replicas of the ingress, with the port of their admin API.
    gates: Vec<(&'o Workload, &'o Container, u16)>,
    engines: Vec<&'o Workload>,
    objects: &'o Objects,
}

impl Behind<'_> {
    /// Every pool that `engine` may be behind, with its place: those that name it, else those that
    /// name no engine. And whether they name it.
    fn pools(&self, engine: &Workload) -> (Vec<(&Front<'_>, usize, &Pool)>, bool) {
        let of = |front| (front, Front::pools(front, engine, &self.engines, self.objects));
        let all: Vec<_> = self.fronts.iter().map(of).collect();
        let named = all.iter().any(|(_, (_, named))| *named);
        let kept = all.into_iter().filter(|(_, (_, names))| *names == named);
        let pools = kept.flat_map(|(front, (pools, _))| {
            pools.into_iter().map(move |(index, pool)| (front, index, pool))
        });
        (pools.collect(), named)
    }

    /// What every pool that `engine` may be behind does when it stops; `timeout`: its own.
    fn cuts(&self, engine: &Workload, timeout: Duration) -> Vec<PoolCut> {
        let (pools, named) = self.pools(engine);
        let cuts = pools.into_iter().map(|(front, index, pool)| front.cut((index, pool)));
        let mut cuts: Vec<_> = cuts.collect();
        let fits = |one: &PoolCut| one.cut.disagreement(timeout).is_none();
        if !named && let Some(fits) = cuts.iter().position(fits) {
            cuts = vec![cuts.swap_remove(fits)];
        }
        cuts
    }
}

/// Check everything. `None`: there is nothing that the rules are about.
pub(super) fn check<'o>(objects: &'o Objects, fallback: &Fallback<'_>) -> Option<Vec<Timeline>> {
    let subjects: Vec<_> = objects.workloads.iter().filter_map(Subject::of).collect();
    let find = |(subject, container, command): (&Subject<'o>, _, _)| {
        let workload = subject.workload;
        (workload, container, Settings::find(workload, container, command, objects, fallback))
    };
    let replicas: Vec<_> = subjects.iter().flat_map(ingresses).map(find).collect();
    let mut timelines: Vec<_> = replicas
        .iter()
        .filter_map(|(workload, container, settings)| ingress::check(workload, container, settings))
        .collect();
    let timeouts = replicas.iter().map(|(_, _, settings)| settings.timeouts());
    let demands = Demands::of(timeouts).unwrap_or_else(|| fallback.timeouts().into());
    let fronts =
        replicas.iter().filter_map(|(workload, _, settings)| Front::of(settings, workload));
    let mut fronts: Vec<_> = fronts.collect();
    if replicas.is_empty() {
        fronts.extend(fallback.config.map(Front::elsewhere));
    }
    let behind = Behind {
        engines: subjects.iter().flat_map(engines).map(|(subject, ..)| subject.workload).collect(),
        gates: replicas
            .iter()
            .map(|(workload, container, settings)| (*workload, *container, settings.admin().port()))
            .collect(),
        demands,
        fronts,
        objects,
    };
    for (subject, container, command) in subjects.iter().flat_map(engines) {
        timelines.push(engine::check(subject.workload, container, command, &behind));
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
