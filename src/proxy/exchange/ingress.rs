//! From the head to the facts: who asks, for what, with which body. Everything that can be refused
//! without a slot is refused here.

use super::Stop;
use super::account::Account;
use super::refuse::head_too_large;
use crate::core::api::{Api, Dialect, clean};
use crate::core::body_book::NoRoom;
use crate::core::facts::{self, RequestFacts, UpstreamBody, upstream_body};
use crate::core::ids::PoolId;
use crate::core::policy::{ModelSet, TenantPolicy};
use crate::core::reason::Reason;
use crate::core::rejection::{LimitInfo, LimitUnit, Rejection};
use crate::proxy::bodies::HeldBody;
use crate::proxy::client::Client;
use crate::proxy::gateway::{Gateway, Live};
use crate::proxy::gather::Gathered;
use crate::proxy::heads::has_clear_target;
use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::{Method, Version};
use percent_encoding::percent_decode_str;
use pingora_core::ErrorType;
use pingora_http::RequestHeader;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// A request that may ask for admission.
pub(super) struct Request {
    pub policy: Arc<TenantPolicy>,
    pub facts: RequestFacts,
    pub pool: PoolId,
    pub body: UpstreamBody,
    /// The memory of `body`: whoever drops one drops both.
    _held: HeldBody,
}

/// Read and check one request.
pub(super) async fn read(
    gateway: &Gateway,
    live: &Live,
    client: &mut Client,
    account: &mut Account,
) -> Result<Request, Stop> {
    let path = path_of(client.head());
    account.api = Api::of(client.head().method.as_str(), &path);
    account.dialect = Dialect::of(&path);
    check_head(client, live.config.limits.header).map_err(Stop::refuse)?;
    let policy = identify(live, &client.head().headers).map_err(Stop::refuse)?;
    account.tenant = policy.id.clone();
    if is_retry(&client.head().headers) {
        gateway.telemetry.client_retry(&policy.id);
    }
    let (body, held) = read_body(gateway, live, &policy, client).await?;
    account.bytes_received = body.len() as u64;
    let facts = facts::read(account.api, &body, &facts::Limits::default()).map_err(|bad| {
        let rejection = Rejection::new(Reason::BadRequest, bad.message);
        Stop::refuse(match bad.param {
            Some(param) => rejection.param(param),
            None => rejection,
        })
    })?;
    account.model.clone_from(&facts.model);
    account.wants_stream = facts.stream;
    let pool = route(live, &policy, &facts, &client.head().method).map_err(Stop::refuse)?;
    let body = upstream_body(&facts, body);
    Ok(Request { policy, facts, pool, body, _held: held })
}

/// The path, decoded and cleaned: engines decode percent signs before they route, and gateways
/// clean paths, so another spelling must not pass as something that is not understood.
fn path_of(head: &RequestHeader) -> String {
    clean(&percent_decode_str(head.uri.path()).decode_utf8_lossy()).into_owned()
}

fn check_head(client: &Client, limit: usize) -> Result<(), Rejection> {
    let head = client.head();
    let bad =
        |message, status| Err(Rejection::new(Reason::BadRequest, message).with_status(status));
    if client.head_bytes() > limit {
        return Err(head_too_large());
    }
    // A tunnel is none of a proxy's for APIs, and an echo would show the pool's own key.
    if matches!(head.method, Method::CONNECT | Method::TRACE) || head.method.as_str() == "TRACK" {
        return bad("This method is not supported here.", 405);
    }
    if !has_clear_target(head) {
        return bad("The request target is neither a path nor an http address.", 400);
    }
    if head.version == Version::HTTP_11 && !head.headers.contains_key(header::HOST) {
        return bad("The Host header is missing (RFC 9112, section 3.2).", 400);
    }
    Ok(())
}

fn identify(live: &Live, headers: &HeaderMap) -> Result<Arc<TenantPolicy>, Rejection> {
    let unauthenticated = |message: String| Rejection::new(Reason::Unauthenticated, message);
    let single = |name: &str| {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (value, None) => Ok(value.map(|value| value.as_bytes())),
            _ => Err(unauthenticated(format!("The {name} header was sent more than once."))),
        }
    };
    let (bearer, key) = (single("authorization")?, single("x-api-key")?);
    live.tenants.identify(bearer, key).map_err(|error| unauthenticated(error.to_string()))
}

/// The client library says that this is its own retry.
fn is_retry(headers: &HeaderMap) -> bool {
    headers
        .get("x-stainless-retry-count")
        .and_then(|count| count.to_str().ok()?.trim().parse::<u32>().ok())
        .is_some_and(|count| count > 0)
}

