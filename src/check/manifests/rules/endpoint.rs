//! Whether the endpoint that an engine's hook drains is one that its pool has: Streamgate answers
//! 404 to any other.

use super::Behind;
use crate::check::manifests::command::Part;
use crate::check::manifests::objects::{Container, Objects, Port, Service, Workload};
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
    /// Anything.
    Open,
}

/// What a pool has.
enum Known {
    Listed(String),
    /// Addresses of pods, all with this port if it is known.
    Found(Option<u64>),
}

/// Report an endpoint that none of the pools has that `engine` may be behind.
pub(super) fn check(engine: &Workload, container: &Container, parts: &[Part], behind: &Behind<'_>) {
    let pieces = pieces(parts, container);
    let mut known = Vec::new();
    for (_, index, pool) in behind.pools(engine).0 {
        // Behind a gateway every pod that it has named can be drained.
        if pool.kind == PoolKind::Gateway {
            return;
        }
        let endpoints = endpoints(pool, engine, container, behind.objects);
        if endpoints.iter().any(|one| one.fits(&pieces, engine)) {
            return;
        }
        let names: Vec<_> = endpoints.iter().map(ToString::to_string).collect();
        known.push(format!("pools[{index}] has {}", names.join(", ")));
    }
    if known.is_empty() {
        return;
    }
    let named: String = pieces.iter().map(ToString::to_string).collect();
    container.scope.error(
        "hook-endpoint",
        &container.key("lifecycle.preStop"),
        format!(
            "the hook drains {named}, and Streamgate answers 404 to it: {}",
            known.join("; ")
        ),
        "name the endpoint as the pool does: pods that are listed by their names, pods that are found by `status.podIP`, and the port of the pool",
    );
}

fn endpoints(
    pool: &Pool,
    engine: &Workload,
    container: &Container,
    objects: &Objects,
) -> Vec<Known> {
    let found = pool.discovery.as_ref().map(|discovery| {
        Known::Found(match discovery {
            Discovery::Dns(name) => name.rsplit_once(':').and_then(|(_, port)| port.parse().ok()),
            Discovery::Kubernetes { port: PortRef::Number(port), .. } => Some(u64::from(*port)),
            Discovery::Kubernetes { port: PortRef::Name(name), service, .. } => {
                let is = |one: &&Service| {
                    one.id.name == *service && one.id.namespace == engine.id.namespace
                };
                let service = objects.services.iter().find(is);
                let mut ports = service.into_iter().flat_map(|service| &service.ports);
                let port = ports.find(|port| port.name.as_ref() == Some(name));
                port.and_then(|port| match &port.target {
                    Port::Number(number) => Some(*number),
                    Port::Name(name) => container.ports.get(name).copied(),
                })
            }
        })
    });
    let listed = pool.endpoints.iter().map(|one| Known::Listed(one.as_str().to_owned()));
    listed.chain(found).collect()
}

impl Known {
    fn fits(&self, pieces: &[Piece], engine: &Workload) -> bool {
        match self {
            Self::Listed(endpoint) => fits(pieces, endpoint, engine),
            Self::Found(port) => {
                let Some(named) = port_of(pieces) else { return true };
                // One address stands for all of them, unless the hook writes one.
                let host = match pieces {
                    [Piece::Text(text)] => text.parse().ok().map(|at: SocketAddr| at.ip()),
                    _ => Some(IpAddr::from([10, 0, 0, 7])),
                };
                let port = port.unwrap_or(named);
                host.is_some_and(|host| match host {
                    IpAddr::V4(host) => fits(pieces, &format!("{host}:{port}"), engine),
                    IpAddr::V6(host) => fits(pieces, &format!("[{host}]:{port}"), engine),
                })
            }
        }
    }
}

/// The port at the end, if it is written.
fn port_of(pieces: &[Piece]) -> Option<u64> {
    let Some(Piece::Text(last)) = pieces.last() else { return None };
    last.rsplit_once(':')?.1.parse().ok()
}

/// Whether `endpoint` may be what `pieces` become.
fn fits(pieces: &[Piece], endpoint: &str, engine: &Workload) -> bool {
    let Some((first, rest)) = pieces.split_first() else { return endpoint.is_empty() };
    let ends = || endpoint.char_indices().map(|(at, c)| at + c.len_utf8());
    let some = |is: &dyn Fn(&str) -> bool| {
        ends().any(|end| is(&endpoint[..end]) && fits(rest, &endpoint[end..], engine))
    };
    match first {
        Piece::Text(text) => {
            endpoint.strip_prefix(text.as_str()).is_some_and(|after| fits(rest, after, engine))
        }
        Piece::Address => some(&|part| part.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()),
        Piece::Pod => some(&|part| {
            let ordinal = part.strip_prefix(engine.id.name.as_str());
            let ordinal = ordinal.and_then(|rest| rest.strip_prefix('-'));
            ordinal.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
        }),
        Piece::Open => some(&|_| true),
    }
}

fn pieces(parts: &[Part], container: &Container) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => pieces.push(Piece::Text(text.clone())),
            Part::Unknown => pieces.push(Piece::Open),
            Part::Variable(name) => match container.shapes.get(name).and_then(Option::as_deref) {
                Some(shape) => pieces.extend(shaped(shape)),
                None if name == "HOSTNAME" => pieces.push(Piece::Pod),
                None => pieces.push(Piece::Open),
            },
        }
    }
    // Text beside text is one.
    let mut merged: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (merged.last_mut(), piece) {
            (Some(Piece::Text(last)), Piece::Text(text)) => last.push_str(&text),
            (_, piece) => merged.push(piece),
        }
    }
    merged
}

/// `$(metadata.name).vllm:8000`
fn shaped(shape: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = shape;
    while let Some((text, after)) = rest.split_once("$(") {
        pieces.push(Piece::Text(text.to_owned()));
        let (field, after) = after.split_once(')').unwrap_or((after, ""));
        pieces.push(match field {
            "status.podIP" => Piece::Address,
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
        }
    }
}
