//! What a value may be: each function returns a check that turns an untyped value into a typed
//! one, or says what is wrong and what to write.

mod address;
mod measure;
mod secret;
mod service;
mod words;

pub(in crate::config) use address::{cidr, endpoint, header_name, socket};
pub(in crate::config) use measure::{duration, size, whole};
pub(in crate::config) use secret::{key_hash, redis_url, variable};
pub(in crate::config) use service::{dns_label, service_port};
pub use words::is_label;
pub(in crate::config) use words::{flag, key_prefix, label, one_of, path, text, url_path};

/// A value that does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::config) struct Wrong {
    pub problem: String,
    pub remedy: String,
}

impl Wrong {
    fn new(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { problem: problem.into(), remedy: remedy.into() }
    }
}
