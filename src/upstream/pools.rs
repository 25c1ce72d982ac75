//! All pools of the configuration, each with its keeper, and its finder if it needs one.

use super::counts::Counts;
use super::discovery::Finder;
use super::keeper::Keeper;
use super::pool::Pool;
use crate::config;
use crate::core::ids::{EndpointId, PoolId};
use crate::core::observe::PoolState;
use crate::core::sync::lock;
use arc_swap::ArcSwap;
use futures::future::select_all;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// How long a start waits for endpoints that are discovered.
const PATIENCE: Duration = Duration::from_secs(10);

/// Every configured pool. One per process.
#[derive(Debug)]
pub struct Pools {
    pools: ArcSwap<Vec<Arc<Pool>>>,
    keepers: Mutex<HashMap<PoolId, Keeper>>,
    /// Endpoints that drain by an order. Locked while the pools are replaced, so that a new pool
    /// knows them before it can be found.
    ordered: Mutex<HashSet<EndpointId>>,
    finders: Mutex<HashMap<PoolId, Finder>>,
    /// Until when endpoints that were never found keep the process from being ready; set by
    /// [`keep`](Self::keep).
    patience: OnceLock<Instant>,
    /// [`awaits_endpoints`](Self::awaits_endpoints) was `false` once.
    settled: AtomicBool,
    counts: Arc<Counts>,
}

impl Pools {
    /// The pools of a configuration, in its order. Nothing is probed or resolved before
    /// [`keep`](Self::keep).
    pub fn new<'c>(specs: impl IntoIterator<Item = &'c Arc<config::Pool>>) -> Self {
        let counts = Arc::default();
        let pools = specs.into_iter().map(|spec| Pool::over(Arc::clone(spec), &counts)).collect();
        Self {
            pools: ArcSwap::from_pointee(pools),
            keepers: Mutex::default(),
            ordered: Mutex::default(),
            finders: Mutex::default(),
            patience: OnceLock::new(),
            settled: AtomicBool::new(false),
            counts,
        }
    }

    /// Start the keepers and finders that are missing and end those of pools that left; a pool
    /// whose source changed gets another finder. Call it once the runtime runs;
    /// [`update`](Self::update) does it after that by itself.
    pub fn keep(&self) {
        let pools = self.pools.load();
        self.patience.get_or_init(|| Instant::now() + PATIENCE);
        self.find(&pools);
        let mut keepers = lock(&self.keepers);
        keepers.retain(|id, _| pools.iter().any(|pool| pool.id() == id));
        for pool in pools.iter() {
            let spawn = || Keeper::spawn(Arc::clone(pool));
            keepers.entry(pool.id().clone()).or_insert_with(spawn);
        }
    }

    fn find(&self, pools: &[Arc<Pool>]) {
        let mut finders = lock(&self.finders);
        let source_of = |pool: &Arc<Pool>| pool.spec().discovery.clone();
        finders.retain(|id, finder| {
            let pool = pools.iter().find(|pool| pool.id() == id);
            pool.and_then(source_of).as_ref() == Some(finder.source())
        });
        for pool in pools {
            if let Some(source) = source_of(pool) {
                let spawn = || Finder::spawn(Arc::clone(pool), source);
                finders.entry(pool.id().clone()).or_insert_with(spawn);
            }
        }
    }

    /// Whether the process should not be sent requests yet, because a pool does not know its
    /// endpoints: for at most ten seconds from the start, so that a naming system that is away
    /// does not keep the other pools from serving. Once `false`, it stays so.
    pub fn awaits_endpoints(&self) -> bool {
        let Some(patience) = self.patience.get() else { return false };
        let settled = self.settled.load(Ordering::Relaxed)
            || Instant::now() >= *patience
            || !self.pools.load().iter().any(|pool| pool.awaits_endpoints());
        if settled {
            self.settled.store(true, Ordering::Relaxed);
        }
        !settled
    }

    /// A reload: pools that stay keep their endpoints' health and all counts. Pools and endpoints
    /// that come back go on with the counts of what still runs.
    pub fn update<'c>(&self, specs: impl IntoIterator<Item = &'c Arc<config::Pool>>) {
        let ordered = lock(&self.ordered);
        let known = self.pools.load();
        let keep_or_make =
            |spec: &Arc<config::Pool>| match known.iter().find(|pool| *pool.id() == spec.id) {
                Some(pool) => {
                    pool.update(Arc::clone(spec));
                    Arc::clone(pool)
                }
                None => {
                    let pool = Pool::over(Arc::clone(spec), &self.counts);
                    ordered.iter().for_each(|endpoint| pool.stop(endpoint));
                    pool
                }
            };
        self.pools.store(Arc::new(specs.into_iter().map(keep_or_make).collect()));
        drop(ordered);
        let kept = !lock(&self.keepers).is_empty();
        if kept {
            self.keep();
        }
    }

    /// What is followed now.
    #[cfg(test)]
    pub(super) fn sources(&self) -> Vec<config::Discovery> {
        lock(&self.finders).values().map(|finder| finder.source().clone()).collect()
    }

    /// The pool called `id`.
    pub fn get(&self, id: &PoolId) -> Option<Arc<Pool>> {
        self.pools.load().iter().find(|pool| pool.id() == id).map(Arc::clone)
    }

    /// The pool that has this endpoint; endpoints are unique over all pools.
    pub fn of_endpoint(&self, endpoint: &str) -> Option<Arc<Pool>> {
        let has = |pool: &&Arc<Pool>| pool.endpoint_phase(endpoint).is_some();
        self.pools.load().iter().find(has).map(Arc::clone)
    }

    /// Stop choosing `endpoint` until [`serve`](Self::serve), in whatever pool it is or comes to
    /// be. Whatever was chosen before is counted when this returns.
    pub fn stop(&self, endpoint: &EndpointId) {
        let mut ordered = lock(&self.ordered);
        ordered.insert(endpoint.clone());
        self.pools.load().iter().for_each(|pool| pool.stop(endpoint));
    }

    /// Undo [`stop`](Self::stop), or a drain the engine itself announced.
    pub fn serve(&self, endpoint: &EndpointId) {
        let mut ordered = lock(&self.ordered);
        ordered.remove(endpoint);
        self.pools.load().iter().for_each(|pool| pool.serve(endpoint));
    }

    /// Resolves when an endpoint may have changed its state since this call, or since the last
    /// one resolved. Cancel-safe.
    pub async fn changed(&self) {
        let pools = self.all();
        let changes: Vec<_> = pools.iter().map(|pool| Box::pin(pool.changed())).collect();
        if changes.is_empty() {
            return std::future::pending().await;
        }
        select_all(changes).await;
    }

    /// Every pool, in the configuration's order.
    pub fn all(&self) -> Vec<Arc<Pool>> {
        self.pools.load().iter().map(Arc::clone).collect()
    }

    /// Every pool as an operator sees it.
    pub fn states(&self) -> Vec<PoolState> {
        self.pools.load().iter().map(|pool| pool.state()).collect()
    }
}
