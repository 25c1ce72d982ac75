//! `identity`.

use crate::config::read::kind::{cidr, header_name, path, text};
use crate::config::read::{At, Section};
use http::HeaderName;
use ipnet::IpNet;
use std::path::PathBuf;

/// Sources of identity beside API keys. Default: none.
pub(in crate::config) struct RawIdentity {
    pub jwt: Option<RawJwt>,
    pub trusted_header: Option<RawTrustedHeader>,
}

/// `identity.jwt`.
pub(in crate::config) struct RawJwt {
    /// Required.
    pub issuer: String,
    /// Required.
    pub audience: String,
    /// One of the two is required.
    pub jwks_file: Option<PathBuf>,
    pub jwks_url: Option<String>,
    /// Required: the claim whose value is the tenant id.
    pub tenant_claim: String,
}

/// `identity.trusted_header`.
pub(in crate::config) struct RawTrustedHeader {
    /// Required.
    pub name: Option<HeaderName>,
    /// Networks it is believed from; required.
    pub from: Vec<At<IpNet>>,
}

pub(super) fn read(s: &mut Section<'_>) -> RawIdentity {
    RawIdentity {
        jwt: s.optional_section("jwt", |s| RawJwt {
            issuer: s.required("issuer", text, "name the issuer the tokens carry"),
            audience: s.required("audience", text, "name the audience the tokens carry"),
            jwks_file: s.optional("jwks_file", path),
            jwks_url: s.optional("jwks_url", text),
            tenant_claim: s.required("tenant_claim", text, "name the claim with the tenant id"),
        }),
        trusted_header: s.optional_section("trusted_header", |s| RawTrustedHeader {
            name: s.required("name", |value| header_name(value).map(Some), "name the header"),
            from: s.required_list("from", cidr, "name the networks it is believed from"),
        }),
    }
}
