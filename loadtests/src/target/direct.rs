//! The engines through a router in this process, which does what AIBrix v0.7.0 does.
//!
//! It stands for the gateway of the published runs: random, least-request, and prefix-cache with
//! an imbalance threshold of 16 and a load bound of mean + 2 standard deviations. Its draws are
//! those of the reference model, so that equal arrivals are routed equally. Caps are held to the
//! end of the stream.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt};

use super::{Ask, Counted, Route, Routed, Target, playable};
use crate::plan::Random;
use crate::scenario::{DirectSpec, PhaseSpec, Policy};
use crate::sync::lock;

/// More between the most and the least loaded replica, and only the least loaded are candidates.
const IMBALANCE: usize = 16;
/// Standard deviations above the mean that a replica with the prefix may have.
const DEVIATIONS: f64 = 2.0;

/// The router.
pub struct Direct {
    spec: DirectSpec,
    state: Arc<Mutex<State>>,
}

struct State {
    replicas: Vec<Replica>,
    policy: Policy,
    random: Random,
    index: BTreeMap<u32, BTreeSet<String>>,
    by_tenant: BTreeMap<String, usize>,
    selections: BTreeMap<String, u64>,
}

#[derive(Clone)]
struct Replica {
    name: String,
    addr: SocketAddr,
    in_flight: usize,
    ready: bool,
}

/// A request's place in the counts; given back by its drop.
struct Lease {
    state: Arc<Mutex<State>>,
    replica: String,
    tenant: String,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if let Some(replica) = state.replicas.iter_mut().find(|r| r.name == self.replica) {
            replica.in_flight -= 1;
        }
        if let Some(held) = state.by_tenant.get_mut(&self.tenant) {
            *held -= 1;
        }
    }
}

impl Direct {
    /// A router over those engines.
    ///
    /// # Errors
    /// The policy is not one of AIBrix's.
    pub fn new(spec: &DirectSpec, engines: &[(String, SocketAddr)]) -> anyhow::Result<Self> {
        let replica = |(name, addr): &(String, SocketAddr)| Replica {
            name: name.clone(),
            addr: *addr,
            in_flight: 0,
            ready: true,
        };
        let state = State {
            replicas: engines.iter().map(replica).collect(),
            policy: playable(spec.policy)?,
            random: Random::new(1),
            index: BTreeMap::new(),
            by_tenant: BTreeMap::new(),
            selections: BTreeMap::new(),
        };
        Ok(Self { spec: spec.clone(), state: Arc::new(Mutex::new(state)) })
    }
}

impl Target for Direct {
    fn describe(&self) -> String {
        let caps: Vec<String> = self.spec.caps.iter().map(|(t, n)| format!("{t} ≤ {n}")).collect();
        let caps = if caps.is_empty() { "no caps".into() } else { caps.join(", ") };
        format!("simulated engines behind a router as AIBrix v0.7.0's ({caps})")
    }

    fn route(&self, ask: &Ask<'_>) -> Routed {
        let mut state = lock(&self.state);
        let held = state.by_tenant.get(ask.tenant).copied().unwrap_or(0);
        if self.spec.caps.get(ask.tenant).is_some_and(|cap| held >= *cap) {
            return Routed::Refused { status: 429, reason: "tenant_in_flight" };
        }
        let Some(pick) = state.pick(ask.group) else {
            return Routed::Refused { status: 503, reason: "no_endpoint" };
        };
        let replica = &mut state.replicas[pick.at];
        replica.in_flight += 1;
        let (name, addr) = (replica.name.clone(), replica.addr);
        *state.by_tenant.entry(ask.tenant.to_owned()).or_default() += 1;
        if let Some(selection) = pick.selection {
            *state.selections.entry(selection.to_owned()).or_default() += 1;
        }
        drop(state);
        let lease = Lease {
            state: Arc::clone(&self.state),
            replica: name.clone(),
            tenant: ask.tenant.to_owned(),
        };
        Routed::To(Route {
            headers: vec![("x-sim-tenant".into(), ask.tenant.into())],
            target: Some(name),
            selection: pick.selection,
            match_percent: pick.match_percent,
            lease: Some(Box::new(lease)),
            ..Route::to(addr)
        })
    }

    fn begin_phase(&self, phase: &PhaseSpec, seed: u64) -> BoxFuture<'_, anyhow::Result<()>> {
        let policy = playable(phase.policy.unwrap_or(self.spec.policy));
        async move {
            let mut state = lock(&self.state);
            state.policy = policy?;
            state.random = Random::new(self.spec.seed.unwrap_or(seed));
            state.selections.clear();
            Ok(())
        }
        .boxed()
    }

    fn reset_index(&self) -> BoxFuture<'_, anyhow::Result<()>> {
        lock(&self.state).index.clear();
        async { Ok(()) }.boxed()
    }

    fn set_index(&self, index: &BTreeMap<String, Vec<u32>>) -> bool {
        let mut state = lock(&self.state);
        for (replica, groups) in index {
            for group in groups {
                state.index.entry(*group).or_default().insert(replica.clone());
            }
        }
        true
    }

    fn engine_ready(&self, name: &str, addr: SocketAddr) -> BoxFuture<'_, anyhow::Result<()>> {
        let replica = Replica { name: name.to_owned(), addr, in_flight: 0, ready: true };
        lock(&self.state).replicas.push(replica);
        async { Ok(()) }.boxed()
    }

    fn engine_gone(&self, name: &str, _addr: SocketAddr) -> BoxFuture<'_, anyhow::Result<()>> {
        for replica in lock(&self.state).replicas.iter_mut().filter(|r| r.name == name) {
            replica.ready = false;
        }
        async { Ok(()) }.boxed()
    }

    fn evidence(&self) -> BoxFuture<'_, Counted> {
        let counted = Counted::from([("router".into(), lock(&self.state).selections.clone())]);
        async move { counted }.boxed()
    }
}

