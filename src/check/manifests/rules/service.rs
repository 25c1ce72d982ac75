//! Services in front of what drains.

use super::Subject;
use super::directory::Directory;
use crate::check::manifests::objects::{Port, ServicePort};
use std::collections::HashMap;

pub(super) fn check(subjects: &[Subject<'_>], directory: &Directory<'_>) {
    let place = |subject: &'_ Subject<'_>| directory.index(subject.workload);
    let places: HashMap<_, _> =
        subjects.iter().filter_map(|subject| Some((place(subject)?, subject))).collect();
    for (service, selected) in directory.services() {
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
