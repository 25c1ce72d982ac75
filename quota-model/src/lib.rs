//! See the crate README.
pub mod store;
