//! What is due, and when.

use super::Agent;
use crate::quota::replica::book::LeafId;
use crate::quota::replica::command::{Call, Class};
use crate::quota::replica::common::Common;
use crate::quota::replica::health::Health;
use crate::quota::replica::params::Moment;
use std::time::Duration;

/// A leaf that nobody used for so long is given back without waiting for the beat.
const IDLE: Duration = Duration::from_millis(250);
/// Leaves asked for in one SET; the others follow in the next.
const MOST_ENTRIES: usize = 200;

impl Agent {
    /// Everything that is due. `away`: only probes.
    pub fn plan(
        &mut self,
        health: &Health,
        away: bool,
        common: &mut Common,
        now: Moment,
        calls: &mut Vec<Call>,
    ) {
        if now < health.try_again() {
            return;
        }
        if !self.joined() {
            if self.joining.is_none() && now >= self.join_at {
                calls.push(self.join(common, now));
            }
            return;
        }
        let beats = !self.beating && now >= self.beat_at;
        if !away {
            let due = self.ids().filter(|id| self.is_due(*id, beats, common, now));
            let due: Vec<LeafId> = due.take(MOST_ENTRIES).collect();
            if !due.is_empty() {
                calls.push(self.set(&due, common, now));
            }
        }
        // After the SET, so that the table says that it is under way.
        if beats {
            calls.push(self.beat(common, now));
        }
    }

    /// When something is due next, given that commands can be sent.
    pub fn next(&self, away: bool, common: &Common, now: Moment) -> Option<Moment> {
        if !self.joined() {
            return self.joining.is_none().then_some(self.join_at);
        }
        let beat = (!self.beating).then_some(self.beat_at);
        let leaves = self.ids().filter(|_| !away).filter_map(|id| self.due_at(id, common, now));
        leaves.chain(beat).min()
    }

    fn is_due(&self, id: LeafId, beats: bool, common: &Common, now: Moment) -> bool {
        let leaf = &self.leaves[id.0];
        let want = self.want(id, common, now);
        // Those who wait have a time of their own.
        let moved = want < leaf.sure.n || (want > leaf.sure.n && leaf.nobody_waits());
        self.due_at(id, common, now).is_some_and(|at| at <= now)
            || (beats && leaf.asked == 0 && moved)
    }

    /// When the leaf needs a SET, apart from what the next beat brings along.
    fn due_at(&self, id: LeafId, common: &Common, now: Moment) -> Option<Moment> {
        let leaf = &self.leaves[id.0];
        if leaf.asked > 0 {
            return None;
        }
        if leaf.dirty {
            return Some(Moment::ZERO);
        }
        let asks = !leaf.nobody_waits() || self.lacks_floor(id, common, now);
        let asks = asks.then(|| leaf.ask_at());
        let gives = self.want(id, common, now) < leaf.sure.n;
        let gives = gives && (common.eager(id, now) || self.sheds(id, common));
        let confesses = leaf.owes_confession() && common.pressed(id, now);
        let gives = (gives || confesses).then_some(Moment::ZERO);
        let idles = leaf.idle_since.filter(|_| leaf.sure.n > 0 && self.class == Class::Ordinary);
        [asks, gives, idles.map(|since| since + IDLE)].into_iter().flatten().min()
    }

    fn lacks_floor(&self, id: LeafId, common: &Common, now: Moment) -> bool {
        self.class == Class::Floor && self.want(id, common, now) > self.leaves[id.0].sure.n
    }

    /// Only unused slots go back in the next SET; those who wait are not part of it.
    pub(super) fn sheds(&self, id: LeafId, common: &Common) -> bool {
        let leaf = &self.leaves[id.0];
        (leaf.shed || common.tight(id)) && leaf.sure.n > leaf.running
    }

    /// R12, R13, R15: what this incarnation should hold of the leaf.
    pub(super) fn want(&self, id: LeafId, common: &Common, now: Moment) -> u32 {
        let leaf = &self.leaves[id.0];
        if self.sheds(id, common) {
            return leaf.running;
        }
        let need = leaf.busy();
        if common.eager(id, now) {
            return need;
        }
        match self.class {
            Class::Ordinary if leaf.idle_since.is_some_and(|since| now >= since + IDLE) => need,
            Class::Ordinary => {
                let spare = leaf.usage.spare(need).min(common.most_spare(id));
                need.saturating_add(spare)
            }
            Class::Floor => {
                let floors = common.params.floors;
                need.max(floors.map_or(0, |floors| floors.per_replica))
            }
        }
    }
}
