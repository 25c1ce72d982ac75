//! What Streamgate is tested with: a simulated engine and a server that replays transcripts; an
//! open- and closed-loop client with scenarios that reproduce the published studies; and reports
//! that can be recomputed from their records.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "virtual times and figures are rounded to whole units on purpose; all are small"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool's output")]

pub mod client;
pub mod clock;
pub mod demo;
pub mod engine;
pub mod figures;
pub mod history;
mod http1;
pub mod manifest;
pub mod null;
pub mod plan;
pub mod record;
pub mod replay;
pub mod report;
pub mod run;
pub mod scenario;
mod sync;
pub mod target;
