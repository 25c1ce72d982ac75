//! Which headers may pass.
//!
//! A client's headers go upstream except those that end at this hop, carry its key, name a tenant
//! or steer the upstream gateway. An engine's headers go to the client except those that end at
//! this hop or tell of the inside. Names are compared with `_` read as `-`, since some servers
//! fold the two.

use super::ids::{EndpointId, RequestId};
use http::{HeaderMap, HeaderName};
use std::borrow::Cow;

/// End at this hop (RFC 9110, section 7.6.1, and its predecessors).
const HOP_BY_HOP: [&str; 11] = [
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The client's key: never goes upstream.
const IDENTITY: [&str; 3] = ["authorization", "x-api-key", "api-key"];

/// Name a tenant or steer the upstream gateway: set here by policy, if at all.
const STEERING: [&str; 7] = [
    "config-profile",
    "external-filter",
    "target-pod",
    "target-pod-ip",
    "user",
    "x-session-id",
    "x-tenant",
];

/// Replaced here. A compressed stream could not be read for its end, so `accept-encoding` must be
/// set to `identity`; `expect` was answered here; the id is set anew.
const REPLACED: [&str; 3] = ["accept-encoding", "expect", "x-request-id"];

/// Answers of the upstream gateway about its inside, and our own names.
const RESERVED_PREFIXES: [&str; 3] = ["x-error-", "x-update-", "x-streamgate-"];

/// Tell of the inside, or are set anew.
const INTERNAL_RESPONSE: [&str; 4] =
    ["routing-strategy", "target-pod", "target-pod-ip", "x-request-id"];

/// Never removed because `connection` names them: framing and routing depend on them.
const NOT_NOMINATED: [&str; 3] = ["content-length", "content-type", "host"];

/// The longest request id that is taken from a client.
const REQUEST_ID_BYTES: usize = 128;

/// The names of a client's headers that must not go upstream, each once.
///
/// `may_route`: this tenant may choose the `routing-strategy`. `identity_header`: the further
/// header that carries the identity, if one is configured.
pub fn strip_from_request(
    headers: &HeaderMap,
    may_route: bool,
    identity_header: Option<&HeaderName>,
) -> Vec<HeaderName> {
    select(headers, |name| {
        IDENTITY.contains(&name)
            || STEERING.contains(&name)
            || REPLACED.contains(&name)
            || (name == "routing-strategy" && !may_route)
            || identity_header.is_some_and(|header| name == canonical(header.as_str()))
    })
}

/// The names of an engine's headers that must not reach the client, each once.
pub fn strip_from_response(headers: &HeaderMap) -> Vec<HeaderName> {
    select(headers, |name| INTERNAL_RESPONSE.contains(&name))
}

fn select(headers: &HeaderMap, further: impl Fn(&str) -> bool) -> Vec<HeaderName> {
    let nominated = nominated(headers);
    let stripped = |name: &HeaderName| {
        let plain = canonical(name.as_str());
        let plain = plain.as_ref();
        HOP_BY_HOP.contains(&plain)
            || RESERVED_PREFIXES.iter().any(|prefix| plain.starts_with(prefix))
            || further(plain)
            || nominated.contains(name)
    };
    headers.keys().filter(|name| stripped(name)).cloned().collect()
}

/// The headers that `connection` says end at this hop.
fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(http::header::CONNECTION).into_iter();
    let names = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let names = names.filter_map(|name| HeaderName::try_from(name.trim()).ok());
    names.filter(|name| !NOT_NOMINATED.contains(&name.as_str())).collect()
}

fn canonical(name: &str) -> Cow<'_, str> {
    if name.contains('_') { name.replace('_', "-").into() } else { name.into() }
}

/// The client's `x-request-id`, if there is exactly one and it is 1 to 128 characters of
/// `[A-Za-z0-9._:-]`. Else the caller makes one.
pub fn client_request_id(headers: &HeaderMap) -> Option<RequestId> {
    let mut values = headers.get_all("x-request-id").into_iter();
    let (id, None) = (values.next()?.to_str().ok()?, values.next()) else { return None };
    let fits = (1..=REQUEST_ID_BYTES).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b));
    fits.then(|| RequestId::from(id))
}

/// The engine that a gateway says it chose, as `host:port`: AIBrix's `target-pod-ip`, or
/// `target-pod` where that is an address.
pub fn chosen_pod(headers: &HeaderMap) -> Option<EndpointId> {
    let named = ["target-pod-ip", "target-pod"].into_iter();
    let mut values = named.filter_map(|name| headers.get(name)?.to_str().ok());
    values.find(|value| is_address(value)).map(EndpointId::from)
}

