//! L2: stores that count slots, behind the port [`QuotaStore`](crate::core::quota::QuotaStore).
//!
//! | store | counts | when this process dies |
//! |---|---|---|
//! | [`memory`] | this process | everything is forgotten with its streams |
//!
//! Every store passes the one behaviour suite of `quota::suite`.

pub mod memory;
#[cfg(test)]
pub mod suite;
