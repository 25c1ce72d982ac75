//! The quota store over a real Redis: replicas in one process, faults in between.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

mod access;
mod cost;
mod crash;
mod drain_board;
mod fleet;
mod forms;
mod memory_loss;
mod outage;
mod policy;
mod queue;
mod support;
