//! What is asked of the store, and what the answers say (docs/quota-protocol.md, section 3).

use super::book::{LeafId, ScopeId};
use super::params::Moment;
use std::sync::Arc;
use std::time::Duration;

/// Ordinary slots, or floors with their long lease. Each is an incarnation of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Ordinary,
    Floor,
}

/// A command to send, and what its answer will be judged by.
#[derive(Clone, Debug)]
pub struct Call {
    pub token: Token,
    pub command: Command,
}

/// One command. Names are those of the store.
#[derive(Clone, Debug)]
pub enum Command {
    Join(Join),
    Beat(Beat),
    Set(Set),
    Look,
}

impl Command {
    /// Whether the answer may let this replica believe in more, or for longer, than before.
    pub fn raises(&self) -> bool {
        match self {
            Self::Join(_) | Self::Beat(_) => true,
            Self::Set(set) => set.raises,
            Self::Look => false,
        }
    }
}

/// Register an incarnation with everything it holds.
#[derive(Clone, Debug)]
pub struct Join {
    pub inc: Arc<str>,
    /// The generation last known; empty: none.
    pub known: Arc<str>,
    /// Names the generation that this command may found.
    pub nonce: Arc<str>,
    pub version: u64,
    pub force: bool,
    pub claims: Vec<Claim>,
}

/// A line of a JOIN.
#[derive(Clone, Debug)]
pub struct Claim {
    pub leaf: Arc<str>,
    pub n: u32,
    pub idle: u32,
}

/// Renew the lease; the store compares its books with the table.
#[derive(Clone, Debug)]
pub struct Beat {
    pub inc: Arc<str>,
    pub known: Arc<str>,
    /// Versions up to it are settled.
    pub settled: u64,
    /// Its own version, the highest sent so far.
    pub version: u64,
    /// Everything the store may hold for this incarnation; `None`: renew only.
    pub table: Option<Vec<Tabled>>,
}

/// A line of a BEAT.
#[derive(Clone, Debug)]
pub struct Tabled {
    pub leaf: Arc<str>,
    pub n: u32,
    pub idle: u32,
    pub version: u64,
}

/// Hold so many slots of these leaves.
#[derive(Clone, Debug)]
pub struct Set {
    pub inc: Arc<str>,
    pub known: Arc<str>,
    pub version: u64,
    pub scopes: Vec<Scoped>,
    pub entries: Vec<Ask>,
    pub raises: bool,
}

/// A line of a SET: the configuration of a scope.
#[derive(Clone, Debug)]
pub struct Scoped {
    pub name: Arc<str>,
    pub cap: Option<u32>,
    /// On the store's clock.
    pub revision: u64,
    pub floor: u32,
}

/// A line of a SET: what this incarnation wants of a leaf.
#[derive(Clone, Debug)]
pub struct Ask {
    pub leaf: Arc<str>,
    pub need: u32,
    pub want: u32,
}

/// An answer of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Joined {
        generation: Arc<str>,
        learning: Learning,
        /// What the store's clock shows, as the time since its epoch.
        clock: Duration,
    },
    Beaten {
        learning: Learning,
        /// Scopes under pressure.
        pressed: Vec<Arc<str>>,
    },
    Held {
        learning: Duration,
        grants: Vec<Grant>,
        scopes: Vec<Shown>,
    },
    Seen(Fleet),
    /// A newer command was executed.
    Stale,
    /// The store lost its memory, or knows another generation.
    NewGeneration,
    /// The lease lapsed, or claims cannot be true.
    NoLease,
}

/// How long the store only accepts what was held before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learning {
    pub ordinary: Duration,
    pub floor: Duration,
}

impl Learning {
    /// Of one class.
    pub fn of(&self, class: Class) -> Duration {
        match class {
            Class::Ordinary => self.ordinary,
            Class::Floor => self.floor,
        }
    }
}

/// What a SET did about one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub n: u32,
    pub code: Code,
    /// Index of the scope that had no room.
    pub at: Option<usize>,
}

/// Why an entry has what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// At least what it needs.
    Ok,
    /// A scope has no room, and nobody holds an unused slot of it.
    Full,
    /// A scope has no room, but unused slots are held; their owners were asked.
    Spare,
    /// The store does not know yet what is free.
    Learning,
}

/// What a SET says about one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The cap in force.
    pub cap: Option<u32>,
    pub total: u32,
    pub idle: u32,
    pub pressed: bool,
}

/// What the whole fleet holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    pub learning: Learning,
    /// Incarnations with a live lease, floors not counted.
    pub replicas: u64,
    pub scopes: Vec<FleetScope>,
}

/// A scope as the fleet holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetScope {
    pub name: Arc<str>,
    pub cap: Option<u32>,
    pub total: u32,
    pub idle: u32,
}

/// What a call's answer is judged by (R4).
#[derive(Clone, Debug)]
pub struct Token {
    pub(super) class: Class,
    pub(super) life: u64,
    pub(super) generation: Option<Arc<str>>,
    /// Read before the command was sent.
    pub(super) at: Moment,
    pub(super) kind: Kind,
}

/// What a JOIN claimed of a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimed {
    pub leaf: LeafId,
    pub n: u32,
    pub idle: u32,
}

/// What a BEAT said of a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    pub leaf: LeafId,
    pub n: u32,
    pub idle: u32,
    pub version: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Join { version: u64, claims: Vec<Claimed> },
    Beat { settled: u64, table: Vec<Listed> },
    Set { version: u64, leaves: Vec<LeafId>, scopes: Vec<ScopeId> },
    Look,
}