fn is_address(text: &str) -> bool {
    let fits = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    text.len() <= 256 && text.rsplit_once(':').is_some_and(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use std::collections::BTreeSet;

    fn map(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name = HeaderName::try_from(*name).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn names(stripped: &[HeaderName]) -> BTreeSet<&str> {
        let set: BTreeSet<&str> = stripped.iter().map(HeaderName::as_str).collect();
        assert_eq!(set.len(), stripped.len(), "each name once");
        set
    }

    #[test]
    fn a_client_cannot_name_a_tenant_or_steer() {
        let hostile = [
            "authorization",
            "x-api-key",
            "api-key",
            "x-tenant",
            "user",
            "target-pod",
            "target-pod-ip",
            "external-filter",
            "config-profile",
            "x-session-id",
            "routing-strategy",
            "x-error-user",
            "x-update-rpm",
            "x-streamgate-reason",
            "expect",
            "x-request-id",
            "accept-encoding",
            "te",
            "proxy-authorization",
            "upgrade",
            "keep-alive",
            "transfer-encoding",
            "proxy-connection",
            "trailer",
            "http2-settings",
            "Target_Pod",
            "X_Error_Routing",
        ];
        let mut headers = HeaderMap::new();
        for name in hostile {
            headers.insert(HeaderName::try_from(name).unwrap(), HeaderValue::from_static("x"));
        }
        let harmless = ["content-type", "host", "traceparent", "user-agent", "x-stainless-lang"];
        for name in harmless {
            headers.insert(HeaderName::try_from(name).unwrap(), HeaderValue::from_static("x"));
        }
        let stripped = strip_from_request(&headers, false, None);
        let wanted: BTreeSet<String> = hostile.iter().map(|n| n.to_lowercase()).collect();
        assert_eq!(names(&stripped), wanted.iter().map(String::as_str).collect());
    }

    #[test]
    fn a_tenant_that_may_route_keeps_its_strategy() {
        let headers = map(&[("routing-strategy", "random"), ("target-pod", "10.0.0.1:80")]);
        assert_eq!(names(&strip_from_request(&headers, true, None)), ["target-pod"].into());
    }

    #[test]
    fn the_configured_identity_header_does_not_go_upstream() {
        let headers = map(&[("x-auth-request-team", "red"), ("x_auth_request_team", "blue")]);
        let identity = HeaderName::from_static("x-auth-request-team");
        let stripped = strip_from_request(&headers, false, Some(&identity));
        assert_eq!(stripped.len(), 2);
    }

    #[test]
    fn connection_nominates_but_not_what_framing_needs() {
        let headers = map(&[
            ("connection", "close, X-Hop , content-length"),
            ("connection", "host,,content-type"),
            ("x-hop", "1"),
            ("content-length", "3"),
            ("content-type", "application/json"),
            ("host", "h"),
        ]);
        let stripped = strip_from_request(&headers, false, None);
        assert_eq!(names(&stripped), ["connection", "x-hop"].into());
    }

    #[test]
    fn an_engine_cannot_speak_for_us_or_tell_of_the_inside() {
        let headers = map(&[
            ("content-type", "text/event-stream"),
            ("server", "uvicorn"),
            ("retry-after", "3"),
            ("connection", "keep-alive, x-secret"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("x-secret", "1"),
            ("target-pod", "pod-1"),
            ("target-pod-ip", "10.0.0.1:8000"),
            ("x-update-rpm", "7"),
            ("x-error-routing", "true"),
            ("x-streamgate-reason", "draining"),
            ("x-request-id", "engine"),
            ("routing-strategy", "random"),
        ]);
        let stripped = strip_from_response(&headers);
        let kept = ["content-type", "server", "retry-after"];
        assert_eq!(stripped.len(), headers.keys_len() - kept.len());
        assert!(kept.iter().all(|name| !names(&stripped).contains(name)));
    }

    #[test]
    fn only_a_sane_request_id_is_taken() {
        let id = |value: &str| client_request_id(&map(&[("x-request-id", value)]));
        assert_eq!(id("req_A.1:2-z"), Some(RequestId::from("req_A.1:2-z")));
        assert!(id(&"a".repeat(128)).is_some());
        assert!(id(&"a".repeat(129)).is_none());
        assert!(id("").is_none());
        assert!(id("a b").is_none());
        assert!(id("a\"b").is_none());
        assert!(client_request_id(&HeaderMap::new()).is_none());
        let twice = map(&[("x-request-id", "a"), ("x-request-id", "b")]);
        assert!(client_request_id(&twice).is_none());
        let mut binary = HeaderMap::new();
        binary.insert("x-request-id", HeaderValue::from_bytes(b"\xff").unwrap());
        assert!(client_request_id(&binary).is_none());
    }
}
