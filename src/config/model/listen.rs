//! Addresses, the admin API's token, and how much of a request is accepted.

use crate::config::Secret;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where the process listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Clients. HTTP/1.1 and h2c on one port; with `tls`, HTTP/1.1 and h2 by ALPN.
    pub proxy: SocketAddr,
    /// Probes, metrics, admin API.
    pub admin: SocketAddr,
    /// Certificate and key of the proxy port. Checked when loaded: both parse and belong
    /// together.
    pub tls: Option<TlsFiles>,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            proxy: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8080),
            admin: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9180),
            tls: None,
        }
    }
}

/// PEM files of the proxy port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by its intermediates.
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// The admin API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admin {
    /// Bearer token that calls which change something need unless they come from loopback.
    /// `None`: only loopback may change anything.
    pub token: Option<Secret>,
    /// The file that holds it.
    pub token_file: Option<PathBuf>,
}

/// The largest request that is accepted, and how much of requests is held at once, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Request body; a larger one is answered `payload_too_large`.
    pub body: usize,
    /// Bodies of all requests that an engine has not answered yet; at least twice `body`, because
    /// one tenant alone may hold half of it.
    pub bodies: usize,
    /// Request head: request line and all headers.
    pub header: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body: 16 << 20, bodies: 256 << 20, header: 64 << 10 }
    }
}
