//! Who may change something through the admin port.
//!
//! | caller | may |
//! |---|---|
//! | has the token of `admin.token_file` | everything |
//! | comes from loopback, directly | everything |
//! | anybody, if `drain.http_prestop` is set | `GET /prestop` (the kubelet calls from an address that is not known beforehand) |
//! | anybody else | read |
//!
//! Loopback alone proves little: a page in the operator's browser reaches `127.0.0.1` too. So a
//! caller without the token must not look like a foreign page: no foreign `Origin`, no
//! cross-site `Sec-Fetch-Site`, and a `Host` that is an address or `localhost` (a name that an
//! attacker points at 127.0.0.1 is neither). `/prestop` is a `GET`, which a page may send
//! without an `Origin`; no browser may call it at all. A call that a proxy on this machine
//! passed on is not from loopback.

use arc_swap::ArcSwapOption;
use axum::http::header::{AUTHORIZATION, FORWARDED, HOST, ORIGIN, REFERER};
use axum::http::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use subtle::ConstantTimeEq;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Where Istio's sidecar hands over what it received from elsewhere.
const ISTIO_INBOUND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 6));

/// What a caller wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `POST` or `DELETE` that changes something.
    Change,
    /// `GET /prestop`.
    Prestop,
}

/// Why a caller may not. Each is answered with what would be needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// No or a wrong token.
    Token,
    /// No token is configured, so only loopback may.
    Loopback,
    /// It looks like a foreign page in a browser.
    Browser,
}

/// The rules above, with this replica's settings.
#[derive(Debug)]
pub struct Access {
    /// SHA-256 of the token; the token itself is not kept.
    token: ArcSwapOption<[u8; 32]>,
    http_prestop: bool,
}

impl Access {
    /// `token` is the content of `admin.token_file`.
    pub fn new(token: Option<&str>, http_prestop: bool) -> Self {
        let access = Self { token: ArcSwapOption::empty(), http_prestop };
        access.set_token(token);
        access
    }

    /// Use another token from now on. White space around it is not part of it; an empty one is
    /// none, which leaves changes to loopback.
    pub fn set_token(&self, token: Option<&str>) {
        let token = token.map(str::trim).filter(|token| !token.is_empty());
        self.token.store(token.map(|token| Arc::new(digest(token))));
    }

    /// Whether the caller at `peer` may do `action`.
    pub fn check(&self, action: Action, peer: IpAddr, headers: &HeaderMap) -> Result<(), Denied> {
        let token = self.token.load();
        if let Some(token) = token.as_deref()
            && bearer(headers).is_some_and(|given| digest(given).ct_eq(token).into())
        {
            return Ok(());
        }
        if from_a_page(action, headers) {
            return Err(Denied::Browser);
        }
        if is_loopback(peer, headers) {
            return if names_this_machine(headers) { Ok(()) } else { Err(Denied::Browser) };
        }
        if action == Action::Prestop && self.http_prestop {
            return Ok(());
        }
        Err(if token.is_some() { Denied::Token } else { Denied::Loopback })
    }
}

/// Hashing first makes the comparison independent of the token's length.
fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether a page of another origin sent this (for `/prestop`: any page).
fn from_a_page(action: Action, headers: &HeaderMap) -> bool {
    let site = headers.get(SEC_FETCH_SITE);
    if action == Action::Prestop {
        return [SEC_FETCH_SITE, ORIGIN, REFERER].iter().any(|name| headers.contains_key(name));
    }
    let cross = site.is_some_and(|site| site != "same-origin" && site != "none");
    let mut origins = headers.get_all(ORIGIN).iter();
    cross || origins.any(|origin| origin.to_str().map_or(true, |origin| !own(origin, headers)))
}

fn own(origin: &str, headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    host.is_some_and(|host| origin.strip_prefix("http://") == Some(host))
}

fn is_loopback(peer: IpAddr, headers: &HeaderMap) -> bool {
    let peer = peer.to_canonical();
    peer.is_loopback()
        && peer != ISTIO_INBOUND
        && ![FORWARDED, X_FORWARDED_FOR].iter().any(|name| headers.contains_key(name))
}

/// `Host` is an address or `localhost`; a browser always sends one.
fn names_this_machine(headers: &HeaderMap) -> bool {
    headers.get_all(HOST).iter().all(|host| host.to_str().is_ok_and(is_address_or_localhost))
}

fn is_address_or_localhost(host: &str) -> bool {
    if host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        Some(_) => return is_bracketed(host),
        None => host,
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok() || is_bracketed(name)
}

fn is_bracketed(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.is_some_and(|inner| inner.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests;
