//! What Streamgate is tested with: the simulated engine, and a server that replays transcripts.

pub mod engine;
mod http1;
pub mod replay;
mod sync;
