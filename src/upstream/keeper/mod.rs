//! The keeper of a pool: one task that resolves names and probes health.
//!
//! Each endpoint is *visited* when due: resolved if it has a name, then probed if the pool has a
//! health path. Visits run beside each other, each bounded in time, so one silent engine delays
//! neither another's visit nor any choice. A bell wakes the keeper when a request took an endpoint
//! out of service, so the next visit comes after that endpoint's backoff and not after the whole
//! interval. Dropping the [`Keeper`] ends the task and its visits.

mod probe;
pub(super) mod resolve;
#[cfg(test)]
mod tests;

use super::endpoint::Endpoint;
use super::pool::Pool;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use rand::Rng;
use resolve::{Dns, Resolve};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

/// How long an address is used before its name is resolved again.
const RESOLVE_AGAIN: Duration = Duration::from_secs(30);
/// Time between attempts to resolve a name that has no address, or whose endpoint is down.
const RESOLVE_SOON: Duration = Duration::from_secs(1);

/// Owns the task.
#[derive(Debug)]
pub(super) struct Keeper {
    _task: AbortOnDropHandle<()>,
}

impl Keeper {
    pub(super) fn spawn(pool: Arc<Pool>) -> Self {
        Self::with(pool, Arc::new(Dns))
    }

    fn with(pool: Arc<Pool>, resolver: Arc<dyn Resolve>) -> Self {
        let rounds = Rounds { pool, resolver, plan: Vec::new(), visits: FuturesUnordered::new() };
        Self { _task: AbortOnDropHandle::new(tokio::spawn(rounds.run())) }
    }
}

/// When an endpoint is visited next.
struct Planned {
    endpoint: Arc<Endpoint>,
    /// `None`: never (an address that is not probed).
    next: Option<Instant>,
    /// A visit is under way.
    visiting: bool,
}

struct Rounds {
    pool: Arc<Pool>,
    resolver: Arc<dyn Resolve>,
    plan: Vec<Planned>,
    visits: FuturesUnordered<BoxFuture<'static, Arc<Endpoint>>>,
}

impl Rounds {
    async fn run(mut self) {
        let pool = Arc::clone(&self.pool);
        loop {
            self.replan();
            let next_due = self.start_due();
            tokio::select! {
                () = pool.bell().notified() => pool.announce(),
                Some(visited) = self.visits.next(), if !self.visits.is_empty() => {
                    self.visited(&visited);
                }
                () = sleep_until_some(next_due) => {}
            }
        }
    }

    /// Follow the pool's set of endpoints, and bring forward what became urgent.
    fn replan(&mut self) {
        let now = Instant::now();
        let endpoints = self.pool.endpoints();
        self.plan.retain(|planned| endpoints.iter().any(|e| Arc::ptr_eq(e, &planned.endpoint)));
        for endpoint in endpoints {
            let known = self.plan.iter_mut().find(|p| Arc::ptr_eq(&p.endpoint, &endpoint));
            match known {
                Some(planned) => {
                    let soonest = pause(&endpoint).map(|pause| now + pause);
                    planned.next = planned.next.into_iter().chain(soonest).min();
                }
                None => {
                    self.plan.push(Planned { endpoint, next: Some(now), visiting: false });
                }
            }
        }
    }

    /// Start every visit that is due; when the next one is.
    fn start_due(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let health = self.pool.spec().health.clone();
        for planned in self.plan.iter_mut().filter(|planned| !planned.visiting) {
            if planned.next.is_some_and(|next| next <= now) {
                planned.visiting = true;
                let (endpoint, health) = (Arc::clone(&planned.endpoint), health.clone());
                let resolver = Arc::clone(&self.resolver);
                self.visits.push(Box::pin(async move {
                    resolve::visit(&endpoint, &*resolver, health.timeout).await;
                    if let Some(path) = &health.path {
                        probe::visit(&endpoint, path, health.timeout).await;
                    }
                    endpoint
                }));
            }
        }
        self.plan.iter().filter(|planned| !planned.visiting).filter_map(|p| p.next).min()
    }

    fn visited(&mut self, endpoint: &Arc<Endpoint>) {
        let planned = self.plan.iter_mut().find(|p| Arc::ptr_eq(&p.endpoint, endpoint));
        if let Some(planned) = planned {
            planned.visiting = false;
            planned.next = pause(endpoint).map(|pause| Instant::now() + jittered(pause));
        }
    }
}

/// Time to an endpoint's next visit; `None`: it needs none.
fn pause(endpoint: &Endpoint) -> Option<Duration> {
    let resolve = endpoint.has_name().then(|| match endpoint.is_lost() {
        true => RESOLVE_SOON,
        false => RESOLVE_AGAIN,
    });
    endpoint.probe_delay().into_iter().chain(resolve).min()
}

/// Up to a quarter earlier, so that replicas do not probe an engine in step.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::rng().random_range(0.75..1.0))
}

async fn sleep_until_some(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
