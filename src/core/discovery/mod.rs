//! From what a naming system says of a service to the list of its endpoints.
//!
//! Kubernetes keeps the endpoints of one service in any number of EndpointSlices. [`merge`] makes
//! one list of them, whatever order they came in:
//!
//! * One endpoint is one address with one port. Of several addresses of one entry the first is
//!   taken: the API says that they lead to the same place.
//! * Conditions that are not given have the API's defaults: ready, not terminating. *Terminating*
//!   goes before *ready*, which a service with `publishNotReadyAddresses` also claims of pods that
//!   leave. `serving` is not asked: it tells apart only those that leave, and nothing new is sent
//!   to any of them.
//! * While endpoints move between slices, one may be in two of them, in an older and a newer
//!   state. A pod never comes back from terminating, so of one pod *terminating* wins, then
//!   *ready*. Of two pods with the same address the one that does not terminate is the newer one.
//! * A pod with an IPv4 and an IPv6 address is one endpoint, the IPv4 one: its engine would be
//!   counted twice otherwise.

use super::ids::EndpointId;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Which port of a service's endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PortRef {
    /// The port on which the pods listen (a service's `targetPort`, not its `port`).
    Number(u16),
    /// The name of the service's port; pods may then differ in the number.
    Name(String),
}

impl fmt::Display for PortRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// Which pod serves an endpoint: another one at the same address is another endpoint.
pub type Incarnation = Arc<str>;

/// Whether a naming system lets an endpoint be used. Ordered by what wins where two entries for
/// one pod disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Availability {
    /// Starting, or failing its readiness probe: not chosen.
    NotReady,
    Ready,
    /// Terminating: not chosen, requests on it go on.
    Leaving,
}

/// One endpoint that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub id: EndpointId,
    /// `None`: the source does not know pods.
    pub incarnation: Option<Incarnation>,
    pub availability: Availability,
}

/// One EndpointSlice, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Empty: the service names no port.
    pub ports: Vec<SlicePort>,
    pub endpoints: Vec<SliceEndpoint>,
}

/// A TCP port of all endpoints of one slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// Empty for the only port of a service.
    pub name: String,
    /// `None`: every port.
    pub number: Option<u16>,
}

/// One entry of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// IP addresses, or DNS names, of the same place.
    pub addresses: Vec<String>,
    pub ready: Option<bool>,
    pub terminating: Option<bool>,
    pub incarnation: Option<Incarnation>,
}

impl SliceEndpoint {
    fn availability(&self) -> Availability {
        match (self.terminating.unwrap_or(false), self.ready.unwrap_or(true)) {
            (true, _) => Availability::Leaving,
            (false, true) => Availability::Ready,
            (false, false) => Availability::NotReady,
        }
    }
}

/// The endpoints of one service, by all of its slices, in a fixed order.
pub fn merge<'s>(slices: impl IntoIterator<Item = &'s Slice>, port: &PortRef) -> Vec<Found> {
    let mut claims: BTreeMap<Address, Pods> = BTreeMap::new();
    for slice in slices {
        for port in slice.numbers(port) {
            for endpoint in &slice.endpoints {
                let Some(address) = Address::of(endpoint, port) else { continue };
                let pods = claims.entry(address).or_default();
                let said = endpoint.availability();
                let known = pods.entry(endpoint.incarnation.clone()).or_insert(said);
                *known = said.max(*known);
            }
        }
    }
    let newest = |(address, pods): (Address, Pods)| {
        let (incarnation, availability) = newest(pods)?;
        Some((Found { id: address.id(), incarnation, availability }, address))
    };
    one_a_pod(claims.into_iter().filter_map(newest).collect())
}

/// The pods that claim one address.
type Pods = BTreeMap<Option<Incarnation>, Availability>;

/// The name decides between equals, so that the order of the slices never does.
fn newest(pods: Pods) -> Option<(Option<Incarnation>, Availability)> {
    pods.into_iter().max_by_key(|(pod, said)| (*said != Availability::Leaving, *said, pod.clone()))
}

/// Every port that the slices offer, for people.
pub fn ports<'s>(slices: impl IntoIterator<Item = &'s Slice>) -> BTreeSet<String> {
    let ports = slices.into_iter().flat_map(|slice| &slice.ports);
    ports
        .map(|port| match (port.name.as_str(), port.number) {
            ("", Some(number)) => number.to_string(),
            (name, Some(number)) => format!("{name}={number}"),
            (name, None) => format!("{name}=any"),
        })
        .collect()
}

impl Slice {
    /// The numbers that `wanted` stands for in this slice.
    fn numbers(&self, wanted: &PortRef) -> BTreeSet<u16> {
        match wanted {
            PortRef::Name(name) => {
                let named = self.ports.iter().filter(|port| port.name == *name);
                named.filter_map(|port| port.number).collect()
            }
            PortRef::Number(number) => {
                let fits = |port: &SlicePort| port.number.is_none_or(|offered| offered == *number);
                let offered = self.ports.is_empty() || self.ports.iter().any(fits);
                offered.then_some(*number).into_iter().collect()
            }
        }
    }
}

/// Where an endpoint is; IPv4 before IPv6 before names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Address {
    Ip(SocketAddr),
    Name(String, u16),
}

impl Address {
    fn of(endpoint: &SliceEndpoint, port: u16) -> Option<Self> {
        let first = endpoint.addresses.first()?;
        Some(match first.parse::<IpAddr>() {
            Ok(ip) => Self::Ip(SocketAddr::new(ip, port)),
            Err(_) => Self::Name(first.to_ascii_lowercase(), port),
        })
    }

    fn id(&self) -> EndpointId {
        match self {
            Self::Ip(address) => EndpointId::from(address.to_string()),
            Self::Name(name, port) => EndpointId::from(format!("{name}:{port}")),
        }
    }
}

fn one_a_pod(found: Vec<(Found, Address)>) -> Vec<Found> {
    let with_v4: HashSet<Incarnation> = found
        .iter()
        .filter(|(_, address)| matches!(address, Address::Ip(SocketAddr::V4(_))))
        .filter_map(|(found, _)| found.incarnation.clone())
        .collect();
    let counted_already = |found: &Found, address: &Address| {
        matches!(address, Address::Ip(SocketAddr::V6(_)))
            && found.incarnation.as_ref().is_some_and(|pod| with_v4.contains(pod))
    };
    let once = found.into_iter().filter(|(found, address)| !counted_already(found, address));
    once.map(|(found, _)| found).collect()
}
