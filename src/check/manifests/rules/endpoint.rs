//! Whether the endpoint that an engine's hook drains is one that its pool has: Streamgate answers
//! 404 to any other.

use super::Behind;
use super::directory::{Directory, Meaning, agree};
use super::front::{Front, host};
use super::replicas::is_beside;
use crate::check::manifests::command::Part;
use crate::check::manifests::objects::{Container, Port, Workload};
use crate::config::{Discovery, Pool, PoolKind};
use crate::core::discovery::PortRef;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A piece of the address that the hook names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// `status.podIP`
    Address,
    /// `metadata.name`
    Pod,
    /// `status.hostIP` of a pod with an address of its own: no endpoint has it.
    Node,
    /// Anything.
    Open,
}

/// What a pool has.
pub(super) enum Known {
    Listed(String),
    /// Addresses of pods, all with this port if it is known.
    Found(Option<u64>),
    /// Pods of another namespace than the engine's.
    Foreign(String),
}

/// Report an endpoint that none of the pools has that `engine` may be behind, and one that is not
/// of the pod alone whose hook it is. Whether it is neither.
pub(super) fn check(
    engine: &Workload,
    container: &Container,
    parts: &[Part],
    behind: &Behind<'_>,
) -> bool {
    let pieces = pieces(parts, engine, container);
    let alone = alone(engine, container, &pieces, behind);
    known(engine, container, &pieces, behind, alone) && alone
}

/// `all`: every endpoint that leads to `engine` must be the one that is drained, for what it is
/// sent by another name is not waited for.
fn known(
    engine: &Workload,
    container: &Container,
    pieces: &[Piece],
    behind: &Behind<'_>,
    all: bool,
) -> bool {
    let (mut known, mut others, mut any) = (Vec::new(), Vec::new(), false);
    for (front, index, pool) in behind.pools(engine).0 {
        // Behind a gateway every pod that it has named can be drained.
        if pool.kind == PoolKind::Gateway {
            any = true;
            continue;
        }
        let endpoints = endpoints(pool, engine, &behind.directory);
        any |= endpoints.iter().any(|one| one.fits(pieces, engine));
        let misses = |one: &&Known| {
            one.leads(engine, front, pool, behind)
                && one.has_port(port_of(pieces))
                && !one.fits(pieces, engine)
        };
        others
            .extend(endpoints.iter().filter(misses).map(|one| format!("pools[{index}] has {one}")));
        let names: Vec<_> = endpoints.iter().map(ToString::to_string).collect();
        known.push(format!("pools[{index}] has {}", names.join(", ")));
    }
    let named: String = pieces.iter().map(ToString::to_string).collect();
    let problem = match any {
        false if known.is_empty() => return true,
        false => format!(
            "the hook drains {named}, and Streamgate answers 404 to it: {}",
            known.join("; ")
        ),
        true if others.is_empty() || !all => return true,
        true => format!(
            "the hook drains {named}, and does not wait for what the engine is sent by another name: {}",
            others.join("; ")
        ),
    };
    container.scope.error(
        "hook-endpoint",
        &container.key("lifecycle.preStop"),
        problem,
        "name the endpoint as the pool does, and one as the other: pods that are listed by their names, pods that are found by `status.podIP`, and the port of the pool",
    );
    false
}

