//! One incarnation after another of one class of slots: what it holds, believes and has sent.
//!
//! ```text
//!            JOIN answered OK                    NEWGEN (R9)
//!   Joining ─────────────────▶ Serving ─────────────────────────▶ Joining again
//!      ▲  no generation,        generation,      no generation, deadline kept: what is held
//!      │  no deadline           deadline         is served until then
//!      │                           │                    │
//!      └───────────────────────────┴────────────────────┘
//!         fence (R11): the deadline passed, or the store says that the lease lapsed;
//!         a new incarnation that holds what still runs
//! ```

mod give;
mod plan;
mod send;
mod take;

use super::book::{LeafId, ScopeId};
use super::command::Class;
use super::common::Common;
use super::event::{Lot, Notice};
use super::leaf::{Block, Leaf, Manner, Ticket, Waiter};
use super::names;
use super::params::{Moment, Times};
use crate::config::OnFence;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Agent {
    pub class: Class,
    times: Times,
    inc: Arc<str>,
    /// Counts the incarnations.
    life: u64,
    /// Counts the fences that cut streams: slots of an earlier epoch are gone.
    epoch: u64,
    /// `None`: a JOIN is owed.
    generation: Option<Arc<str>>,
    /// The generation last known to this incarnation; empty: none.
    known: Arc<str>,
    /// `None`: this incarnation was never granted a lease.
    deadline: Option<Moment>,
    version: u64,
    /// The version of the JOIN that is not answered.
    joining: Option<u64>,
    /// Requests run that the store never granted (`when_unavailable: open`).
    unasked: bool,
    beating: bool,
    /// The last BEAT carried the table.
    tabled: bool,
    join_at: Moment,
    beat_at: Moment,
    /// Before that the store grants nothing new.
    learning_until: Moment,
    /// What the store's clock and ours showed when the last JOIN was answered (R19).
    clocks: (Duration, Moment),
    leaves: Vec<Leaf>,
}

impl Agent {
    pub fn new(class: Class, times: Times, common: &mut Common, now: Moment) -> Self {
        Self {
            class,
            times,
            inc: new_id(class, common),
            life: 1,
            epoch: 1,
            generation: None,
            known: "".into(),
            deadline: None,
            version: 0,
            joining: None,
            unasked: false,
            beating: false,
            tabled: false,
            join_at: now,
            beat_at: now,
            learning_until: Moment::ZERO,
            clocks: (Duration::ZERO, Moment::ZERO),
            leaves: Vec::new(),
        }
    }

    /// What is held may be used: the own deadline has not passed (R2).
    pub fn serving(&self, now: Moment) -> bool {
        self.deadline.is_some_and(|deadline| now < deadline)
    }

    /// When the fence is due, if nothing renews the lease.
    pub fn deadline(&self) -> Option<Moment> {
        self.deadline
    }

    /// It had a lease once and has none now.
    pub fn fenced(&self, now: Moment) -> bool {
        (self.life > 1 || self.deadline.is_some()) && !self.serving(now)
    }

    /// The name of this incarnation.
    pub fn incarnation(&self) -> &str {
        &self.inc
    }

    /// The store knows this incarnation.
    pub fn joined(&self) -> bool {
        self.generation.is_some()
    }

    /// The store does not know yet what is free.
    pub fn learning(&self, now: Moment) -> bool {
        now < self.learning_until || (!self.joined() && !self.known.is_empty())
    }

    /// A lot of this agent still stands for a slot; the streams of the others were cut.
    pub fn owns(&self, lot: Lot) -> bool {
        lot.epoch == self.epoch
    }

    /// Slots held, and requests on them.
    pub fn sums(&self) -> (u64, u64) {
        self.leaves.iter().fold((0, 0), |(held, running), leaf| {
            (held + u64::from(leaf.held), running + u64::from(leaf.running))
        })
    }

    /// Nothing is held, here or (as far as is known) in the store.
    pub fn is_empty(&self) -> bool {
        let empty = |leaf: &Leaf| leaf.held == 0 && leaf.sure.n == 0 && !leaf.dirty;
        self.leaves.iter().all(|leaf| empty(leaf) && leaf.asked == 0 && leaf.nobody_waits())
    }

