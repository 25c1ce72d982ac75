//! NetworkPolicies, as far as they let pods in.

use super::selector::Selector;
use super::{Container, Id, Port, Workload};
use crate::check::manifests::view::View;
use std::collections::BTreeMap;

/// The label of every namespace that Kubernetes itself sets.
const NAMESPACE: &str = "kubernetes.io/metadata.name";

/// A NetworkPolicy.
#[derive(Clone, Debug)]
pub(in crate::check::manifests) struct NetworkPolicy {
    pub id: Id,
    pods: Selector,
    /// It says who may come in; everybody else may not.
    ingress: bool,
    rules: Vec<Way>,
}

/// One rule. Nothing in a list means everything.
#[derive(Clone, Debug)]
struct Way {
    from: Vec<Peer>,
    ports: Vec<(Option<Port>, Option<u64>)>,
}

#[derive(Clone, Debug)]
struct Peer {
    pods: Option<Selector>,
    namespaces: Option<Selector>,
    /// Addresses, which no manifest tells of pods.
    block: bool,
}

impl NetworkPolicy {
    pub fn read(view: &View<'_>, id: Id) -> Self {
        let selector = |view: &View<'_>, key: &str| {
            view.get(key).is_some().then(|| Selector::labels(view, key))
        };
        let peer = |peer: &View<'_>| Peer {
            pods: selector(peer, "podSelector"),
            namespaces: selector(peer, "namespaceSelector"),
            block: peer.get("ipBlock").is_some(),
        };
        let port = |port: &View<'_>| (Port::read(port, "port"), port.whole("endPort", 1..=65535));
        let way = |way: &View<'_>| Way {
            from: way.list("from").iter().map(peer).collect(),
            ports: way.list("ports").iter().map(port).collect(),
        };
        let types = view.get("spec.policyTypes").is_some();
        let types = types.then(|| view.get("spec").map(|spec| spec.texts("policyTypes")));
        Self {
            // Absent, it selects every pod, as an empty one does.
            pods: selector(view, "spec.podSelector").unwrap_or_else(Selector::all),
            ingress: types.flatten().is_none_or(|types| types.iter().any(|kind| kind == "Ingress")),
            rules: view.list("spec.ingress").iter().map(way).collect(),
            id,
        }
    }

    /// Whether it says who may reach the pods of `workload`.
    pub fn guards(&self, workload: &Workload) -> bool {
        self.ingress
            && self.id.namespace == workload.id.namespace
            && self.pods.matches(&workload.labels)
    }

    /// Whether it lets the pods of `from` reach `port` of `container`. What cannot be told does.
    pub fn lets(&self, from: &Workload, container: &Container, port: u64) -> bool {
        self.rules.iter().any(|way| {
            let any_port = way.ports.is_empty();
            let leads = |(one, end): &(Option<Port>, Option<u64>)| match one {
                None => true,
                Some(Port::Number(number)) => (*number..=end.unwrap_or(*number)).contains(&port),
                Some(Port::Name(name)) => container.ports.get(name) == Some(&port),
            };
            (any_port || way.ports.iter().any(leads))
                && (way.from.is_empty() || way.from.iter().any(|peer| self.meets(peer, from)))
        })
    }

    fn meets(&self, peer: &Peer, from: &Workload) -> bool {
        if peer.block {
            return true;
        }
        let known = BTreeMap::from([(NAMESPACE.to_owned(), from.id.namespace.clone())]);
        let inside = match &peer.namespaces {
            None => self.id.namespace == from.id.namespace,
            // Other labels of namespaces are not known here.
            Some(selector) => !selector.asks_only(NAMESPACE) || selector.matches(&known),
        };
        inside && peer.pods.as_ref().is_none_or(|pods| pods.matches(&from.labels))
    }
}
