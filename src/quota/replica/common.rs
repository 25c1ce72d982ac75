//! What both incarnations of a replica share.

use super::book::{Book, LeafId};
use super::event::{Event, Notice};
use super::params::{Moment, Params};
use rand::Rng;
use rand::rngs::StdRng;
use std::time::Duration;

/// Shortest and longest pause before those who wait ask again without a hint (R14).
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_millis(500));

/// Whoever queues looks for what no hint told of within this time, or a beat if that is less:
/// slots of the dead, and hints that were lost.
const LOOK_AGAIN: Duration = Duration::from_millis(750);

#[derive(Debug)]
pub(super) struct Common {
    pub params: Params,
    pub book: Book,
    pub random: StdRng,
    /// Replicas with a live lease, as last heard; 0: not heard yet.
    pub replicas: u64,
    /// No spare any more: the process is about to end.
    pub leaving: bool,
    /// Something may be due earlier than was said.
    pub stirred: bool,
    pub events: Vec<Event>,
}

impl Common {
    pub fn notice(&mut self, notice: Notice) {
        self.events.push(Event::Notice(notice));
    }

    /// Everybody who waits for a slot in one of the leaf's scopes may look.
    pub fn ring(&mut self, leaf: LeafId) {
        for scope in self.book.path(leaf) {
            self.events.push(Event::Room(*scope));
        }
    }

    /// From 0 to 1.
    pub fn chance(&mut self) -> f64 {
        self.random.random()
    }

    /// A beat, ± 10 %.
    pub fn jittered(&mut self, beat: Duration) -> Duration {
        beat.mul_f64(0.9 + 0.2 * self.chance())
    }

    /// When to ask again without a hint.
    pub fn ask_again(&mut self, now: Moment) -> Moment {
        now + ASK_AGAIN.0 + (ASK_AGAIN.1 - ASK_AGAIN.0).mul_f64(self.chance())
    }

    /// When those who queue ask again without a hint, so that the pressure stays. Who `holds`
    /// slots of the leaf has others to wait for, and only keeps the pressure.
    pub fn queue_again(&mut self, holds: bool, now: Moment) -> Moment {
        let share = if holds { 1.4 + 0.4 * self.chance() } else { 0.8 + 0.2 * self.chance() };
        now + self.params.times.beat.min(LOOK_AGAIN).mul_f64(share)
    }

    /// Unused slots of the leaf must go back at once: somebody waits in one of its scopes, or one
    /// has no room (R12, R13).
    pub fn eager(&self, leaf: LeafId, now: Moment) -> bool {
        self.leaving
            || self.book.any(leaf, |scope| scope.pressed(now) || scope.full() || scope.tight())
    }

    /// Somebody waits in one of the leaf's scopes.
    pub fn pressed(&self, leaf: LeafId, now: Moment) -> bool {
        self.book.any(leaf, |scope| scope.pressed(now))
    }

    /// Unused slots of the leaf must not be used, though they are held.
    pub fn tight(&self, leaf: LeafId) -> bool {
        self.book.any(leaf, super::book::Scope::tight)
    }

    /// Replicas that are alive, as last heard.
    pub fn alive(&self) -> u64 {
        /// Assumed before the fleet was heard of.
        const UNHEARD: u64 = 2;
        if self.replicas == 0 { UNHEARD } else { self.replicas }
    }

    /// The most spare that one replica should wish of the leaf: no cap is shared out by more than
    /// half among the replicas that are alive.
    pub fn most_spare(&self, leaf: LeafId) -> u32 {
        /// Where nothing has a cap.
        const MOST: u32 = 1024;
        let share = u32::try_from(self.alive().saturating_mul(2)).unwrap_or(u32::MAX);
        let caps = self.book.path(leaf).iter().filter_map(|scope| self.book.scope(*scope).cap);
        caps.map(|cap| cap / share).min().unwrap_or(MOST).min(MOST)
    }
}