/// Every pod has the same hook: what it writes without a variable is the same for all of them.
fn alone(engine: &Workload, container: &Container, pieces: &[Piece], behind: &Behind<'_>) -> bool {
    let [Piece::Text(endpoint)] = pieces else { return true };
    let pools = behind.pools(engine).0;
    if pools.iter().any(|(front, _, pool)| is_beside(engine, front, pool)) {
        return true;
    }
    let count = |replicas: Option<u32>| match replicas {
        Some(count) => format!("{count} pods"),
        None => {
            "pods (as many as an autoscaler sets, or may: `replicas` is not written)".to_owned()
        }
    };
    let pods = service(endpoint, engine, behind);
    let problem = match (pods, engine.pods()) {
        (Some(pods), _) if pods.is_none_or(|pods| pods > 1) => format!(
            "the hook of one pod drains {endpoint}, a Service with {} behind it: it takes all of them out of service",
            count(pods)
        ),
        (_, replicas) if replicas.is_none_or(|replicas| replicas > 1) => format!(
            "each of the {} of this workload drains {endpoint}: one that stops takes another out of service and stays in service itself",
            count(replicas)
        ),
        _ => return true,
    };
    container.scope.error(
        "hook-drains-others",
        &container.key("lifecycle.preStop"),
        problem,
        "let each pod drain its own endpoint: `$(POD_NAME).SERVICE:PORT` of a StatefulSet that is listed, `$(POD_IP):PORT` of pods that are found (`discovery`)",
    );
    false
}

/// If an endpoint is a Service, how many pods it has, if that is written.
fn service(endpoint: &str, engine: &Workload, behind: &Behind<'_>) -> Option<Option<u32>> {
    let pools = behind.pools(engine).0;
    let namespace = pools.first().and_then(|(front, ..)| front.namespace());
    let namespace = namespace.unwrap_or(&engine.id.namespace);
    let directory = &behind.directory;
    let meanings = Meaning::all(host(endpoint)).filter(|meaning| meaning.pod.is_none());
    let mut services = meanings.flat_map(|Meaning { service, namespace: own, .. }| {
        directory.named(service, Some(own.unwrap_or(namespace)))
    });
    let selected = directory.selected(services.next()?).iter();
    let mut replicas = selected.map(|index| directory.workload(*index).pods());
    Some(replicas.try_fold(0_u32, |all, one| Some(all.saturating_add(one?))))
}

pub(super) fn endpoints(pool: &Pool, engine: &Workload, directory: &Directory<'_>) -> Vec<Known> {
    let found = pool.discovery.as_ref().map(|discovery| {
        if let Discovery::Kubernetes { namespace, .. } = discovery
            && !agree(namespace, &engine.id.namespace)
        {
            return Known::Foreign(namespace.clone());
        }
        Known::Found(match discovery {
            Discovery::Dns(name) => name.rsplit_once(':').and_then(|(_, port)| port.parse().ok()),
            Discovery::Kubernetes { port: PortRef::Number(port), .. } => Some(u64::from(*port)),
            Discovery::Kubernetes { port: PortRef::Name(name), service, .. } => {
                let service = directory.named(service, Some(&engine.id.namespace)).next();
                let mut ports = service.into_iter().flat_map(|one| &directory.service(one).ports);
                let port = ports.find(|port| port.name.as_ref() == Some(name));
                port.and_then(|port| match &port.target {
                    Port::Number(number) => Some(*number),
                    // Of whichever container has it.
                    Port::Name(name) => {
                        engine.containers.iter().find_map(|one| one.ports.get(name)).copied()
                    }
                })
            }
        })
    });
    let listed = pool.endpoints.iter().map(|one| Known::Listed(one.as_str().to_owned()));
    listed.chain(found).collect()
}

impl Known {
    /// Whether it surely is one of the pods of `engine`.
    fn leads(&self, engine: &Workload, front: &Front<'_>, pool: &Pool, at: &Behind<'_>) -> bool {
        let Some(index) = at.directory.index(engine) else { return false };
        match self {
            Self::Listed(endpoint) => {
                let behind = at.directory.behind(host(endpoint), front.namespace());
                behind.iter().any(|(_, workload)| *workload == index)
            }
            Self::Found(_) => front.names(pool, &at.directory).contains(&index),
            Self::Foreign(_) => false,
        }
    }

    /// Whether its port may be this one: other ports are those of other containers.
    fn has_port(&self, port: Option<u64>) -> bool {
        let own = match self {
            Self::Listed(endpoint) => {
                endpoint.rsplit_once(':').and_then(|(_, own)| own.parse().ok())
            }
            Self::Found(own) => *own,
            Self::Foreign(_) => None,
        };
        own.is_none() || port.is_none() || own == port
    }

