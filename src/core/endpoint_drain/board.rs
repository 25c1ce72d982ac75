//! What lies on the board: the meaning of the script `board.lua`, and all of it for one process.

use super::{Dispatch, Entry, Share, View};
use crate::core::ids::{EndpointId, ReplicaId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Words that let serve are remembered so long, to outlive whoever may still hold an older order.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// The words and the shares of all replicas.
#[derive(Clone, Debug, Default)]
pub struct Board {
    words: BTreeMap<EndpointId, (Entry, Instant)>,
    shares: BTreeMap<(ReplicaId, EndpointId), (u64, Share)>,
}

impl Board {
    /// Take what `who` says and say what there is. Of one replica's shares, only those of a
    /// higher `number` replace others. `live`: who has a lease, if that is known; whoever has
    /// none is forgotten.
    pub fn exchange(
        &mut self,
        (who, number): (Option<&ReplicaId>, u64),
        dispatch: &Dispatch,
        live: Option<Vec<ReplicaId>>,
        now: Instant,
    ) -> View {
        for entry in &dispatch.entries {
            let known = self.words.get(&entry.endpoint).map_or(0, |(known, _)| known.version);
            if entry.version > known && entry.base >= known {
                let since = now.checked_sub(entry.age).unwrap_or(now);
                self.words.insert(entry.endpoint.clone(), (entry.clone(), since));
            }
        }
        self.words.retain(|_, (entry, since)| {
            entry.stance.drains() || now.saturating_duration_since(*since) < REMEMBERED
        });
        if let Some(who) = who {
            for share in &dispatch.shares {
                let place = (who.clone(), share.endpoint.clone());
                if self.shares.get(&place).is_none_or(|(before, _)| *before < number) {
                    self.shares.insert(place, (number, share.clone()));
                }
            }
        }
        let Self { words, shares } = self;
        shares.retain(|(replica, endpoint), (_, share)| {
            let lives = live.as_ref().is_none_or(|live| live.contains(replica));
            let word = words.get(endpoint);
            lives
                && word
                    .is_some_and(|(word, _)| word.stance.drains() && word.version <= share.version)
        });
        View {
            me: who.cloned(),
            live,
            entries: words.values().map(|(entry, since)| aged(entry, *since, now)).collect(),
            shares: shares
                .iter()
                .map(|((replica, _), (_, share))| (replica.clone(), share.clone()))
                .collect(),
        }
    }
}

fn aged(entry: &Entry, since: Instant, now: Instant) -> Entry {
    Entry { age: now.saturating_duration_since(since), ..entry.clone() }
}
