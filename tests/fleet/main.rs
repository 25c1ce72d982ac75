//! Several replicas of the built binary with one cap: a real Redis, a relay before it for each
//! replica, and an engine that records how many requests of each tenant ran at once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed assumption fails the test; measurements are printed"
)]

mod access;
mod clocks;
mod cost;
mod crash;
mod figures;
mod forms;
mod limits;
mod memory;
mod outage;
mod panic;
mod rig;
mod sharing;
mod storm;

#[path = "../quota/support/cluster.rs"]
mod cluster;
#[path = "../quota/support/relay.rs"]
mod relay;
#[path = "../quota/support/server.rs"]
mod server;
#[path = "../it/support/mod.rs"]
#[allow(unused_imports, reason = "what one suite needs another does not")]
mod support;
