//! Sources of identity beside API keys.

use http::HeaderName;
use ipnet::IpNet;
use std::path::PathBuf;

/// Sources of identity beside API keys, which are always accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub jwt: Option<Jwt>,
    pub trusted_header: Option<TrustedHeader>,
}

/// Signed tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    pub issuer: String,
    pub audience: String,
    pub jwks: Jwks,
    /// The claim whose value is the tenant id.
    pub tenant_claim: String,
}

/// Where the signing keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Jwks {
    File(PathBuf),
    Url(String),
}

/// A header set by a proxy in front, believed only from its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedHeader {
    pub name: HeaderName,
    /// Never empty.
    pub from: Vec<IpNet>,
}
