//! Whether the address that an engine's hook asks is that of the admin API, and whether Streamgate
//! takes a call from there.

use super::directory::{Directory, Meaning, is_pod_of};
use super::front::Front;
use super::{Behind, Gate};
use crate::check::manifests::objects::{Container, Port, Service, Workload};
use std::net::IpAddr;

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked<'a> {
    /// The engine's own pod.
    Own {
        loopback: bool,
    },
    /// A name or an address of the cluster.
    Host(&'a str),
    Unknown,
}

/// Report an address that is not that of Streamgate's admin API, and a Streamgate that refuses
/// the call. `at`: `host:port` as the hook writes it. Whether it is right; where Streamgate is not
/// among the manifests, nobody can tell that it is not.
pub(super) fn check(
    engine: &Workload,
    container: &Container,
    at: &str,
    behind: &Behind<'_>,
) -> bool {
    if at.is_empty() {
        return true;
    }
    let (host, port) = split(at);
    let call = Call { engine, at, host, port, behind };
    let faults = match asked(host, container) {
        Asked::Unknown => return true,
        // Without a Streamgate here only a Service with other pods is known to be wrong.
        Asked::Host(host) if behind.gates.is_empty() => call.strangers(host),
        Asked::Own { .. } if behind.gates.is_empty() => return true,
        Asked::Own { loopback } => call.own(loopback),
        Asked::Host(host) => call.host(host),
    };
    let (right, key) = (faults.is_empty(), container.key("lifecycle.preStop"));
    for Fault { code, problem, remedy } in faults {
        container.scope.error(code, &key, problem, remedy.unwrap_or_else(|| call.right()));
    }
    right
}

/// The call of a hook.
struct Call<'c, 'o> {
    engine: &'c Workload,
    at: &'c str,
    host: &'c str,
    /// `None`: not known.
    port: Option<u64>,
    behind: &'c Behind<'o>,
}

struct Fault {
    code: &'static str,
    problem: String,
    /// `None`: ask the right address.
    remedy: Option<String>,
}

impl Fault {
    fn of(problem: String) -> Self {
        Self { code: "hook-address", problem, remedy: None }
    }
}

