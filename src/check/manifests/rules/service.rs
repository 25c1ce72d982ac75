//! Services in front of what drains.

use super::Subject;
use crate::check::manifests::objects::{Objects, Port, ServicePort};

pub(super) fn check(subjects: &[Subject<'_>], objects: &Objects) {
    for service in &objects.services {
        let fronts = |subject: &&Subject<'_>| {
            service.id.namespace == subject.workload.id.namespace
                && service.selector.matches(&subject.workload.labels)
        };
        for subject in subjects.iter().filter(fronts) {
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