async fn read_body(
    gateway: &Gateway,
    live: &Live,
    policy: &TenantPolicy,
    client: &mut Client,
) -> Result<(Bytes, HeldBody), Stop> {
    let (within, limits) = (live.config.timeouts.client_body, live.config.limits);
    let mut held = gateway.bodies.open(policy.id.clone(), limits.bodies);
    match timeout(within, collect_body(client, limits.body, &mut held)).await {
        Ok(Ok(body)) => Ok((body, held)),
        Ok(Err(NotRead::Stop(stop))) => Err(stop),
        Ok(Err(NotRead::NoRoom(whose))) => {
            let wait = gateway.estimates.wait(&policy.id, policy.max_in_flight);
            Err(Stop::refuse(no_room(whose, limits.bodies, wait)))
        }
        Err(_) => Err(Stop::refuse(
            Rejection::new(Reason::BadRequest, "The request body did not arrive in time.")
                .with_status(408),
        )),
    }
}

enum NotRead {
    Stop(Stop),
    NoRoom(NoRoom),
}

impl From<Stop> for NotRead {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<NoRoom> for NotRead {
    fn from(whose: NoRoom) -> Self {
        Self::NoRoom(whose)
    }
}

/// Read the whole body; what is kept of it is charged to `held` before.
async fn collect_body(
    client: &mut Client,
    limit: usize,
    held: &mut HeldBody,
) -> Result<Bytes, NotRead> {
    let head = client.head();
    let length = head.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.trim().parse::<usize>().ok());
    if length.is_some_and(|length| length > limit) {
        return Err(too_large(limit).into());
    }
    // It may still come to nothing, but what cannot come to its end now need not begin.
    held.would_fit(length.unwrap_or(0))?;
    if expects_continue(head) && !client.body_is_done() {
        client.send_continue().await.map_err(|_| Stop::Gone("body"))?;
    }
    // The announced length is the client's word; it may not announce more than it may send.
    let mut body = Gathered::expecting(length.unwrap_or(0));
    while let Some(part) = client.read_body().await.map_err(|error| unreadable(&error))? {
        if body.len() + part.len() > limit {
            return Err(too_large(limit).into());
        }
        held.grow(part.len())?;
        body.push(part);
    }
    Ok(body.into_bytes())
}

/// Too many bodies are held for one more, or for more of this one.
fn no_room(whose: NoRoom, limit: usize, wait: Duration) -> Rejection {
    match whose {
        NoRoom::Tenant => {
            let message = "The request bodies that this tenant has under way and in its queue \
                           leave no room for another.";
            Rejection::new(Reason::QueueFull, message).retry_after(wait).limit(LimitInfo {
                name: "request-bodies",
                unit: LimitUnit::Bytes,
                // The most that one tenant can have (`core::body_book`).
                quota: (limit / 2) as u64,
                remaining: 0,
                window: None,
                reset: Some(wait),
            })
        }
        NoRoom::Everybody => {
            Rejection::new(Reason::PoolSaturated, "This replica has no room for another body now.")
        }
    }
}

/// A body that does not come to its end: badly framed, or its client is gone.
fn unreadable(error: &pingora_core::Error) -> Stop {
    match error.etype() {
        // pingora's names for chunk sizes and trailers that are none.
        ErrorType::Custom(_) => Stop::refuse(Rejection::new(
            Reason::BadRequest,
            "The chunked framing of the request body is malformed.",
        )),
        _ if is_own_reset(error) => Stop::refuse(Rejection::new(
            Reason::BadRequest,
            "The request body is not as long as its Content-Length says.",
        )),
        _ => Stop::Gone("body"),
    }
}

/// Whether our side has reset the HTTP/2 stream because of its body (RFC 9113 §8.1.1). The client
/// hears the reset, not the answer; the refusal is counted all the same.
fn is_own_reset(error: &pingora_core::Error) -> bool {
    let cause = error.cause.as_ref().and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| cause.is_reset() && cause.is_library())
}

fn expects_continue(head: &RequestHeader) -> bool {
    head.version == Version::HTTP_11
        && head
            .headers
            .get(header::EXPECT)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

fn too_large(limit: usize) -> Stop {
    Stop::refuse(Rejection::new(
        Reason::PayloadTooLarge,
        format!("The request body is larger than {limit} bytes."),
    ))
}

fn route(
    live: &Live,
    policy: &TenantPolicy,
    facts: &RequestFacts,
    method: &Method,
) -> Result<PoolId, Rejection> {
    let unnamed = facts.opaque || (facts.model.is_none() && !method.is_safe());
    if unnamed && policy.models != ModelSet::Any {
        // Its model cannot be told, and an engine may have a default, so it cannot be shown to be
        // allowed.
        return Err(Rejection::new(
            Reason::ForbiddenModel,
            "The body must be one JSON object that names its model once.",
        ));
    }
    let model = facts.model.as_ref();
    live.tenants.route(policy, model.map(|model| model.as_str())).map_err(|reason| {
        let message = match reason {
            Reason::ForbiddenModel => "This key may not use the requested model.",
            _ => "No pool serves the requested model.",
        };
        Rejection::new(reason, message).param("model")
    })
}