struct Pick {
    at: usize,
    selection: Option<&'static str>,
    match_percent: Option<u32>,
}

impl State {
    fn pick(&mut self, group: Option<u32>) -> Option<Pick> {
        let ready: Vec<usize> =
            (0..self.replicas.len()).filter(|i| self.replicas[*i].ready).collect();
        let plain = |at| Pick { at, selection: None, match_percent: None };
        if ready.len() < 2 {
            return ready.first().copied().map(plain);
        }
        Some(match self.policy {
            Policy::Random => plain(ready[self.random.below(ready.len())]),
            Policy::PrefixCache => self.by_prefix(&ready, group),
            Policy::LeastRequest | Policy::ExpectedTtft => plain(self.least(&ready)),
        })
    }

    fn load(&self, at: usize) -> usize {
        self.replicas[at].in_flight
    }

    /// Any of those with the fewest in flight.
    fn least(&mut self, ready: &[usize]) -> usize {
        let fewest = ready.iter().map(|i| self.load(*i)).min().unwrap_or(0);
        let all: Vec<usize> = ready.iter().copied().filter(|i| self.load(*i) == fewest).collect();
        all[self.random.below(all.len())]
    }

    fn by_prefix(&mut self, ready: &[usize], group: Option<u32>) -> Pick {
        let loads: Vec<usize> = ready.iter().map(|i| self.load(*i)).collect();
        let fewest = loads.iter().copied().min().unwrap_or(0);
        let imbalanced = loads.iter().copied().max().unwrap_or(0) - fewest > IMBALANCE;
        let known = group.and_then(|g| self.index.get(&g)).cloned().unwrap_or_default();
        let candidate = |i: &usize| !imbalanced || self.load(*i) == fewest;
        let has = |i: &usize| known.contains(&self.replicas[*i].name);
        let mut matching: Vec<usize> =
            ready.iter().copied().filter(|i| candidate(i) && has(i)).collect();
        let matched = !matching.is_empty();
        let bound = bound(&loads);
        self.random.shuffle(&mut matching);
        matching.sort_by_key(|i| self.load(*i));
        let fit = matching.into_iter().find(|i| self.load(*i) as f64 <= bound);
        let (at, selection) = match fit {
            Some(at) => (at, "prefix_match"),
            None if matched => (self.least(ready), "prefix_match_skipped"),
            None => (self.least(ready), "least_request_fallback"),
        };
        if let Some(group) = group {
            self.index.entry(group).or_default().insert(self.replicas[at].name.clone());
        }
        let match_percent = Some(if matched { 100 } else { 0 });
        Pick { at, selection: Some(selection), match_percent }
    }
}

/// Mean + 2 standard deviations of the loads.
fn bound(loads: &[usize]) -> f64 {
    let n = loads.len() as f64;
    let mean = loads.iter().sum::<usize>() as f64 / n;
    let variance = loads.iter().map(|l| (*l as f64 - mean).powi(2)).sum::<f64>() / n;
    mean + DEVIATIONS * variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(policy: Policy, caps: &[(&str, usize)]) -> Direct {
        let engines: Vec<(String, SocketAddr)> = ["A", "B"]
            .iter()
            .enumerate()
            .map(|(i, n)| ((*n).to_owned(), SocketAddr::from(([127, 0, 0, 1], 9000 + i as u16))))
            .collect();
        let caps = caps.iter().map(|(t, n)| ((*t).to_owned(), *n)).collect();
        Direct::new(&DirectSpec { policy, caps, seed: Some(1) }, &engines).unwrap()
    }

    fn go(router: &Direct, tenant: &str, group: Option<u32>) -> Route {
        match router.route(&Ask { tenant, group }) {
            Routed::To(route) => route,
            Routed::Refused { reason, .. } => panic!("refused: {reason}"),
        }
    }

    #[test]
    fn a_cap_is_held_until_the_route_is_dropped() {
        let router = router(Policy::LeastRequest, &[("a", 1)]);
        let first = go(&router, "a", None);
        assert!(matches!(
            router.route(&Ask { tenant: "a", group: None }),
            Routed::Refused { status: 429, .. }
        ));
        let _other = go(&router, "b", None);
        drop(first);
        let _again = go(&router, "a", None);
    }

    #[test]
    fn least_request_balances() {
        let router = router(Policy::LeastRequest, &[]);
        let held: Vec<Route> = (0..10).map(|_| go(&router, "a", None)).collect();
        let on_a = held.iter().filter(|r| r.target.as_deref() == Some("A")).count();
        assert_eq!(on_a, 5);
    }

    #[tokio::test]
    async fn prefix_cache_follows_the_index_until_the_imbalance() {
        let router = router(Policy::PrefixCache, &[]);
        router.set_index(&BTreeMap::from([("B".into(), vec![4])]));
        let held: Vec<Route> = (0..18).map(|_| go(&router, "a", Some(4))).collect();
        let b = held.iter().filter(|r| r.target.as_deref() == Some("B")).count();
        assert_eq!(b, 17, "the 18th finds 17 against 0");
        assert_eq!(held[17].selection, Some("least_request_fallback"));
        assert_eq!(held[0].selection, Some("prefix_match"));
        router.reset_index().await.unwrap();
        assert_eq!(go(&router, "a", Some(4)).match_percent, Some(0));
    }
}
