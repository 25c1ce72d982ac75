//! Exact slots over all replicas, in one Redis or Valkey.
//!
//! The rules are those of [`replica`](crate::quota::replica), which is pure; the data and what the
//! scripts do with it are in docs/quota-protocol.md; what operators see and set is in
//! docs/quota.md. Here is what connects the two:
//!
//! ```text
//!   acquire, drop of a slot ──▶ shared: the machine behind a short lock ◀── fence: the deadline
//!                                  ▲ what is due, answers, hints
//!                               owner: one task ──▶ link: one connection ──▶ wire: bytes
//! ```
//!
//! A request that finds an unused slot here starts without an await. A slot's drop changes numbers
//! in memory and wakes the owner; it never blocks and does no I/O.

mod board;
mod clock;
mod fence;
mod journal;
mod link;
mod owner;
mod shared;
mod slot;
mod store;
#[cfg(test)]
mod tests;
mod wire;

pub use board::RedisBoard;
pub use store::{Hooks, RedisStore};
