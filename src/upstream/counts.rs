//! Counts that outlive their owners' objects.
//!
//! A reload may remove an endpoint or a pool and another may bring it back while requests of
//! before still run there. The engine at that address still has them, so the new object goes on
//! with the old count: it is found by name as long as anybody holds it, and forgotten with its
//! last holder. Where another pod is known to be at the address by now, what ran before runs
//! nowhere near it, and its count begins at zero.

use crate::core::discovery::Incarnation;
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
    endpoints: Mutex<HashMap<EndpointId, Known>>,
    pools: Mutex<HashMap<PoolId, Known>>,
}

#[derive(Debug)]
struct Known {
    count: Weak<Count>,
    /// Whose count it is, where that is known.
    pod: Option<Incarnation>,
}

impl Counts {
    /// The count of this endpoint: the one that is still held, unless it is another pod's; else a
    /// new one.
    pub(super) fn endpoint(&self, id: &EndpointId, pod: Option<&Incarnation>) -> Arc<Count> {
        held_or_new(&mut lock(&self.endpoints), id, pod)
    }

    /// The count of requests that want this pool.
    pub(super) fn pool(&self, id: &PoolId) -> Arc<Count> {
        held_or_new(&mut lock(&self.pools), id, None)
    }
}

/// Whether two names may be those of one pod: either is unknown, or they are the same.
pub(super) fn may_be_same(one: Option<&Incarnation>, other: Option<&Incarnation>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

fn held_or_new<K: Clone + Eq + Hash>(
    known: &mut HashMap<K, Known>,
    key: &K,
    pod: Option<&Incarnation>,
) -> Arc<Count> {
    known.retain(|_, known| known.count.strong_count() > 0);
    if let Some(held) = known.get_mut(key).filter(|held| may_be_same(held.pod.as_ref(), pod))
        && let Some(count) = held.count.upgrade()
    {
        held.pod = held.pod.take().or_else(|| pod.cloned());
        return count;
    }
    let count = Arc::default();
    known.insert(key.clone(), Known { count: Arc::downgrade(&count), pod: pod.cloned() });
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_lives_as_long_as_anybody_holds_it() {
        let counts = Counts::default();
        let running = counts.endpoint(&"e".into(), None).up();
        let again = counts.endpoint(&"e".into(), None);
        assert_eq!((again.now(), counts.endpoint(&"other".into(), None).now()), (1, 0));
        drop(again);
        drop(running);
        assert_eq!(counts.endpoint(&"e".into(), None).now(), 0);
        assert!(lock(&counts.endpoints).len() <= 1, "what nobody holds is forgotten");
    }

    #[test]
    fn another_pod_begins_at_zero() {
        let counts = Counts::default();
        let (old, new): (Incarnation, Incarnation) = ("old".into(), "new".into());
        let running = counts.endpoint(&"e".into(), None).up();
        // Its name is learned later.
        assert_eq!(counts.endpoint(&"e".into(), Some(&old)).now(), 1);
        let replaced = counts.endpoint(&"e".into(), Some(&new));
        assert_eq!(replaced.now(), 0);
        drop(running);
        assert_eq!(replaced.now(), 0);
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
