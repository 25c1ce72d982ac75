//! End-to-end tests: the built `streamgate` binary between real clients and simulated engines,
//! over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

mod broken;
mod cancel;
mod drain;
mod failover;
mod slots;
mod startup;
mod support;
mod timeouts;
mod transcripts;
