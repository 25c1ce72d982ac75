//! Heads on their way through: what of the client's head reaches an engine, and what of the
//! engine's head reaches the client. The rules are [`crate::core::headers`]; here they are applied
//! to pingora's types.

use crate::core::answer::Answer;
use crate::core::headers::{strip_from_request, strip_from_response};
use crate::core::ids::RequestId;
use http::header::{self, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Version};
use pingora_core::Result;
use pingora_http::authority::{RawTargetAuthority, raw_target_authority};
use pingora_http::{RequestHeader, ResponseHeader};
use std::borrow::Cow;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What an engine's request carries beside the client's own headers.
pub struct Towards<'a> {
    pub request_id: &'a RequestId,
    /// Bytes of the body as it goes upstream.
    pub body: usize,
    /// The tenant may choose the upstream gateway's `routing-strategy`.
    pub may_route: bool,
    /// The pool's own credential, `Bearer …`.
    pub authorization: Option<&'a HeaderValue>,
}

/// The head for an engine: HTTP/1.1, one Host, framed anew by the known length, nothing that ends
/// at this hop, names a tenant or steers.
pub fn engine_head(from: &RequestHeader, towards: &Towards<'_>) -> Result<RequestHeader> {
    let mut head = from.clone();
    for name in strip_from_request(&from.headers, towards.may_route, None) {
        head.remove_header(&name);
    }
    if let Some((authority, target)) = authority_and_target(from) {
        if let Ok(host) = HeaderValue::from_bytes(authority) {
            head.insert_header(header::HOST, host)?;
        }
        head.set_raw_path(&target)?;
    }
    head.set_version(Version::HTTP_11);
    head.insert_header(REQUEST_ID, towards.request_id.as_str())?;
    // A compressed stream could not be read for its end.
    head.insert_header(header::ACCEPT_ENCODING, "identity")?;
    if let Some(credential) = towards.authorization {
        head.insert_header(header::AUTHORIZATION, credential)?;
    }
    head.remove_header(&header::CONTENT_LENGTH);
    if towards.body > 0 || matches!(head.method, Method::POST | Method::PUT | Method::PATCH) {
        head.insert_header(header::CONTENT_LENGTH, towards.body)?;
    }
    Ok(head)
}

/// The authority and the origin-form target of a request that carries both: HTTP/2's
/// `:authority`, or an absolute-form target, which RFC 9112 §3.2.2 lets win over Host. Engines are
/// asked in origin form (§3.2.1).
fn authority_and_target(from: &RequestHeader) -> Option<(&[u8], Cow<'_, [u8]>)> {
    if let Some(authority) = from.uri.authority() {
        let target = from.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        return Some((authority.host_and_port().as_bytes(), target.as_bytes().into()));
    }
    match raw_target_authority(from.raw_path()) {
        RawTargetAuthority::Absolute { authority, path_and_query, .. } => {
            let rooted = path_and_query.starts_with(b"/");
            let target =
                if rooted { path_and_query.into() } else { [b"/", path_and_query].concat().into() };
            Some((authority, target))
        }
        RawTargetAuthority::None | RawTargetAuthority::AmbiguousAuthority => None,
    }
}

/// Whether the request's target has one of the forms that every server reads alike: a path, an
/// http address, or `*` of OPTIONS.
pub fn has_clear_target(head: &RequestHeader) -> bool {
    let target = head.raw_path();
    match raw_target_authority(target) {
        RawTargetAuthority::Absolute { scheme, .. } => {
            [b"http".as_slice(), b"https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
        }
        RawTargetAuthority::AmbiguousAuthority => false,
        RawTargetAuthority::None => {
            target.starts_with(b"/") || (target == b"*" && head.method == Method::OPTIONS)
        }
    }
}

/// The engine's head for this client: nothing that ends at this hop, framed by the client's
/// version, with the request's id.
pub fn client_head(
    from: &ResponseHeader,
    request: &RequestHeader,
    request_id: &RequestId,
) -> Result<ResponseHeader> {
    let mut head = from.clone();
    for name in strip_from_response(&from.headers) {
        head.remove_header(&name);
    }
    head.insert_header(REQUEST_ID, request_id.as_str())?;
    let framed = head.headers.contains_key(header::CONTENT_LENGTH);
    if !framed && has_body(request, head.status.as_u16()) && request.version == Version::HTTP_11 {
        head.insert_header(header::TRANSFER_ENCODING, "chunked")?;
    }
    // An HTTP/1.0 client reads to the close; HTTP/2 has its own frames.
    Ok(head)
}

/// Whether an answer with this status to this request has a body at all.
pub fn has_body(request: &RequestHeader, status: u16) -> bool {
    request.method != Method::HEAD && !matches!(status, 204 | 304)
}

/// The head of an answer of ours.
pub fn answer_head(answer: &Answer) -> Result<ResponseHeader> {
    let mut head = ResponseHeader::build(answer.status, Some(answer.headers.len() + 3))?;
    for (name, value) in &answer.headers {
        head.insert_header(*name, value.as_str())?;
    }
    head.insert_header(header::CONTENT_LENGTH, answer.body.len())?;
    Ok(head)
}

trait HostAndPort {
    fn host_and_port(&self) -> &str;
}

impl HostAndPort for http::uri::Authority {
    /// Without the user information that an absolute-form target may carry.
    fn host_and_port(&self) -> &str {
        self.as_str().rsplit_once('@').map_or(self.as_str(), |(_, host)| host)
    }
}
