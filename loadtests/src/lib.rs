//! What Streamgate is tested with: the simulated engine, a server that replays transcripts.

pub mod engine;
mod http1;
mod sync;
