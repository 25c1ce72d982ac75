//! Streams that do not reach the engine but through another container of its pod: when the pod
//! goes, that one is stopped too, and nothing is known of how it ends them.

use super::Behind;
use super::endpoint::{Known, endpoints};
use crate::check::manifests::command::engine;
use crate::check::manifests::objects::{Container, Port, Workload};
use std::collections::BTreeSet;

/// Report every container that has the port at which a pool reaches `workload`, and is no engine.
pub(super) fn check(workload: &Workload, behind: &Behind<'_>) {
    for port in ports(workload, behind) {
        let has = |one: &&Container| one.ports.values().any(|own| *own == port);
        let owners = workload.containers.iter().filter(has);
        // Sidecars of Kubernetes' own kind stop after the engine.
        let beside = owners.filter(|one| !one.path.contains("initContainers"));
        for owner in beside.filter(|one| engine(one).is_none()) {
            owner.scope.error(
                "engine-behind-sidecar",
                &owner.key("ports"),
                format!("a pool reaches the engine through port {port} of this container, which gets SIGTERM while the engine lets its streams end"),
                "let the pool reach vLLM itself, or make this a sidecar in initContainers with restartPolicy: Always",
            );
        }
    }
}

/// Where the pools that name `workload` reach its pods.
fn ports(workload: &Workload, behind: &Behind<'_>) -> BTreeSet<u64> {
    let (pools, named) = behind.pools(workload);
    let directory = &behind.directory;
    let index = directory.index(workload);
    let mut ports = BTreeSet::new();
    for (front, _, pool) in pools.into_iter().filter(|_| named) {
        for known in endpoints(pool, workload, directory) {
            match known {
                Known::Found(port) => ports.extend(port),
                Known::Foreign(_) => {}
                Known::Listed(endpoint) => {
                    let Some((host, port)) = endpoint.rsplit_once(':') else { continue };
                    let Ok(port) = port.parse::<u64>() else { continue };
                    for (service, leads) in directory.behind(host, front.namespace()) {
                        let service = directory.service(service);
                        let one = service.ports.iter().find(|one| one.number == Some(port));
                        match one.map(|one| &one.target) {
                            _ if Some(leads) != index => {}
                            _ if service.headless => ports.extend([port]),
                            Some(Port::Number(number)) => ports.extend([*number]),
                            Some(Port::Name(name)) => ports.extend(
                                workload.containers.iter().filter_map(|c| c.ports.get(name)),
                            ),
                            None => {}
                        }
                    }
                }
            }
        }
    }
    ports
}
