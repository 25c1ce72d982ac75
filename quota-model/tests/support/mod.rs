//! What the tests with a real Redis share.
#![allow(dead_code, reason = "each test uses its part")]

pub mod corrupt;
pub mod fleet;
pub mod names;
pub mod parse;
pub mod seen;
pub mod server;
pub mod wire;