impl<'o> Call<'_, 'o> {
    fn own(&self, loopback: bool) -> Vec<Fault> {
        let gates = self.behind.gates.iter();
        let beside: Vec<_> =
            gates.filter(|gate| std::ptr::eq(gate.workload, self.engine)).collect();
        if beside.is_empty() {
            return vec![Fault::of(format!(
                "the hook asks {:?}, its own pod, in which no Streamgate runs",
                self.at
            ))];
        }
        let leads = |gate: &&&Gate<'_>| {
            self.port.is_none_or(|port| port == u64::from(gate.settings.admin().port()))
        };
        match beside.iter().find(leads) {
            Some(_) if loopback => Vec::new(),
            Some(gate) => refusals(gate),
            None => vec![Fault::of(format!(
                "the hook asks {:?}, and the admin API is on {}",
                self.at,
                beside[0].settings.admin().port()
            ))],
        }
    }

    fn host(&self, host: &str) -> Vec<Fault> {
        let directory = &self.behind.directory;
        let services = services(host, &self.engine.id.namespace, directory);
        let ways = services.iter().flat_map(|(index, pod)| {
            let selected = |gate: &&Gate<'o>| {
                let workload = directory.index(gate.workload);
                workload.is_some_and(|workload| directory.selected(*index).contains(&workload))
                    && pod.is_none_or(|pod| is_pod_of(pod, gate.workload))
            };
            let gates = self.behind.gates.iter().filter(selected);
            gates.map(move |gate| (directory.service(*index), pod.is_some(), gate))
        });
        let ways: Vec<_> = ways.collect();
        if ways.is_empty() {
            return vec![Fault::of(self.elsewhere(host, &services))];
        }
        let mut faults: Vec<_> =
            ways.iter().filter_map(|(service, pod, gate)| self.port(service, *pod, gate)).collect();
        faults.extend(ways.iter().flat_map(|(.., gate)| refusals(gate)));
        faults.extend(ways.iter().filter_map(|(.., gate)| self.stranger(gate)));
        faults.extend(ways.iter().filter_map(|(.., gate)| self.closed(gate)));
        faults
    }

    /// A Service whose pods are here, and are none of Streamgate as far as is known.
    fn strangers(&self, host: &str) -> Vec<Fault> {
        let directory = &self.behind.directory;
        let services = services(host, &self.engine.id.namespace, directory);
        let here = services.iter().filter(|(index, _)| !directory.selected(*index).is_empty());
        let fault = |_| {
            Fault {
            code: "hook-address",
            problem: self.elsewhere(host, &services),
            remedy: Some(
                "ask Streamgate; if these pods are its under another image, write `command: [/usr/bin/streamgate]`"
                    .to_owned(),
            ),
        }
        };
        here.map(fault).take(1).collect()
    }

    /// A NetworkPolicy that keeps the hook from the admin API.
    fn closed(&self, gate: &Gate<'_>) -> Option<Fault> {
        let port = u64::from(gate.settings.admin().port());
        let guards: Vec<_> =
            self.behind.policies.iter().filter(|policy| policy.guards(gate.workload)).collect();
        let lets = guards.iter().any(|policy| policy.lets(self.engine, gate.container, port));
        let known = !gate.settings.broken && !guards.is_empty();
        (known && !lets).then(|| Fault {
            code: "hook-address",
            problem: format!(
                "NetworkPolicy {} keeps this pod from port {port} of {:?}",
                guards[0].id.name, self.host
            ),
            remedy: Some(
                "let its pods in, by their labels or their namespace; k8s/base knows the label streamgate.io/drains-engines: \"true\""
                    .to_owned(),
            ),
        })
    }

    /// A Streamgate that has no pool with the engine, while another one has.
    fn stranger(&self, gate: &Gate<'_>) -> Option<Fault> {
        let (pools, named) = self.behind.pools(self.engine);
        let is = |front: &Front<'_>| {
            front.workload.is_some_and(|workload| std::ptr::eq(workload, gate.workload))
        };
        let known = gate.settings.config().is_some();
        if !named || !known || pools.iter().any(|(front, ..)| is(front)) {
            return None;
        }
        let object = |workload: &Workload| workload.scope.place().object.clone();
        let asked = object(gate.workload).unwrap_or_default();
        let right = pools.iter().find_map(|(front, ..)| object(front.workload?));
        Some(Fault {
            code: "hook-address",
            problem: format!("the hook asks {asked}, which has no pool with this engine"),
            remedy: Some(format!("ask {}", right.unwrap_or_default())),
        })
    }

    /// Why a host leads to no Streamgate.
    fn elsewhere(&self, host: &str, services: &[(usize, Option<&str>)]) -> String {
        let at = self.at;
        match services.first() {
            // A name with a pod's before it may as well be one with a namespace behind it.
            Some((index, None)) => {
                let service = self.behind.directory.service(*index);
                let object = service.scope.place().object.as_deref().unwrap_or_default();
                format!("the hook asks {at:?}, and {object} selects no pods of Streamgate")
            }
            _ if host.parse::<IpAddr>().is_ok() => {
                format!("the hook asks {at:?}, the address of no Service here")
            }
            _ => {
                let namespace = match self.engine.id.namespace.as_str() {
                    "" => String::new(),
                    own => format!(" (looked up from namespace {own})"),
                };
                format!("the hook asks {at:?}, the name of no Service here{namespace}")
            }
        }
    }

    /// A Service that has no such port, or one that leads elsewhere.
    fn port(&self, service: &Service, pod: bool, gate: &Gate<'_>) -> Option<Fault> {
        let (port, admin) = (self.port?, gate.settings.admin().port());
        // Names of pods lead to the pods themselves, whatever ports the Service has.
        let found = if service.headless || pod {
            (port != u64::from(admin)).then(|| "which is that of the pods themselves".to_owned())?
        } else {
            match service.ports.iter().find(|one| one.number == Some(port)) {
                None => "which the Service does not have".to_owned(),
                // A port without a number is the Service's own fault, and told there.
                Some(port) => match leads(&port.target, gate)? {
                    number if number == u64::from(admin) => return None,
                    number => format!("which leads to port {number}"),
                },
            }
        };
        let mut fault = Fault::of(format!(
            "the hook asks port {port} of {:?}, {found}; the admin API is on {admin}",
            self.host
        ));
        fault.remedy = Some(match to_admin(service, gate) {
            Some(number) => format!("ask {}:{number}", self.host),
            None => format!("ask a Service that has the port {admin} of Streamgate's pods"),
        });
        Some(fault)
    }

    /// What to ask.
    fn right(&self) -> String {
        let directory = &self.behind.directory;
        for (service, selected) in directory.services() {
            for gate in self.behind.gates {
                let selects = directory.index(gate.workload).is_some_and(|i| selected.contains(&i));
                let Some(port) = to_admin(service, gate).filter(|_| selects) else { continue };
                let (name, namespace) = (&service.id.name, &service.id.namespace);
                return match *namespace == self.engine.id.namespace {
                    true => format!("ask {name}:{port}"),
                    false => format!("ask {name}.{namespace}:{port}"),
                };
            }
        }
        "add a Service that selects Streamgate's pods and leads to their admin port, and ask that"
            .to_owned()
    }
}

