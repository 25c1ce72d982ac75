//! Streams captured from a real vLLM, and streams derived from them, through the tracker.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

mod captured;
mod cuts;
mod fixture;
mod hiding;
mod plain;
mod semantics;
mod splits;
mod table;
