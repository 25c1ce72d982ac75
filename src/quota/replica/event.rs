//! What the machine tells its owner.

use super::book::{LeafId, ScopeId};
use super::command::Class;
use super::leaf::Ticket;
use crate::core::quota::{FullScope, StoreError, StoreFault};
use std::time::Duration;

/// A slot in use. Give it back with [`Machine::release`](super::Machine::release).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lot {
    pub(super) class: Class,
    pub(super) leaf: LeafId,
    /// Grows when streams are cut: their slots are gone with them.
    pub(super) epoch: u64,
}

/// The immediate answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Granted(Lot),
    /// An [`Event`] with this ticket follows, unless it is forgotten.
    Waits(Ticket),
    /// Only to [`Machine::wait`](super::Machine::wait): this level had no room a moment ago, and
    /// nothing was heard since.
    Full(FullScope),
    Failed(StoreError),
}

/// Something that happened.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    Granted(Ticket, Lot),
    /// No room in this level, by an answer to a question that covered the ticket.
    Refused(Ticket, FullScope),
    Failed(Ticket, StoreError),
    /// A slot of the scope may have come free.
    Room(ScopeId),
    Notice(Notice),
}

/// Something for the log, and for whoever cuts streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The lease ran out while so many requests ran; `cut`: they must end now.
    Fenced { class: Class, running: u32, cut: bool },
    /// A new incarnation is registered; `claimed` slots were asserted.
    Joined { class: Class, claimed: u32, learning: Duration },
    /// The store lost its memory, or found it damaged.
    MemoryLost { class: Class },
    /// The store does not answer.
    Away(StoreFault),
    /// It answers again.
    Back,
}