    fn fits(&self, pieces: &[Piece], engine: &Workload) -> bool {
        match self {
            Self::Listed(endpoint) => fits(pieces, endpoint, engine),
            Self::Foreign(_) => false,
            Self::Found(port) => {
                let Some(named) = port_of(pieces) else { return true };
                let port = port.unwrap_or(named);
                if let [Piece::Text(text)] = pieces {
                    return named == port && text.parse::<SocketAddr>().is_ok();
                }
                // One address of each family stands for all of them.
                ["10.0.0.7", "[fd00::7]"]
                    .iter()
                    .any(|host| fits(pieces, &format!("{host}:{port}"), engine))
            }
        }
    }
}

/// The port at the end, if it is written.
fn port_of(pieces: &[Piece]) -> Option<u64> {
    let Some(Piece::Text(last)) = pieces.last() else { return None };
    last.rsplit_once(':')?.1.parse().ok()
}

/// No address is longer.
const LONGEST_ADDRESS: usize = 45;

/// Whether `endpoint` may be what `pieces` become: which places of it each piece may end at, if
/// the ones before it end where they may.
fn fits(pieces: &[Piece], endpoint: &str, engine: &Workload) -> bool {
    let mut ends = vec![false; endpoint.len() + 1];
    ends[0] = true;
    for piece in pieces {
        let mut next = vec![false; endpoint.len() + 1];
        for start in (0..ends.len()).filter(|start| ends[*start]) {
            let rest = &endpoint[start..];
            match piece {
                Piece::Text(text) if rest.starts_with(text.as_str()) => {
                    next[start + text.len()] = true;
                }
                Piece::Text(_) => {}
                Piece::Address => {
                    let parts = places(rest).take_while(|end| *end <= LONGEST_ADDRESS);
                    parts
                        .filter(|end| rest[..*end].parse::<IpAddr>().is_ok())
                        .for_each(|end| next[start + end] = true);
                }
                Piece::Node => {}
                Piece::Pod => ordinals(rest, engine).for_each(|end| next[start + end] = true),
                Piece::Open => {
                    places(rest).for_each(|end| next[start + end] = true);
                    // Nothing before this place can add to that.
                    break;
                }
            }
        }
        ends = next;
    }
    ends[endpoint.len()]
}

/// Where a part of `text` may end.
fn places(text: &str) -> impl Iterator<Item = usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()])
}

/// Where the name of a pod of `engine` may end that `text` begins with.
fn ordinals(text: &str, engine: &Workload) -> impl Iterator<Item = usize> {
    let rest = text.strip_prefix(engine.id.name.as_str());
    let rest = rest.and_then(|rest| rest.strip_prefix('-')).unwrap_or_default();
    let before = text.len() - rest.len();
    let name = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'-').count();
    (1..=name).map(move |end| before + end)
}

fn pieces(parts: &[Part], engine: &Workload, container: &Container) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => pieces.push(Piece::Text(text.clone())),
            Part::Unknown => pieces.push(Piece::Open),
            Part::Variable(name) => match container.shapes.get(name).and_then(Option::as_deref) {
                Some(shape) => pieces.extend(shaped(shape, engine.host_network)),
                None if name == "HOSTNAME" => pieces.push(Piece::Pod),
                None => pieces.push(Piece::Open),
            },
        }
    }
    merged(pieces)
}

/// Text beside text is one, and so is anything beside anything.
fn merged(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut merged: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (merged.last_mut(), piece) {
            (Some(Piece::Text(last)), Piece::Text(text)) => last.push_str(&text),
            (Some(Piece::Open), Piece::Open) => {}
            (_, piece) => merged.push(piece),
        }
    }
    merged
}

