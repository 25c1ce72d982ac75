//! The replica's side of the quota protocol (docs/quota-protocol.md, section 4) as a state machine:
//! no I/O, no clock, chance from a seed. Whoever owns a [`Machine`] tells it what happened and at
//! what time, and sends what [`Machine::poll`] says.
//!
//! What is guaranteed, whatever the order, loss or delay of calls and answers:
//! * While `now` is before an incarnation's deadline, no more requests run on its slots than the
//!   store has granted to it. The deadline comes from the time before the request for the lease.
//! * A waiter is refused as "full" only by an answer of the store to a call that covered it.
//! * A call without an answer grants nothing; it is followed by the same absolute number under the
//!   next version.
//! * What is given up is not used any more from the moment the command is made.
//!
//! | file | what |
//! |---|---|
//! | `machine` | a request asks, a slot comes back, commands and answers, status |
//! | `agent` | one class of slots: what is held, sent and believed; fences |
//! | `leaf` | one leaf: held, running, who waits |
//! | `book` | names, caps, what the store said of each scope |
//! | `health` | the circuit breaker |
//! | `usage` | how much spare is worth holding |
//! | `turn` | how long slots stay here while others wait too |
//! | `params` | constants; `command`, `event` what goes out and in |

mod agent;
mod book;
mod command;
mod common;
mod event;
mod health;
mod leaf;
mod machine;
mod names;
mod params;
#[cfg(test)]
mod tests;
mod turn;
mod usage;

pub use book::ScopeId;
pub use command::{
    Answer, Ask, Beat, Call, Claim, Class, Code, Command, Fleet, FleetScope, Grant, Join, Learning,
    Scoped, Set, Shown, Tabled, Token,
};
pub use event::{Asked, Event, Lot, Notice};
pub use leaf::Ticket;
pub use machine::{Hint, Machine};
pub use params::{Floors, Moment, Params, SHORTEST_LEASE, Times};
