//! What is asked of the objects. Each file is one subject; all of them report through the scope
//! of what they look at.

mod address;
mod deadline;
mod directory;
mod disruption;
mod endpoint;
mod engine;
mod front;
mod hook;
mod ingress;
mod pools;
mod probes;
mod replicas;
mod rollout;
mod service;
mod settings;
mod sidecar;

pub(super) use settings::Fallback;

use super::command::{self, EngineCommand, IngressCommand};
use super::objects::{Container, NetworkPolicy, Objects, Workload};
use super::report::Timeline;
use crate::config::{Pool, Timeouts};
use directory::Directory;
use front::{Front, PoolCut, Ways};
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

/// A replica of the ingress, and the configuration it runs with.
struct Gate<'o> {
    workload: &'o Workload,
    container: &'o Container,
    settings: Settings,
}

/// What stands in front of the engines.
struct Behind<'o> {
    demands: Demands,
    gates: &'o [Gate<'o>],
    policies: &'o [NetworkPolicy],
    fronts: Vec<Front<'o>>,
    /// Which workloads run an engine.
    engines: Vec<bool>,
    ways: Ways,
    directory: Directory<'o>,
}

impl<'o> Behind<'o> {
    fn of(
        subjects: &[Subject<'o>],
        gates: &'o [Gate<'o>],
        objects: &'o Objects,
        fallback: &Fallback<'o>,
    ) -> Self {
        let timeouts = gates.iter().map(|gate| gate.settings.timeouts());
        let demands = Demands::of(timeouts).unwrap_or_else(|| fallback.timeouts().into());
        let mut fronts: Vec<_> = gates.iter().filter_map(Front::of).collect();
        if gates.is_empty() {
            fronts.extend(fallback.config.map(Front::elsewhere));
        }
        let directory = Directory::of(objects);
        let mut runs = vec![false; objects.workloads.len()];
        for (subject, ..) in subjects.iter().flat_map(engines) {
            directory.index(subject.workload).into_iter().for_each(|index| runs[index] = true);
        }
        let ways = Ways::of(&fronts, &runs, &directory);
        let policies = &objects.policies;
        Self { demands, gates, policies, fronts, engines: runs, ways, directory }
    }

    /// Every pool that `engine` may be behind, with its place: those that name it, else those that
    /// name no engine. And whether they name it.
    fn pools(&self, engine: &Workload) -> (Vec<(&Front<'o>, usize, &'o Pool)>, bool) {
        let (ways, named) =
            self.directory.index(engine).map_or((&[][..], false), |index| self.ways.to(index));
        (ways.iter().map(|way| self.way(way)).collect(), named)
    }

    fn way(&self, &(front, pool): &(usize, usize)) -> (&Front<'o>, usize, &'o Pool) {
        let front = &self.fronts[front];
        (front, pool, &*front.config.pools[pool])
    }

    /// What every pool that `engine` may be behind does when it stops; `timeout`: its own.
    fn cuts(&self, engine: &Workload, timeout: Duration) -> Vec<PoolCut> {
        let (pools, named) = self.pools(engine);
        let cuts = pools.into_iter().map(|(front, index, _)| front.cut(index));
        let mut cuts: Vec<_> = cuts.collect();
        let fits = |one: &PoolCut| one.cut.disagreement(timeout).is_none();
        if !named && let Some(fits) = cuts.iter().position(fits) {
            cuts = vec![cuts.swap_remove(fits)];
        }
        cuts
    }
}

/// Check everything. `None`: there is nothing that the rules are about.
pub(super) fn check(objects: &Objects, fallback: &Fallback<'_>) -> Option<Vec<Timeline>> {
    let subjects: Vec<_> = objects.workloads.iter().filter_map(Subject::of).collect();
    let gates: Vec<_> = subjects
        .iter()
        .flat_map(ingresses)
        .map(|(subject, container, command)| {
            let workload = subject.workload;
            let settings = Settings::find(workload, container, command, objects, fallback);
            Gate { workload, container, settings }
        })
        .collect();
    let mut timelines: Vec<_> = gates.iter().filter_map(ingress::check).collect();
    let behind = Behind::of(&subjects, &gates, objects, fallback);
    for (subject, container, command) in subjects.iter().flat_map(engines) {
        timelines.push(engine::check(subject.workload, container, command, &behind));
    }
    for subject in &subjects {
        rollout::check(subject);
    }
    disruption::check(&subjects, objects);
    pools::check(&behind);
    service::check(&subjects, &behind);
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
