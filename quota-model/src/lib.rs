//! The semantics of Streamgate's quota scripts as a pure function ([`store`]), and a model that
//! explores the protocol around them ([`model`]) under faults ([`cases`]).
//!
//! The protocol itself is described in `docs/quota-protocol.md`; what was explored is in `RESULTS.md`.

pub mod cases;
pub mod explore;
pub mod model;
pub mod recover;
pub mod results;
pub mod store;
