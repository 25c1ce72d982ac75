//! Commands and replies, as the scripts have them.

use super::domain::{IncId, Leaf, ScopeId, Time};

/// A generation as the sender knows it; 0: none.
pub type Known = u16;

/// One script call.
#[derive(Clone, Debug)]
pub struct Command {
    pub inc: IncId,
    pub known: Known,
    pub stall: Time,
    pub op: Op,
}

#[derive(Clone, Debug)]
pub enum Op {
    Join(super::join::Join),
    Beat(super::beat::Beat),
    Set(super::set::Set),
}

/// A line of a JOIN: what the incarnation holds.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub leaf: Leaf,
    pub n: u16,
    pub idle: u16,
}

/// A line of a BEAT: what the store should hold.
#[derive(Clone, Copy, Debug)]
pub struct Tabled {
    pub leaf: Leaf,
    pub n: u16,
    pub idle: u16,
    pub v: u16,
}

/// A line of a SET: the configuration of a scope.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub scope: ScopeId,
    /// [`UNLIMITED`](super::UNLIMITED) or a number of slots.
    pub cap: i32,
    pub rev: u32,
    pub floor: i32,
}

/// A line of a SET: what the incarnation wants to hold of a leaf.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub leaf: Leaf,
    pub need: u16,
    pub want: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    Ok,
    Full,
    Spare,
    Learning,
}

/// What a SET answers for one entry. `at`: index (from 1) of the blocking scope, or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub n: u16,
    pub code: Code,
    pub at: u8,
}

/// What a SET answers for one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    pub cap: i32,
    pub total: i32,
    pub idle: i32,
    pub pressed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Joined {
        gen_: u16,
        learning: Time,
        floor_learning: Time,
        /// What the server's clock shows.
        now: Time,
    },
    Beaten {
        learning: Time,
        floor_learning: Time,
        pressed: Vec<ScopeId>,
    },
    Held {
        learning: Time,
        grants: Vec<Grant>,
        scopes: Vec<Shown>,
    },
    Stale,
    NewGen,
    NoLease,
    /// `SGTYPE`: somebody else's data.
    Foreign,
}

/// What is published on the domain's channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Somebody began to wait in the scope.
    Pressure(ScopeId),
    /// Something came free where somebody waits.
    Free(ScopeId),
}
