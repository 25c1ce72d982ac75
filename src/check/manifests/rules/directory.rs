//! Who is behind which name: Services by their names, and the workloads whose pods they select.
//! Worked out once, for every rule asks.

use crate::check::manifests::objects::{Kind, Objects, Service, Workload};
use std::collections::HashMap;

/// The Services of one input.
pub(super) struct Directory<'o> {
    objects: &'o Objects,
    /// For each Service the workloads that it selects.
    selects: Vec<Vec<usize>>,
    names: HashMap<&'o str, Vec<usize>>,
    places: HashMap<*const Workload, usize>,
}

/// What a host name may mean in a cluster: a Service, or one pod of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meaning<'h> {
    pub pod: Option<&'h str>,
    pub service: &'h str,
    pub namespace: Option<&'h str>,
}

impl<'h> Meaning<'h> {
    /// `service`, `service.namespace`, `service.namespace.svc…`, and each of them behind `pod.`.
    pub fn all(host: &'h str) -> impl Iterator<Item = Self> {
        let labels: Vec<&str> = host.trim_end_matches('.').split('.').collect();
        let meaning = |pod: Option<&'h str>, labels: &[&'h str]| match *labels {
            [service] => Some(Self { pod, service, namespace: None }),
            [service, namespace] | [service, namespace, "svc", ..] => {
                Some(Self { pod, service, namespace: Some(namespace) })
            }
            _ => None,
        };
        let pod = labels.first().copied();
        let of_pod = if labels.len() > 1 { meaning(pod, &labels[1..]) } else { None };
        meaning(None, &labels).into_iter().chain(of_pod)
    }
}

impl<'o> Directory<'o> {
    pub fn of(objects: &'o Objects) -> Self {
        let mut namespaces: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, workload) in objects.workloads.iter().enumerate() {
            namespaces.entry(&workload.id.namespace).or_default().push(index);
        }
        let places = objects.workloads.iter().map(std::ptr::from_ref).zip(0..).collect();
        let mut names: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, service) in objects.services.iter().enumerate() {
            names.entry(&service.id.name).or_default().push(index);
        }
        let selects = |service: &Service| {
            let beside = namespaces.get(service.id.namespace.as_str()).into_iter().flatten();
            let selected =
                |index: &usize| service.selector.matches(&objects.workloads[*index].labels);
            beside.copied().filter(selected).collect()
        };
        Self { selects: objects.services.iter().map(selects).collect(), names, places, objects }
    }

    pub fn service(&self, index: usize) -> &'o Service {
        &self.objects.services[index]
    }

    pub fn workloads(&self) -> impl Iterator<Item = &'o Workload> {
        self.objects.workloads.iter()
    }

    pub fn workload(&self, index: usize) -> &'o Workload {
        &self.objects.workloads[index]
    }

    /// The place of a workload of this input.
    pub fn index(&self, workload: &Workload) -> Option<usize> {
        self.places.get(&std::ptr::from_ref(workload)).copied()
    }

    /// Every Service with the workloads that it selects.
    pub fn services(&self) -> impl Iterator<Item = (&'o Service, &[usize])> {
        self.objects.services.iter().zip(self.selects.iter().map(Vec::as_slice))
    }

    /// The Services of a name in a namespace; `None`: in any.
    pub fn named(&self, name: &str, namespace: Option<&str>) -> impl Iterator<Item = usize> {
        let services = self.names.get(name).into_iter().flatten().copied();
        services.filter(move |index| {
            let own = &self.objects.services[*index].id.namespace;
            namespace.is_none_or(|namespace| agree(namespace, own))
        })
    }

    /// The workloads that a Service selects.
    pub fn selected(&self, service: usize) -> &[usize] {
        &self.selects[service]
    }

    /// The workloads behind a host name that is looked up from `namespace`, each with the Service
    /// that leads there.
    pub fn behind(&self, host: &str, namespace: Option<&str>) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for Meaning { pod, service, namespace: own } in Meaning::all(host) {
            for service in self.named(service, own.or(namespace)) {
                let is = |workload: usize| {
                    pod.is_none_or(|pod| is_pod_of(pod, &self.objects.workloads[workload]))
                };
                let workloads = self.selected(service).iter().copied().filter(|one| is(*one));
                found.extend(workloads.map(|workload| (service, workload)));
            }
        }
        found
    }
}

/// Whether a name is that of a pod of a StatefulSet.
pub(super) fn is_pod_of(pod: &str, workload: &Workload) -> bool {
    let ordinal = pod.strip_prefix(workload.id.name.as_str());
    let ordinal = ordinal.and_then(|rest| rest.strip_prefix('-'));
    workload.kind == Kind::StatefulSet && ordinal.is_some_and(|text| text.parse::<u32>().is_ok())
}

/// Whether two namespaces are one; an object may not say its own.
pub(super) fn agree(one: &str, other: &str) -> bool {
    one.is_empty() || other.is_empty() || one == other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_service_or_a_pod_of_one() {
        let all = |host| {
            let shown = |one: Meaning<'_>| {
                format!(
                    "{}/{}/{}",
                    one.pod.unwrap_or("-"),
                    one.service,
                    one.namespace.unwrap_or("-")
                )
            };
            Meaning::all(host).map(shown).collect::<Vec<_>>()
        };
        assert_eq!(all("a"), ["-/a/-"]);
        assert_eq!(all("a.b"), ["-/a/b", "a/b/-"]);
        assert_eq!(all("a.b.svc"), ["-/a/b", "a/b/svc"]);
        assert_eq!(all("a.b.svc.cluster.local."), ["-/a/b"]);
        assert_eq!(all("p.a.b.svc.cluster.local"), ["p/a/b"]);
        assert_eq!(all("a.b.scv.cluster.local"), [""; 0]);
        assert_eq!(all("gw.example.com"), ["gw/example/com"]);
    }
}
