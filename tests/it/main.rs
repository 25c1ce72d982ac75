//! End-to-end tests: the built `streamgate` binary between real clients and simulated engines,
//! over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed assumption fails the test; measurements are printed"
)]

mod bad_input;
mod bodies;
mod broken;
mod cancel;
mod discovery;
mod drain;
mod early;
mod endpoint_drain;
mod failover;
mod goodbye;
mod headers;
mod identity;
mod last_bytes;
mod loads;
mod observe;
mod panic;
mod queue;
#[path = "../quota/support/server.rs"]
mod redis_server;
mod reload;
mod sdk;
mod shortage;
mod slots;
mod slow;
mod startup;
mod storm;
mod support;
mod tenants;
mod timeouts;
mod transcripts;
mod uploads;
mod usage;
mod wires;
