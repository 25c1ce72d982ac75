//! The load generator against the simulated engine and the null target.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod actions;
mod client;
mod figures;
mod generator;
mod records;
mod scenarios;
mod support;
