//! See the crate README.
pub mod cases;
pub mod explore;
pub mod model;
pub mod store;
