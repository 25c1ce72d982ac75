//! Whether the pools of Streamgate and the workloads of the manifests find each other.

use super::Behind;
use super::front::{Front, host};
use crate::check::manifests::command;
use crate::check::manifests::finding::{Level, Scope};
use crate::check::manifests::objects::Workload;
use crate::config::{Discovery, Pool, PoolKind};
use crate::core::discovery::PortRef;

pub(super) fn check(behind: &Behind<'_>) {
    unknown(behind);
    nothing(behind);
}

/// Workloads that a pool leads to and that run nothing whose shutdown is known.
fn unknown(behind: &Behind<'_>) {
    for (index, workload) in behind.directory.workloads().enumerate() {
        let named = behind.ways.named(index).iter().map(|way| behind.way(way));
        let mut named = named.filter(|(.., pool)| pool.kind == PoolKind::Engines);
        let Some((front, at, _)) = named.next().filter(|_| !is_known(workload)) else { continue };
        workload.scope.error(
            "engine-unknown",
            &workload.pod_key("containers"),
            format!(
                "pools[{at}] in {} leads to its pods, and no container of them is known as an engine: its shutdown cannot be checked",
                front.source
            ),
            "write the command line of vLLM here (`vllm serve …`); a router or gateway belongs in a pool of `kind: gateway`",
        );
    }
}

fn is_known(workload: &Workload) -> bool {
    let known =
        |container| command::engine(container).is_some() || command::ingress(container).is_some();
    workload.containers.iter().any(known)
}

/// Pools that find no pods, while engines are here that no pool leads to. Where all engines have
/// their pools, or none is here, those of the others are elsewhere.
fn nothing(behind: &Behind<'_>) {
    let engines = behind.directory.workloads().enumerate();
    let mut left = engines.filter(|(index, _)| behind.engines[*index]);
    let left = left.find(|(index, _)| behind.ways.named(*index).is_empty());
    for front in &behind.fronts {
        for (index, pool) in front.pools().filter(|(_, pool)| pool.kind == PoolKind::Engines) {
            let scope = front.workload.or(left.map(|(_, engine)| engine)).map(|one| &one.scope);
            let (Some(scope), Some(discovery)) = (scope, &pool.discovery) else { continue };
            let told = Told { front, index, scope };
            if let Some(problem) = no_port(discovery, behind) {
                told.report(Level::Error, &problem);
            } else if let Some((_, engine)) = left
                && let Some(problem) = no_pods(front, pool, discovery, behind)
            {
                let engine = engine.scope.place().object.as_deref().unwrap_or_default();
                told.report(Level::Warning, &format!("{problem}, and no pool leads to {engine}"));
            }
        }
    }
}

/// A Service that is here and has no port of the name.
fn no_port(discovery: &Discovery, behind: &Behind<'_>) -> Option<String> {
    let Discovery::Kubernetes { namespace, service, port: PortRef::Name(name) } = discovery else {
        return None;
    };
    let index = behind.directory.named(service, Some(namespace)).next()?;
    let ports = &behind.directory.service(index).ports;
    let has = ports.iter().any(|port| port.name.as_ref() == Some(name));
    (!has).then(|| format!("Service {namespace}/{service} has no port of the name {name:?}"))
}

fn no_pods(
    front: &Front<'_>,
    pool: &Pool,
    discovery: &Discovery,
    behind: &Behind<'_>,
) -> Option<String> {
    let directory = &behind.directory;
    if directory.services().next().is_none() || !front.names(pool, directory).is_empty() {
        return None;
    }
    match discovery {
        Discovery::Kubernetes { namespace, service, .. } => {
            Some(match directory.named(service, Some(namespace)).next() {
                Some(_) => format!("Service {namespace}/{service} selects no pods here"),
                None => format!("Service {namespace}/{service} is not here"),
            })
        }
        Discovery::Dns(name) => {
            let labels: Vec<&str> = host(name).split('.').collect();
            // Other names may be those of machines outside.
            let inside = labels.len() < 3 || labels.get(2) == Some(&"svc");
            inside.then(|| format!("the name {:?} leads to no pods here", host(name)))
        }
    }
}

struct Told<'t> {
    front: &'t Front<'t>,
    index: usize,
    scope: &'t Scope,
}

impl Told<'_> {
    fn report(&self, level: Level, problem: &str) {
        let Self { front, index, scope } = self;
        let problem = format!("pools[{index}] in {} finds nothing: {problem}", front.source);
        let remedy = "name the Service of the engines with its namespace and its port, as they are after the overlay (`namePrefix`, `namespace`)";
        scope.report(level, "pool-finds-nothing", "", problem, remedy.to_owned());
    }
}
