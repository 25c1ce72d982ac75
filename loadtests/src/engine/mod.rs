//! A simulated vLLM engine.
//!
//! It speaks vLLM 0.32's HTTP byte for byte (heads, chunks, JSON field order), generates tokens
//! at fixed intervals or by a calibrated model of a replica, misbehaves on request, shuts down
//! as vLLM does, and records what it saw.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use streamgate_loadtests::engine::{Engine, EngineConfig, Faults};
//!
//! let engine = Engine::start(EngineConfig::instant(Duration::from_millis(20))).await?;
//! engine.set_fault(Faults::parse("cut=events:3&cut-by=rst")?);
//! // … send requests to engine.addr() …
//! engine.wait_stats(|s| s.in_flight == 0, Duration::from_secs(5)).await?;
//! assert_eq!(engine.stats().max_in_flight, 1);
//! # Ok(()) }
//! ```
//!
//! Over HTTP the same is at `/sim/…`. Faults are described in [`faults`].

mod backend;
pub mod cache;
pub mod clock;
mod config;
mod count;
pub mod faults;
mod handle;
mod metrics;
mod phase;
pub mod process;
pub mod scheduler;
mod serve;
mod shared;
mod stats;
pub mod tokens;
mod wire;

pub use config::{AbortForm, EngineConfig, InstantProfile, Profile, ShutdownTimes};
pub use faults::{CloseBy, Cut, FaultError, FaultRule, Faults, LineEnd, Silence};
pub use handle::{Engine, WaitError};
pub use phase::Phase;
pub use scheduler::StepModel;
pub use stats::{AbortRecord, RecordedRequest, StatsSnapshot, TenantStats};
pub use tokens::body_hash;
