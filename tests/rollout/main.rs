//! Rollouts of real processes under load. The tests are the kubelet and the endpoint controller:
//! they take a pod out of its service with a delay, run its preStop, send SIGTERM, and SIGKILL
//! after the grace period. Clients behave as usual ones and try nothing twice.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed assumption fails the test; measurements are printed"
)]

mod client;
mod cluster;
mod engine;
mod engines;
mod gateways;
mod kubelet;
mod many;
mod pods;

#[path = "../it/support/mod.rs"]
#[allow(unused_imports, reason = "what one suite needs another does not")]
mod support;
