//! Streams captured from a real vLLM, and streams derived from them, through the tracker.

mod captured;
mod cuts;
mod fixture;
mod hiding;
mod plain;
mod semantics;
mod splits;
mod table;
