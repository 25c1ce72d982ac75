//! The prefix cache: which blocks of prompt tokens an engine still holds.

use std::collections::{BTreeMap, HashMap};

/// A bounded set of block hashes, the least recently used evicted first.
///
/// A chain is touched from its end to its start, so that of one prompt the last block goes
/// first: a prefix without its start is of no use.
#[derive(Debug)]
pub struct PrefixCache {
    capacity: usize,
    stamp: u64,
    stamps: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
}

impl PrefixCache {
    /// A cache of at most `capacity` blocks.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity, stamp: 0, stamps: HashMap::new(), order: BTreeMap::new() }
    }

    /// How many blocks from the start of `chain` are held. Marks them used.
    pub fn hit(&mut self, chain: &[u64]) -> usize {
        let held = chain.iter().take_while(|h| self.stamps.contains_key(h)).count();
        self.touch(&chain[..held]);
        held
    }

    /// Holds all blocks of `chain`, evicting others where needed.
    pub fn insert(&mut self, chain: &[u64]) {
        self.touch(&chain[..chain.len().min(self.capacity)]);
        while self.stamps.len() > self.capacity {
            if let Some((_, oldest)) = self.order.pop_first() {
                self.stamps.remove(&oldest);
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.stamps.clear();
        self.order.clear();
    }

    /// Number of blocks held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stamps.len()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    fn touch(&mut self, chain: &[u64]) {
        for hash in chain.iter().rev() {
            self.stamp += 1;
            if let Some(old) = self.stamps.insert(*hash, self.stamp) {
                self.order.remove(&old);
            }
            self.order.insert(self.stamp, *hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_count_from_the_start_only() {
        let mut cache = PrefixCache::new(10);
        cache.insert(&[1, 2, 3]);
        assert_eq!(cache.hit(&[1, 2, 9, 3]), 2);
        assert_eq!(cache.hit(&[2, 3]), 2);
        assert_eq!(cache.hit(&[9, 1]), 0);
        cache.clear();
        assert_eq!((cache.hit(&[1]), cache.len(), cache.is_empty()), (0, 0, true));
    }

    #[test]
    fn the_least_recently_used_chain_goes_first_and_its_end_before_its_start() {
        let mut cache = PrefixCache::new(4);
        cache.insert(&[1, 2]);
        cache.insert(&[3, 4]);
        assert_eq!(cache.hit(&[1, 2]), 2);
        cache.insert(&[5]);
        assert_eq!(cache.hit(&[3, 4]), 1, "the end of the older chain is gone");
        assert_eq!(cache.hit(&[1, 2]), 2);
        assert_eq!(cache.len(), 4);
    }

    #[test]
    fn a_chain_longer_than_the_cache_keeps_its_start() {
        let mut cache = PrefixCache::new(2);
        cache.insert(&[1, 2, 3]);
        assert_eq!((cache.hit(&[1, 2, 3]), cache.len()), (2, 2));
        let mut none = PrefixCache::new(0);
        none.insert(&[1]);
        assert_eq!(none.hit(&[1]), 0);
    }
}
