//! One connection to the store: how it is made, how a command goes over it, what errors mean.
//!
//! There is no queue behind it: a command is sent at once over a connection that stands, or it is
//! not sent. A command that takes longer than the operation timeout is given up, and its answer,
//! if one still comes, reaches nobody.

mod call;
mod connect;
mod fault;
mod hints;
mod sentinel;
mod target;

pub(super) use call::{Confirm, Link};
pub(super) use connect::{Connected, connect};
pub(super) use fault::Fault;
pub(super) use hints::{Heard, Hints};
pub(super) use target::Target;
