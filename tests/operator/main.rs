//! What an operator sees: metrics, logs, records, the admin port, the command line's client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

mod admin_change;
mod admin_limits;
mod admin_read;
mod client;
mod exposition;
mod fake;
mod page;
mod records;
mod server;
mod telemetry;