    pub(super) fn leaf_mut(&mut self, id: LeafId) -> &mut Leaf {
        if self.leaves.len() <= id.0 {
            self.leaves.resize_with(id.0 + 1, Leaf::default);
        }
        &mut self.leaves[id.0]
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = LeafId> + use<> {
        (0..self.leaves.len()).map(LeafId)
    }

    fn lot(&self, leaf: LeafId) -> Lot {
        Lot { class: self.class, leaf, epoch: self.epoch }
    }

    /// R2: a request that starts without asking, if a held slot is unused and nobody waits.
    pub fn start_at_once(&mut self, id: LeafId, common: &mut Common, now: Moment) -> Option<Lot> {
        if !self.serving(now) || common.tight(id) {
            return None;
        }
        let leaf = self.leaf_mut(id);
        if !leaf.has_unused() || !leaf.nobody_waits() {
            return None;
        }
        leaf.start();
        common.book.run(id, true, 1);
        Some(self.lot(id))
    }

    /// R16, `open`: a request that starts although the store does not answer. It is claimed by
    /// force once the store does.
    pub fn start_unasked(&mut self, id: LeafId, common: &mut Common) -> Option<Lot> {
        if common.book.any(id, |scope| scope.cap.is_some_and(|cap| scope.running >= cap)) {
            return None;
        }
        let leaf = self.leaf_mut(id);
        leaf.held = leaf.held.max(leaf.running + 1);
        leaf.start();
        common.book.run(id, true, 1);
        self.generation = None;
        self.unasked = true;
        Some(self.lot(id))
    }

    /// One more waits. Who asks is asked for at once; who queues, when the last "full" is old.
    pub fn wait(&mut self, id: LeafId, waiter: Waiter, common: &Common, now: Moment) {
        let block = self.block(id, common, now).map(|block| block.until);
        let leaf = self.leaf_mut(id);
        match waiter.manner {
            Manner::Asks { .. } if !leaf.somebody_asks() => leaf.again = None,
            Manner::Queues { .. } if leaf.nobody_waits() => leaf.again = block,
            Manner::Asks { .. } | Manner::Queues { .. } => {}
        }
        leaf.wait(waiter);
    }

    /// The last answer was "full", a moment ago, and nothing was heard since.
    pub fn block(&self, id: LeafId, common: &Common, now: Moment) -> Option<Block> {
        let block = self.leaves[id.0].block.filter(|block| now < block.until)?;
        common.book.scope(block.scope).full().then_some(block)
    }

    /// A waiter gave up.
    pub fn forget(&mut self, ticket: Ticket, now: Moment) -> bool {
        self.leaf_mut(ticket.leaf).forget(ticket, now)
    }

    /// R11. `now` is only for the pace: the fence has no way back.
    pub fn fence(&mut self, common: &mut Common, now: Moment) {
        let cut = common.params.on_fence == OnFence::Cut;
        let (_, running) = self.sums();
        for id in self.ids() {
            let leaf = self.leaf_mut(id);
            if cut {
                let gone = std::mem::take(&mut leaf.running);
                common.book.run(id, false, gone);
            }
            self.leaf_mut(id).fence();
        }
        self.epoch += u64::from(cut);
        self.life += 1;
        self.inc = new_id(self.class, common);
        (self.generation, self.known, self.deadline) = (None, "".into(), None);
        (self.version, self.joining, self.beating, self.unasked) = (0, None, false, false);
        (self.join_at, self.learning_until) = (now, Moment::ZERO);
        let running = u32::try_from(running).unwrap_or(u32::MAX);
        common.stirred = true;
        common.notice(Notice::Fenced { class: self.class, running, cut });
    }

    /// R9: the store lost its memory.
    fn forget_generation(&mut self, common: &mut Common, now: Moment) {
        self.generation = None;
        self.join_at = now;
        common.notice(Notice::MemoryLost { class: self.class });
    }

    /// A slot of the scope came free where somebody waits: those who wait here ask now.
    pub fn ask_now(&mut self, scope: ScopeId, common: &Common, now: Moment) {
        for id in self.ids() {
            if common.book.path(id).contains(&scope) {
                self.leaf_mut(id).hear(now, now + give::ON_ITS_WAY);
            }
        }
    }

    /// When the time of the first waiter is over.
    pub fn first_until(&self) -> Option<Moment> {
        self.leaves.iter().filter_map(Leaf::first_until).min()
    }

    /// The store answers again: what was put off is due.
    pub fn resume(&mut self, now: Moment) {
        self.join_at = self.join_at.min(now);
        self.beat_at = self.beat_at.min(now);
    }
}

fn new_id(class: Class, common: &mut Common) -> Arc<str> {
    let prefix = match class {
        Class::Ordinary => "o",
        Class::Floor => "f",
    };
    names::random(prefix, &mut common.random)
}
