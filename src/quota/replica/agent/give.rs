//! A slot comes free: who has it next (R2, R12, R13).

use super::Agent;
use crate::quota::replica::book::{LeafId, ScopeId};
use crate::quota::replica::command::Class;
use crate::quota::replica::common::Common;
use crate::quota::replica::event::{Event, Lot};
use crate::quota::replica::params::Moment;
use std::time::Duration;

/// How long a slot may take from its end at one replica until another has heard of it and asked:
/// two messages, with room for a busy machine.
pub(super) const ON_ITS_WAY: Duration = Duration::from_millis(15);

impl Agent {
    /// R12: a request ended. Whoever waits here goes first, unless it is the others' turn; else the
    /// slot stays for the next one, or is given up at once if others need it.
    pub fn release(&mut self, lot: Lot, common: &mut Common, now: Moment) {
        if !self.owns(lot) {
            return;
        }
        let id = lot.leaf;
        self.leaf_mut(id).stop(now);
        common.book.run(id, false, 1);
        if self.is_others_turn(id, common, now) {
            self.offer(id, common, now);
        } else if !common.tight(id) {
            self.leaf_mut(id).turn.keep(now);
            self.start_waiting(id, common, now);
        }
        // What goes back with the next SET may be used until that leaves; but if it cannot leave
        // before an answer comes, others would wait the longer.
        let tight = common.tight(id);
        let leaf = &self.leaves[id.0];
        if leaf.asked > 0 || tight || self.deadline.is_none() {
            self.trim(id, common, now);
        }
        common.ring(id);
        // A leaf that others need, or that may soon be idle, has something due; any other waits
        // for the beat.
        let leaf = &self.leaves[id.0];
        let gives = leaf.shed || (leaf.busy() < leaf.sure.n && common.eager(id, now));
        common.stirred |= gives || leaf.idle_since.is_some();
    }

    /// Slots of the leaf stayed here for long enough, and somebody else may wait for one: another
    /// replica, if this one has more than its share, or another leaf.
    fn is_others_turn(&self, id: LeafId, common: &Common, now: Moment) -> bool {
        let leaf = &self.leaves[id.0];
        let may = self.class == Class::Ordinary && self.joined() && leaf.asked == 0 && !leaf.dirty;
        may && leaf.turn.is_over(common.alive(), now)
            && common.book.path(id).iter().any(|scope| {
                common.book.scope(*scope).pressed(now)
                    && (self.has_more_than_its_share(*scope, common)
                        || self.another_waits(id, *scope, common))
            })
    }

    /// Whoever has none of a scope leaves more than a share to some of the others.
    fn has_more_than_its_share(&self, scope: ScopeId, common: &Common) -> bool {
        let in_scope = self.ids().filter(|id| common.book.path(*id).contains(&scope));
        let own = in_scope.map(|id| u64::from(self.leaves[id.0].sure.n)).sum::<u64>();
        common.book.scope(scope).cap.is_some_and(|cap| own > u64::from(cap) / common.alive())
    }

    /// Somebody waits for the scope in another leaf of this replica.
    fn another_waits(&self, id: LeafId, scope: ScopeId, common: &Common) -> bool {
        self.ids().any(|other| {
            let leaf = &self.leaves[other.0];
            other != id && !leaf.nobody_waits() && common.book.path(other).contains(&scope)
        })
    }

    /// What is unused goes back although somebody may wait here, who lets the others ask first.
    fn offer(&mut self, id: LeafId, common: &Common, now: Moment) {
        /// Until the store's answer says from when on the others know.
        const UNHEARD: Duration = Duration::from_millis(100);
        self.shed(id);
        for other in self.ids() {
            let path = common.book.path(other);
            if common.book.path(id).iter().any(|scope| path.contains(scope)) {
                self.leaf_mut(other).hear(now, now);
            }
        }
        let alive = common.alive();
        let leaf = self.leaf_mut(id);
        leaf.turn.pass();
        if !leaf.nobody_waits() {
            leaf.turn.offer(alive);
            leaf.yields_until = Some(now + UNHEARD);
        }
    }

    /// Those who wait start while slots are held.
    pub(super) fn start_waiting(&mut self, id: LeafId, common: &mut Common, now: Moment) {
        if !self.serving(now) {
            return;
        }
        let lot = self.lot(id);
        while let Some(ticket) = self.leaf_mut(id).start_next() {
            common.book.run(id, true, 1);
            common.events.push(Event::Granted(ticket, lot));
        }
    }

    /// Unused slots that others need are not used any more; the next SET tells the store. An
    /// incarnation without a lease has no unused slots at all.
    pub(super) fn trim(&mut self, id: LeafId, common: &Common, now: Moment) {
        let never_granted = self.deadline.is_none();
        let leaf = self.leaf_mut(id);
        if never_granted {
            leaf.held = leaf.running;
        } else if common.eager(id, now) {
            leaf.held = leaf.held.min(leaf.busy());
        }
    }

    /// R13: a cap was lowered; what is unused goes back before anything is asked for.
    pub fn shed(&mut self, id: LeafId) {
        let leaf = self.leaf_mut(id);
        leaf.held = leaf.running;
        leaf.shed = true;
    }
}
