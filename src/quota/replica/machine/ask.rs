//! A request asks for a slot (R2, R3, R16).

use super::Machine;
use crate::config::WhenUnavailable;
use crate::core::quota::{FullScope, SlotPath, StoreError, StoreFault};
use crate::quota::replica::book::LeafId;
use crate::quota::replica::event::{Asked, Event, Lot};
use crate::quota::replica::leaf::{Manner, Ticket, Waiter};
use crate::quota::replica::params::Moment;

impl Machine {
    /// One request asks for a slot on `path`, now or not at all.
    pub fn ask(&mut self, path: &SlotPath, now: Moment) -> Asked {
        self.come(path, Manner::Asks { full: None }, now)
    }

    /// One request waits for a slot on `path` until there is one, and is told when another level
    /// than `told` has no room.
    pub fn wait(&mut self, path: &SlotPath, told: Option<FullScope>, now: Moment) -> Asked {
        self.come(path, Manner::Queues { told }, now)
    }

    fn come(&mut self, path: &SlotPath, manner: Manner, now: Moment) -> Asked {
        self.watch(now);
        let leaf = self.enter(path);
        let away = self.away(now);
        let policy = self.common.params.when_unavailable;
        if away && policy == WhenUnavailable::Closed {
            return Asked::Failed(self.unavailable());
        }
        if let Some(lot) = self.ordinary.start_at_once(leaf, &mut self.common, now) {
            return Asked::Granted(lot);
        }
        if let Some(lot) = self.without_store(leaf, away, now) {
            return Asked::Granted(lot);
        }
        if away {
            return Asked::Failed(self.unavailable());
        }
        if let Some(scope) = self.untold(leaf, manner, now) {
            return Asked::Full(scope);
        }
        self.tickets += 1;
        let ticket = Ticket { number: self.tickets, leaf };
        let until = now + self.common.params.patience();
        self.ordinary.wait(leaf, Waiter { ticket, until, manner }, &self.common, now);
        self.common.stirred = true;
        Asked::Waits(ticket)
    }

    /// What the last answer said to those who queue, if this one was not told so.
    fn untold(&self, leaf: LeafId, manner: Manner, now: Moment) -> Option<FullScope> {
        let Manner::Queues { told } = manner else { return None };
        let block = self.ordinary.block(leaf, &self.common, now)?;
        Some(self.common.book.scope(block.scope).kind).filter(|scope| told != Some(*scope))
    }

    /// The leaf of a path, with the caps the path brought.
    fn enter(&mut self, path: &SlotPath) -> LeafId {
        let (leaf, changes) = self.common.book.leaf(path);
        // Every class has a place for every leaf.
        self.ordinary.leaf_mut(leaf);
        if let Some(floor) = &mut self.floor {
            floor.leaf_mut(leaf);
        }
        for change in changes {
            let changed = change.lowered.or(change.raised);
            self.common.stirred |= changed.is_some();
            let touched = self.ordinary.ids().filter(|id| {
                changed.is_some_and(|scope| self.common.book.path(*id).contains(&scope))
            });
            for id in touched.collect::<Vec<_>>() {
                if change.lowered.is_some() {
                    self.ordinary.shed(id);
                } else {
                    let leaf = self.ordinary.leaf_mut(id);
                    (leaf.again, leaf.block) = (None, None);
                }
            }
            if let Some(scope) = change.raised {
                self.common.events.push(Event::Room(scope));
            }
        }
        leaf
    }

    /// A slot by the policy for when the store is away (R15, R16).
    fn without_store(&mut self, leaf: LeafId, away: bool, now: Moment) -> Option<Lot> {
        let Self { ordinary, floor, common, .. } = self;
        match common.params.when_unavailable {
            WhenUnavailable::Escrow if away || !ordinary.serving(now) => {
                floor.as_mut()?.start_at_once(leaf, common, now)
            }
            WhenUnavailable::Open if away => ordinary.start_unasked(leaf, common),
            WhenUnavailable::Escrow | WhenUnavailable::Closed | WhenUnavailable::Open => None,
        }
    }

    /// The store is away: nobody waits for it.
    pub(super) fn dismiss(&mut self, now: Moment) {
        let error = self.unavailable();
        for id in self.ordinary.ids() {
            for waiter in self.ordinary.leaf_mut(id).dismiss(now) {
                let event = match self.without_store(id, true, now) {
                    Some(lot) => Event::Granted(waiter.ticket, lot),
                    None => Event::Failed(waiter.ticket, error.clone()),
                };
                self.common.events.push(event);
            }
        }
    }

    /// Those whose verdict is due, and those whose time is over although the store answers.
    pub(super) fn expire(&mut self, now: Moment) {
        for id in self.ordinary.ids() {
            while let Some((ticket, scope)) = self.ordinary.leaf_mut(id).refuse_due(now) {
                self.common.events.push(Event::Refused(ticket, scope));
            }
            while let Some(ticket) = self.ordinary.leaf_mut(id).expire(now) {
                let learning = self.ordinary.leaf_mut(id).learning;
                let error = if learning { StoreError::Learning } else { StoreError::Timeout };
                self.common.events.push(Event::Failed(ticket, error));
            }
        }
    }

    fn unavailable(&self) -> StoreError {
        match self.health.last() {
            Some(StoreFault::Timeout) | None => StoreError::Timeout,
            Some(fault) => StoreError::Unreachable(fault.as_str().to_owned()),
        }
    }
}