/// `$(metadata.name).vllm:8000`
fn shaped(shape: &str, host_network: bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = shape;
    while let Some((text, after)) = rest.split_once("$(") {
        pieces.push(Piece::Text(text.to_owned()));
        let (field, after) = after.split_once(')').unwrap_or((after, ""));
        pieces.push(match field {
            "status.podIP" => Piece::Address,
            "status.hostIP" if host_network => Piece::Address,
            "status.hostIP" => Piece::Node,
            "metadata.name" => Piece::Pod,
            _ => Piece::Open,
        });
        rest = after;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
    pieces
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(text) => text,
            Self::Address => "<pod IP>",
            Self::Pod => "<pod name>",
            Self::Node => "<node IP>",
            Self::Open => "…",
        })
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listed(endpoint) => f.write_str(endpoint),
            Self::Found(Some(port)) => write!(f, "<pod IP>:{port}"),
            Self::Found(None) => f.write_str("the addresses of pods"),
            Self::Foreign(namespace) => write!(f, "pods of namespace {namespace}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::manifests::finding::Scope;
    use crate::check::manifests::objects::{Objects, Workload};

    fn engine() -> Workload {
        let label = "a".to_owned();
        let value = serde_json::json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "vllm"},
            "spec": {"template": {"spec": {"containers": []}}}
        });
        let mut objects = Objects::default();
        let document = crate::check::manifests::documents::Document { label, value };
        objects.read(&document, &Scope::default());
        objects.workloads.remove(0)
    }

    fn shape(text: &str) -> Vec<Piece> {
        merged(shaped(text, false))
    }

    #[test]
    fn an_endpoint_is_what_the_pieces_may_become() {
        let engine = engine();
        for (pieces, endpoint, expected) in [
            ("vllm-0.vllm:8000", "vllm-0.vllm:8000", true),
            ("$(metadata.name).vllm:8000", "vllm-0.vllm:8000", true),
            ("$(metadata.name).vllm:8000", "vllm-.vllm:8000", false),
            ("$(metadata.name).vllm:8000", "other-0.vllm:8000", false),
            ("$(status.podIP):8000", "10.0.0.7:8000", true),
            ("$(status.podIP):8000", "10.0.0.7:80", false),
            ("$(status.podIP):8000", "vllm-0.vllm:8000", false),
            ("[$(status.podIP)]:8000", "[fd00::7]:8000", true),
            ("$(status.podIP):8000", "[fd00::7]:8000", false),
            ("[$(status.podIP)]:8000", "10.0.0.7:8000", false),
            ("$(?):8000", "10.0.0.7:8000", true),
            ("a$(?):8000", "a:8000", true),
            ("$(?)$(?)$(?)", "é:8000", true),
            ("$(?)x", "10.0.0.7:8000", false),
        ] {
            assert_eq!(fits(&shape(pieces), endpoint, &engine), expected, "{pieces} {endpoint}");
        }
    }

    #[test]
    fn found_endpoints_are_addresses_of_both_families() {
        let engine = engine();
        for (pieces, port, expected) in [
            ("$(status.podIP):8000", Some(8000), true),
            ("[$(status.podIP)]:8000", Some(8000), true),
            ("[$(status.podIP)]:8000", Some(80), false),
            ("[fd00::1]:8000", Some(8000), true),
            ("[fd00:0::1]:8000", None, true),
            ("10.0.0.9:8000", Some(8000), true),
            ("10.0.0.9:80", Some(8000), false),
            ("fd00::1:8000", Some(8000), false),
            ("vllm:8000", Some(8000), false),
        ] {
            let known = Known::Found(port);
            assert_eq!(known.fits(&shape(pieces), &engine), expected, "{pieces} {port:?}");
        }
    }

    /// Trying every way to share a name between the pieces takes seconds with six of them.
    #[test]
    fn many_unknown_pieces_are_no_work() {
        let pieces = shape(&format!("{}x:8000", "$(?)a".repeat(40)));
        let endpoint = format!("{}:8000", "a".repeat(250));
        assert!(!fits(&pieces, &endpoint, &engine()));
    }
}
