//! Captured answers, replayed byte for byte.
//!
//! A [`Transcript`] is what a real engine once sent, head and chunk framing included. A
//! [`ReplayServer`] sends it again for its path: whole or cut at a byte, in the writes one wants.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use streamgate_loadtests::engine::CloseBy;
//! use streamgate_loadtests::replay::{Ending, Position, Replay, ReplayServer, Split, Transcript};
//!
//! let transcript = Transcript::load("tests/fixtures/vllm/chat_stream_usage.raw")?;
//! let server = ReplayServer::start().await?;
//! server.serve("/v1/chat/completions", Replay {
//!     until: Some(Position::Body(300)),
//!     split: Split::EveryByte,
//!     ending: Ending::Close(CloseBy::Rst),
//!     ..Replay::whole(transcript)
//! });
//! // … send requests to server.addr() …
//! # Ok(()) }
//! ```

mod server;
mod transcript;

pub use server::{Ending, Replay, ReplayServer, Split};
pub use transcript::{CapturedRequest, Position, Transcript, TranscriptError};
