//! Counts that outlive their owners' objects.
//!
//! A reload may remove an endpoint or a pool and another may bring it back while requests of
//! before still run there. The engine at that address still has them, so the new object goes on
//! with the old count: it is found by name as long as anybody holds it, and forgotten with its
//! last holder.

use crate::core::ids::{EndpointId, PoolId};
use crate::core::sync::lock;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// A number of requests. Up by [`up`](Self::up) or [`up_below`](Self::up_below), down by the drop
/// of what they give.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// One more.
    pub(super) fn up(self: &Arc<Self>) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(self))
    }

    /// One more, unless there are `limit` already. Exact also where several pools hold the count.
    pub(super) fn up_below(self: &Arc<Self>, limit: u64) -> Option<Counted> {
        let below = |count: u64| (count < limit).then(|| count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below).ok()?;
        Some(Counted(Arc::clone(self)))
    }
}

/// One of a [`Count`].
#[derive(Debug)]
pub(super) struct Counted(Arc<Count>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The counts of all endpoints and pools by name. One per process.
#[derive(Debug, Default)]
pub(super) struct Counts {
    endpoints: Mutex<HashMap<EndpointId, Weak<Count>>>,
    pools: Mutex<HashMap<PoolId, Weak<Count>>>,
}

impl Counts {
    /// The count of this endpoint: the one that is still held, else a new one.
    pub(super) fn endpoint(&self, id: &EndpointId) -> Arc<Count> {
        held_or_new(&mut lock(&self.endpoints), id)
    }

    /// The count of requests that want this pool.
    pub(super) fn pool(&self, id: &PoolId) -> Arc<Count> {
        held_or_new(&mut lock(&self.pools), id)
    }
}

fn held_or_new<K: Clone + Eq + Hash>(known: &mut HashMap<K, Weak<Count>>, key: &K) -> Arc<Count> {
    known.retain(|_, count| count.strong_count() > 0);
    if let Some(count) = known.get(key).and_then(Weak::upgrade) {
        return count;
    }
    let count = Arc::default();
    known.insert(key.clone(), Arc::downgrade(&count));
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_lives_as_long_as_anybody_holds_it() {
        let counts = Counts::default();
        let running = counts.endpoint(&"e".into()).up();
        let again = counts.endpoint(&"e".into());
        assert_eq!((again.now(), counts.endpoint(&"other".into()).now()), (1, 0));
        drop(again);
        drop(running);
        assert_eq!(counts.endpoint(&"e".into()).now(), 0);
        assert!(lock(&counts.endpoints).len() <= 1, "what nobody holds is forgotten");
    }

    #[test]
    fn a_limit_is_not_passed_by_any_number_of_threads() {
        let count = Arc::new(Count::default());
        let held: Vec<Counted> = std::thread::scope(|scope| {
            let take = || (0..100).filter_map(|_| count.up_below(7)).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!((held.len(), count.now()), (7, 7));
        drop(held);
        assert_eq!(count.now(), 0);
    }
}
