//! L2: stores that count slots, behind the port [`QuotaStore`](crate::core::quota::QuotaStore).
//!
//! | store | counts | when this process dies |
//! |---|---|---|
//! | [`memory`] | this process | everything is forgotten with its streams |
//! | [`redis`] | all replicas | its slots are granted again when its lease ends |
//!
//! Every store passes the one behaviour suite of `quota::suite`.

pub mod memory;
pub mod redis;
pub mod replica;
#[cfg(test)]
pub mod suite;
