//! Probes: what they ask must tell what they are for.

use crate::check::manifests::objects::{Container, Handler, Port, Probe};
use std::net::SocketAddr;

/// Paths of vLLM that answer 200 during its whole drain.
const STAY_UP: [&str; 7] =
    ["/health", "/live", "/ping", "/version", "/metrics", "/load", "/v1/models"];

/// vLLM's probes.
pub(super) fn engine(container: &Container) {
    if let Some(Probe { handler: Handler::Http { path, .. }, key }) = &container.liveness
        && !STAY_UP.contains(&plain(path))
    {
        container.scope.error(
            "engine-liveness",
            &format!("{key}.httpGet.path"),
            format!("{path:?} is not known to answer 200 while vLLM drains; when it fails the kubelet kills the running streams"),
            "use /health",
        );
    }
    if container.readiness.is_none() {
        let problem = "no readiness probe: requests are sent to it while it still loads its model";
        container.scope.warning(
            "readiness-missing",
            &container.key("readinessProbe"),
            problem,
            "add one on /health",
        );
    }
}

/// Streamgate's probes.
pub(super) fn ingress(container: &Container, admin: SocketAddr) {
    if let Some(Probe { handler: Handler::Http { path, port, aside }, key }) = &container.liveness {
        if plain(path) != "/livez" {
            container.scope.error(
                "ingress-liveness",
                &format!("{key}.httpGet.path"),
                format!("{path:?} does not answer 200 through a whole drain; the kubelet would kill the running streams"),
                "use /livez",
            );
        }
        admin_port(container, admin, (port.as_ref(), aside.as_ref()), &format!("{key}.httpGet"));
    }
    match &container.readiness {
        None => container.scope.warning(
            "readiness-missing",
            &container.key("readinessProbe"),
            "no readiness probe: a replica that drains is still sent new requests",
            "add one on /readyz of the admin port",
        ),
        Some(Probe { handler: Handler::Http { path, port, aside }, key }) => {
            if plain(path) != "/readyz" {
                container.scope.error(
                    "ingress-readiness",
                    &format!("{key}.httpGet.path"),
                    format!("{path:?} does not turn when a drain begins: the replica is still sent new requests"),
                    "use /readyz",
                );
            }
            admin_port(
                container,
                admin,
                (port.as_ref(), aside.as_ref()),
                &format!("{key}.httpGet"),
            );
        }
        Some(Probe { handler: Handler::Tcp | Handler::Exec(_) | Handler::Other, key }) => {
            container.scope.warning(
                "ingress-readiness",
                key,
                "whether this probe turns when a drain begins cannot be told",
                "use httpGet /readyz of the admin port",
            );
        }
    }
}

/// Whether the kubelet reaches the admin API at `port`, if nothing leads it aside.
pub(super) fn admin_port(
    container: &Container,
    admin: SocketAddr,
    (port, aside): (Option<&Port>, Option<&(&'static str, String)>),
    key: &str,
) {
    if let Some((part, value)) = aside {
        container.scope.error(
            "ingress-admin",
            &format!("{key}.{part}"),
            format!("{part}: {value} leads the kubelet elsewhere: the admin API speaks plain HTTP, at the pod's own address"),
            "remove the key",
        );
    }
    if admin.ip().is_loopback() {
        container.scope.error(
            "ingress-admin",
            key,
            format!("the kubelet cannot reach the admin API at {admin}"),
            format!("set listen.admin: \"0.0.0.0:{}\", and restrict who reaches it", admin.port()),
        );
        return;
    }
    let number = match port {
        Some(Port::Number(number)) => Some(*number),
        Some(Port::Name(name)) => container.ports.get(name).copied(),
        None => None,
    };
    if number != Some(u64::from(admin.port())) {
        let found = match (port, number) {
            (None, _) => "no port".to_owned(),
            (Some(Port::Name(name)), None) => {
                format!("the port {name:?}, which the container does not have")
            }
            (Some(Port::Name(_) | Port::Number(_)), number) => {
                format!("port {}", number.unwrap_or_default())
            }
        };
        container.scope.error(
            "ingress-admin",
            &format!("{key}.port"),
            format!("asks {found}, and the admin API is at {admin}"),
            format!("name port {}", admin.port()),
        );
    }
}

/// Without its query.
fn plain(path: &str) -> &str {
    path.split(['?', '#']).next().unwrap_or(path)
}
