//! Whether the address that an engine's hook asks is that of the admin API.

use super::Behind;
use crate::check::manifests::objects::{Container, Port, Service, Workload};

/// Report a Service of Streamgate that has no such port, or one that leads elsewhere. `at`:
/// `host:port` as the hook writes it.
pub(super) fn check(engine: &Workload, container: &Container, at: &str, behind: &Behind<'_>) {
    let (host, port) = at.rsplit_once(':').unwrap_or((at, "80"));
    let Ok(port) = port.parse::<u64>() else { return };
    let mut labels = host.split('.');
    let name = labels.next().unwrap_or_default();
    let namespace = labels.next().unwrap_or(&engine.id.namespace);
    let named = |service: &&Service| service.id.name == name && service.id.namespace == namespace;
    let Some(service) = behind.objects.services.iter().find(named) else { return };
    for (gate, replica, admin) in &behind.gates {
        if gate.id.namespace != service.id.namespace || !service.selector.matches(&gate.labels) {
            continue;
        }
        let leads = |target: &Port| match target {
            Port::Number(number) => Some(*number),
            Port::Name(name) => replica.ports.get(name).copied(),
        };
        let target = service.ports.iter().find(|one| one.number == Some(port));
        let found = match target {
            None => "which the Service does not have".to_owned(),
            Some(port) => match leads(&port.target) {
                Some(number) if number == u64::from(*admin) => continue,
                Some(number) => format!("which leads to port {number}"),
                // That is the Service's own fault, and told there.
                None => continue,
            },
        };
        let right = service.ports.iter().find(|one| leads(&one.target) == Some((*admin).into()));
        container.scope.error(
            "hook-address",
            &container.key("lifecycle.preStop"),
            format!("the hook asks port {port} of {host:?}, {found}; the admin API is on {admin}"),
            match right.and_then(|port| port.number) {
                Some(number) => format!("ask {host}:{number}"),
                None => format!("ask a Service that has the port {admin} of Streamgate's pods"),
            },
        );
    }
}
