//! L4: the composition root. Wires the parts, opens the ports, forwards signals.

pub mod cli;
pub mod commands;
mod compose;
mod descriptors;
mod engines;
mod listener;
mod observer;
mod reload;
mod serve;
mod signals;
mod store;
mod tls;

pub use listener::BindError;
pub use serve::serve;
pub use tls::TlsError;
