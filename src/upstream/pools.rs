//! All pools, and which of them serves a model.

use super::pool::{Pool, PoolSpec};
use crate::core::ids::PoolId;
use crate::core::observe::PoolState;
use crate::core::policy::ModelSet;
use arc_swap::ArcSwap;
use std::sync::Arc;

/// Every configured pool. One per process.
#[derive(Debug)]
pub struct Pools {
    pools: ArcSwap<Vec<Arc<Pool>>>,
}

/// No pool may serve the request; the client is told `unknown_model`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no pool serves this model")]
pub struct NoPool;

impl Pools {
    /// The pools of a configuration, in its order.
    pub fn new(specs: impl IntoIterator<Item = PoolSpec>) -> Self {
        Self { pools: ArcSwap::from_pointee(specs.into_iter().map(Pool::new).collect()) }
    }

    /// A reload: pools that stay keep their endpoints' health and all counts. Returns the pools
    /// that are new, whose keepers are to be started. A keeper of a pool that left ends by itself
    /// when its handle is dropped.
    pub fn update(&self, specs: impl IntoIterator<Item = PoolSpec>) -> Vec<Arc<Pool>> {
        let known = self.pools.load();
        let mut added = Vec::new();
        let pools = specs
            .into_iter()
            .map(|spec| match known.iter().find(|pool| *pool.id() == spec.id) {
                Some(pool) => {
                    pool.update(spec);
                    Arc::clone(pool)
                }
                None => {
                    let pool = Pool::new(spec);
                    added.push(Arc::clone(&pool));
                    pool
                }
            })
            .collect();
        self.pools.store(Arc::new(pools));
        added
    }

    /// The pool for `model`: the tenant's own (`pinned`) if it has one, else the first that names
    /// the model, else the first that serves any. A request without a model goes to the first
    /// pool that serves any, else to the first.
    ///
    /// # Errors
    /// No such pool, or the pinned one does not serve the model.
    pub fn for_model(
        &self,
        model: Option<&str>,
        pinned: Option<&PoolId>,
    ) -> Result<Arc<Pool>, NoPool> {
        let pools = self.pools.load();
        let serves =
            |pool: &Arc<Pool>| model.is_none_or(|model| pool.spec().models.contains(model));
        let found = match pinned {
            Some(id) => pools.iter().find(|pool| pool.id() == id).filter(|pool| serves(pool)),
            None => {
                let names = |pool: &&Arc<Pool>| {
                    matches!((&pool.spec().models, model), (ModelSet::Only(names), Some(model))
                        if names.iter().any(|name| name.as_str() == model))
                };
                let any = |pool: &&Arc<Pool>| pool.spec().models == ModelSet::Any;
                pools
                    .iter()
                    .find(names)
                    .or_else(|| pools.iter().find(any))
                    .or_else(|| pools.iter().find(|pool| serves(pool)))
            }
        };
        found.map(Arc::clone).ok_or(NoPool)
    }

    pub fn run_keepers(&self) {
        for p in self.all() {
            p.temp_resolve();
        }
    }
    /// The pool called `id`.
    pub fn get(&self, id: &PoolId) -> Option<Arc<Pool>> {
        self.pools.load().iter().find(|pool| pool.id() == id).map(Arc::clone)
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
