//! Services in front of what drains.

use super::{Behind, Gate, Subject};
use crate::check::manifests::objects::{Port, Service, ServicePort};
use crate::core::budget::Seconds;
use std::collections::HashMap;
use std::time::Duration;

/// How long the load balancers of clouds send new requests to a pod that was deleted, at least.
const CLOUD: Duration = Duration::from_secs(10);

pub(super) fn check(subjects: &[Subject<'_>], behind: &Behind<'_>) {
    let directory = &behind.directory;
    let place = |subject: &'_ Subject<'_>| directory.index(subject.workload);
    let places: HashMap<_, _> =
        subjects.iter().filter_map(|subject| Some((place(subject)?, subject))).collect();
    for (service, selected) in directory.services() {
        if service.balanced {
            let index = |gate: &Gate<'_>| directory.index(gate.workload);
            let selects = |gate: &&Gate<'_>| index(gate).is_some_and(|i| selected.contains(&i));
            behind.gates.iter().filter(selects).for_each(|gate| balanced(service, gate));
        }
        for subject in selected.iter().filter_map(|workload| places.get(workload)) {
            // A headless one gives names, which say nothing of readiness anyway.
            if service.publishes_not_ready && (!service.headless || subject.is_ingress()) {
                let key = match service.path.as_str() {
                    "" => "spec.publishNotReadyAddresses".to_owned(),
                    path => format!("{path}.spec.publishNotReadyAddresses"),
                };
                let name =
                    subject.workload.scope.place().object.as_deref().unwrap_or_default().to_owned();
                service.scope.error(
                    "service-not-ready",
                    &key,
                    format!("it goes on sending new requests to pods of {name} that drain"),
                    "remove the key",
                );
            }
            for ServicePort { target, key, .. } in &service.ports {
                let Port::Name(name) = target else { continue };
                let has = subject.workload.containers.iter().any(|c| c.ports.contains_key(name));
                if !has {
                    let problem =
                        format!("no container of the pods it selects has a port named {name:?}");
                    service.scope.error("service-port", key, problem, "name one of their ports");
                }
            }
        }
    }
}

/// A load balancer outside of the cluster hears of a deletion late.
fn balanced(service: &Service, gate: &Gate<'_>) {
    let propagation = gate.settings.drain().propagation;
    let admin = Port::Number(gate.settings.admin().port().into());
    let number = |target: &Port| match target {
        Port::Name(name) => gate.container.ports.get(name).copied().map(Port::Number),
        Port::Number(number) => Some(Port::Number(*number)),
    };
    let for_clients =
        service.ports.iter().any(|port| number(&port.target).as_ref() != Some(&admin));
    if gate.settings.broken || !for_clients || propagation >= CLOUD {
        return;
    }
    gate.container.scope.warning(
        "ingress-propagation",
        &gate.container.path,
        format!(
            "{} is of type LoadBalancer: load balancers of clouds need 10 to 40 s to take a replica out, and drain.propagation is {}",
            service.scope.place().object.as_deref().unwrap_or_default(),
            Seconds(propagation)
        ),
        format!(
            "raise drain.propagation in {} (and drain.deadline with it) to what your load balancer needs",
            gate.settings.source
        ),
    );
}