/// The port of a Service that leads to the admin API.
fn to_admin(service: &Service, gate: &Gate<'_>) -> Option<u64> {
    let admin = u64::from(gate.settings.admin().port());
    if service.headless {
        return Some(admin);
    }
    let right = service.ports.iter().find(|one| leads(&one.target, gate) == Some(admin));
    right.and_then(|port| port.number)
}

fn leads(target: &Port, gate: &Gate<'_>) -> Option<u64> {
    match target {
        Port::Number(number) => Some(*number),
        Port::Name(name) => gate.container.ports.get(name).copied(),
    }
}

/// Why a replica does not take a call from another pod.
fn refusals(gate: &Gate<'_>) -> Vec<Fault> {
    let settings = &gate.settings;
    // With a configuration in error nothing is known of it.
    if settings.broken {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let (admin, source) = (settings.admin(), &settings.source);
    if admin.ip().is_loopback() {
        let problem = format!("the admin API is at {admin}, where no other pod reaches it");
        let remedy = format!("set listen.admin: \"0.0.0.0:{}\" in {source}", admin.port());
        faults.push(Fault { code: "hook-address", problem, remedy: Some(remedy) });
    }
    if !settings.has_token() {
        let problem = "Streamgate refuses the call with 403: without admin.token_file only loopback may drain".to_owned();
        let remedy = format!("set admin.token_file in {source}, and mount the Secret");
        faults.push(Fault { code: "hook-refused", problem, remedy: Some(remedy) });
    }
    faults
}

/// The Services that a host means, and the pod of them if it means one alone.
fn services<'h>(
    host: &'h str,
    namespace: &str,
    directory: &Directory<'h>,
) -> Vec<(usize, Option<&'h str>)> {
    let mut found = Vec::new();
    let mut names = vec![host];
    // A name may stand for another one; nobody chains more of them.
    for _ in 0..4 {
        let mut next = Vec::new();
        for name in names {
            if name.parse::<IpAddr>().is_ok() {
                let has = |service: &Service| service.address.as_deref() == Some(name);
                let services = directory.services().enumerate();
                found.extend(services.filter(|(_, (one, _))| has(one)).map(|(at, _)| (at, None)));
                continue;
            }
            for Meaning { pod, service, namespace: own } in Meaning::all(name) {
                for index in directory.named(service, Some(own.unwrap_or(namespace))) {
                    match &directory.service(index).external {
                        Some(external) => next.push(external.as_str()),
                        None => found.push((index, pod)),
                    }
                }
            }
        }
        names = next;
    }
    found
}

/// `host:port` → host without brackets, port; that of HTTP if none is written.
fn split(at: &str) -> (&str, Option<u64>) {
    let at = at.rsplit_once('@').map_or(at, |(_, at)| at);
    let (host, port) = match at.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => at.rsplit_once(':').map_or((at, None), |(host, port)| (host, Some(port))),
    };
    (host, port.map_or(Some(80), |port| port.parse().ok()))
}

fn asked<'a>(host: &'a str, container: &Container) -> Asked<'a> {
    if let Some(name) = host.strip_prefix('$') {
        let name = name.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(name);
        let shape = container.shapes.get(name).and_then(Option::as_deref);
        return match shape {
            Some("$(status.podIP)") => Asked::Own { loopback: false },
            _ => Asked::Unknown,
        };
    }
    if !host.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c)) {
        return Asked::Unknown;
    }
    match is_loopback(host) {
        true => Asked::Own { loopback: true },
        false => Asked::Host(host),
    }
}

pub(super) fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|one| one.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_told_apart() {
        for (at, expected) in [
            ("a:9180", ("a", Some(9180))),
            ("a", ("a", Some(80))),
            ("[::1]:9180", ("::1", Some(9180))),
            ("[::1]", ("::1", Some(80))),
            ("$HOST:$PORT", ("$HOST", None)),
            ("user@a.b:1", ("a.b", Some(1))),
        ] {
            assert_eq!(split(at), expected, "{at}");
        }
        let mut container = Container::bare("c", None);
        container.shapes.insert("POD_IP".into(), Some("$(status.podIP)".into()));
        for (host, expected) in [
            ("a.b", Asked::Host("a.b")),
            ("$A", Asked::Unknown),
            ("a-$B", Asked::Unknown),
            ("${POD_IP}", Asked::Own { loopback: false }),
            ("localhost", Asked::Own { loopback: true }),
            ("127.0.0.1", Asked::Own { loopback: true }),
            ("::1", Asked::Own { loopback: true }),
            ("10.0.0.7", Asked::Host("10.0.0.7")),
        ] {
            assert_eq!(asked(host, &container), expected, "{host}");
        }
    }
}
