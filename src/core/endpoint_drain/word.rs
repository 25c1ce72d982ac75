//! One word on one endpoint, and how it meets what the board has.

use super::Entry;
use crate::core::ids::EndpointId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a word says of its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stance {
    /// Drain: somebody ordered it.
    Ordered,
    /// Drain: the engine itself said that it shuts down, or the orchestrator that it terminates.
    Answered,
    /// Serve: an operator said so.
    Restored,
    /// Serve: a new process is there.
    Replaced,
}

impl Stance {
    /// Every stance.
    pub const ALL: [Self; 4] = [Self::Ordered, Self::Answered, Self::Restored, Self::Replaced];

    /// Whether the endpoint may not be chosen.
    pub const fn drains(self) -> bool {
        matches!(self, Self::Ordered | Self::Answered)
    }

    /// The name on the board and in `cause`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Answered => "answered",
            Self::Restored => "restored",
            Self::Replaced => "replaced",
        }
    }

    /// The stance of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stance| stance.as_str() == name)
    }
}

/// A word as this replica holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub version: u64,
    /// The highest version that is known to be, or have been, on the board, and whose word it was.
    pub base: (u64, Arc<str>),
    pub by: Arc<str>,
    pub stance: Stance,
    pub since: Instant,
    pub wait: Duration,
    /// The board was seen to have it, and not since to have lost it.
    pub posted: bool,
}

impl Word {
    /// The board's word, heard at `received`.
    pub(super) fn of(entry: &Entry, received: Instant) -> Self {
        Self {
            version: entry.version,
            base: (entry.version, Arc::clone(&entry.by)),
            by: Arc::clone(&entry.by),
            stance: entry.stance,
            since: received.checked_sub(entry.age).unwrap_or(received),
            wait: entry.wait,
            posted: true,
        }
    }

    /// For the board.
    pub(super) fn entry(&self, endpoint: &EndpointId, now: Instant) -> Entry {
        Entry {
            endpoint: endpoint.clone(),
            version: self.version,
            base: self.base.0,
            by: Arc::clone(&self.by),
            stance: self.stance,
            age: now.saturating_duration_since(self.since),
            wait: self.wait,
        }
    }

    /// Meet what the board has; `true`: the board's word is followed from now on.
    pub(super) fn meet(&mut self, entry: Option<&Entry>, received: Instant) -> bool {
        let Some(entry) = entry else {
            // That it serves need not be said of an endpoint that nobody speaks of.
            self.posted = !self.stance.drains();
            return false;
        };
        if entry.version == self.version && entry.by == self.by {
            (self.posted, self.base) = (true, (self.version, Arc::clone(&self.by)));
            return false;
        }
        let superseded = entry.version == self.base.0 && entry.by == self.base.1;
        if superseded || entry.version < self.base.0 {
            self.posted = false;
            return false;
        }
        let theirs = Self::of(entry, received);
        if !self.posted && self.outlives(&theirs) {
            if theirs.stance == Stance::Ordered && self.stance == Stance::Ordered {
                let ends = self.ends().max(theirs.ends());
                self.since = self.since.max(theirs.since);
                self.wait = ends.saturating_duration_since(self.since);
            }
            self.base = (entry.version, Arc::clone(&entry.by));
            self.version = self.version.max(entry.version) + 1;
            return false;
        }
        *self = theirs;
        true
    }

    /// Whether this word, which the board lacks, is to be said above the one it has: if it was
    /// said later. Two orders become one, as late as the later and with the time of the longer. Of
    /// two notices that the engine shuts down the first is kept: its deadline counts from there.
    fn outlives(&self, theirs: &Self) -> bool {
        match (self.stance, theirs.stance) {
            (Stance::Ordered, Stance::Ordered) => {
                self.since > theirs.since || self.ends() > theirs.ends()
            }
            (Stance::Answered, Stance::Answered) => false,
            _ => self.since > theirs.since,
        }
    }

    /// When the engine is told to stop, at the latest.
    pub(super) fn ends(&self) -> Instant {
        self.since + self.wait
    }

    /// When what runs there is to be cut.
    pub(super) fn cut_at(&self, shutdown: Option<Duration>, margin: Duration) -> Option<Instant> {
        let left = shutdown?.saturating_sub(margin);
        match self.stance {
            Stance::Ordered => Some(self.ends() + left),
            Stance::Answered => Some(self.since + left),
            Stance::Restored | Stance::Replaced => None,
        }
    }
}
