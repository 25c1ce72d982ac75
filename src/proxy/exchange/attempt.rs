//! One attempt: connect to the chosen endpoint, send the request, hold the answer's head until it
//! shows progress. Until then nothing reaches the client, so a lost attempt is unseen.

use super::work::Attempt;
use crate::admission::Permit;
use crate::core::api::Api;
use crate::core::headers::chosen_pod;
use crate::core::retry::Failure;
use crate::core::seldom::Seldom;
use crate::core::shortage::is_own_shortage;
use crate::core::stream::{
    EngineError, PlainAnswer, Progress, StreamTracker, TrackerOptions, plain_answer,
};
use crate::proxy::engine::{EngineCall, Engines, Unanswered, is_event_stream};
use crate::proxy::gather::Gathered;
use bytes::Bytes;
use http::header;
use pingora_core::ErrorType;
use pingora_http::{RequestHeader, ResponseHeader};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// Opening events held with the head; more goes out.
const HELD_BYTES: usize = 64 * 1024;
/// An error's body is read whole up to this size before it is judged.
const ERROR_BODY: usize = 64 * 1024;
/// A plain answer of an understood API is held whole up to this size, so that an answer the engine
/// gave up can still become an error.
const PLAIN_BODY: usize = 4 * 1024 * 1024;
/// Time for an error's body to arrive after its head.
const ERROR_BODY_TIME: Duration = Duration::from_secs(5);
/// Longest silence of the log about connections that could not be opened.
static SHORT: Seldom = Seldom::new(Duration::from_secs(5));

/// What to ask and how to read the answer.
pub(super) struct Question<'a> {
    pub api: Api,
    pub head: &'a RequestHeader,
    pub body: &'a [Bytes],
    pub tracker: TrackerOptions,
    pub head_hold: Duration,
    /// When this search for an answer ends by itself.
    pub first_byte: Instant,
    /// Asked before anything is sent: the slot may have been lost while we connected.
    pub permit: &'a Permit,
    /// The endpoint chooses an engine by itself and says which.
    pub gateway: bool,
}

/// An engine's answer, of which the client has seen nothing.
pub(super) struct Reply {
    pub head: ResponseHeader,
    pub body: ReplyBody,
}

/// The part of the body that has been read.
pub(super) enum ReplyBody {
    /// An SSE stream that shows progress, or whose head was held long enough.
    Stream { tracker: Box<StreamTracker>, ready: Vec<Bytes> },
    /// A plain answer of an understood API that has come whole, and what it says.
    Whole { body: Bytes, answer: PlainAnswer },
    /// Anything else; `read` has come so far.
    Plain { read: Bytes },
}

/// An attempt that gave no answer the client may have.
#[derive(Debug)]
pub(super) enum Lost {
    /// No connection. The engine saw nothing.
    NotConnected { refused: bool },
    /// This process could open no connection. No engine saw anything.
    OwnShortage,
    /// The slot was lost before anything was sent. No other engine may be asked either.
    NoSlot,
    /// The connection ended before an answer.
    Unanswered(Unanswered),
    /// An answer of 500 or above, read whole.
    Status { head: Box<ResponseHeader>, body: Bytes },
    /// An answer of 500 or above whose body never came whole.
    HalfStatus(u16),
    /// An answer began with 200 and was lost before its first token.
    Early,
    /// A stream began with 200 and its first word was an error.
    EarlyError(EngineError),
    /// A plain answer of 200 that the engine gave up (`finish_reason: "abort"`).
    GivenUp,
    /// The endpoint drains and reached its deadline.
    Evicted,
}

impl Lost {
    /// In the words of the retry rules; the attempt was made `after` ago.
    pub fn as_failure(&self, after: Duration) -> Failure<'_> {
        match self {
            Self::NotConnected { refused: true } => Failure::Refused,
            Self::NotConnected { refused: false } | Self::NoSlot => Failure::NotConnected,
            Self::OwnShortage => Failure::OwnShortage,
            Self::Unanswered(Unanswered::Untaken) => Failure::Untaken { after },
            Self::Unanswered(how) => {
                Failure::Unanswered { reused: *how == Unanswered::ReusedClosed, after }
            }
            Self::Status { head, body } => Failure::Status { status: head.status.as_u16(), body },
            Self::HalfStatus(status) => Failure::Status { status: *status, body: b"" },
            Self::Early | Self::GivenUp => Failure::LostEarly,
            Self::Evicted => Failure::Evicted,
            Self::EarlyError(error) => {
                Failure::EarlyError { status: error.status, message: error.message.as_deref() }
            }
        }
    }
}

/// Ask the endpoint of `attempt`. The call is left in `attempt`, whatever happens, so that its
/// owner can end it. Cancel-safe in that sense: after a drop the call can only be abandoned.
pub(super) async fn attempt(
    engines: &Engines,
    question: &Question<'_>,
    attempt: &mut Attempt,
) -> Result<Reply, Lost> {
    let connected = engines.connect(attempt.lease.address()).await;
    let call = attempt.call.insert(connected.map_err(|error| not_connected(&error))?);
    let mut head = question.head.clone();
    if !head.headers.contains_key(header::HOST) {
        // From HTTP/1.0; in HTTP/1.1 there must be one.
        let host = head.insert_header(header::HOST, attempt.lease.address().to_string());
        host.map_err(|_| Lost::Unanswered(Unanswered::Lost))?;
    }
    if !question.permit.may_begin() {
        return Err(Lost::NoSlot);
    }
    if let Err(error) = call.ask(head, question.body).await {
        tracing::debug!(error = error.etype().as_str(), "no answer from the engine");
        return Err(Lost::Unanswered(call.unanswered()));
    }
    let Some(head) = call.head().cloned() else {
        return Err(Lost::Unanswered(Unanswered::Lost));
    };
    if question.gateway
        && let Some(pod) = chosen_pod(&head.headers)
    {
        question.permit.holder().set_pod(pod);
    }
    match head.status.as_u16() {
        500.. => judge_error(call, head).await,
        200 if is_event_stream(&head) && question.api != Api::Plain => {
            hold(call, head, question).await
        }
        200 if question.api != Api::Plain => hold_plain(call, head, question).await,
        _ => Ok(Reply { head, body: ReplyBody::Plain { read: Bytes::new() } }),
    }
}

fn not_connected(error: &pingora_core::Error) -> Lost {
    let cause = error.root_cause();
    if !is_own_shortage(cause) {
        return Lost::NotConnected { refused: *error.etype() == ErrorType::ConnectRefused };
    }
    if let Some(silent) = SHORT.pass(Instant::now().into_std()) {
        tracing::warn!(error = %cause, silent, "no connection to an engine for want of a descriptor, port or memory");
    }
    Lost::OwnShortage
}

/// Hold the head until the stream shows progress, the hold ran out, or the openings grew large.
async fn hold(
    call: &mut EngineCall,
    head: ResponseHeader,
    question: &Question<'_>,
) -> Result<Reply, Lost> {
    // A hold as long as the wait for the first byte never expires: an honest status is better.
    let until = Some(Instant::now() + question.head_hold).filter(|end| *end < question.first_byte);
    let mut tracker = Box::new(StreamTracker::new(question.api, question.tracker));
    let mut ready = Vec::new();
    loop {
        let ended = match until_some(until, call.read()).await {
            None => break,
            Some(Err(_)) => return Err(Lost::Early),
            Some(Ok(Some(chunk))) => {
                tracker.feed(chunk, Instant::now().into_std(), &mut ready);
                false
            }
            Some(Ok(None)) => {
                tracker.finish_input(&mut ready);
                true
            }
        };
        if let Some(error) = tracker.early_error() {
            return Err(Lost::EarlyError(error.clone()));
        }
        // The engine gave up, or ended an answer that has nothing in it.
        if tracker.is_sealed() && tracker.first_content().is_none() {
            return Err(Lost::Early);
        }
        if tracker.progress() != Progress::Opening || tracker.forwarded_bytes() > HELD_BYTES as u64
        {
            break;
        }
        if ended {
            return Err(Lost::Early);
        }
    }
    Ok(Reply { head, body: ReplyBody::Stream { tracker, ready } })
}

async fn until_some<T>(end: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match end {
        Some(end) => timeout_at(end, future).await.ok(),
        None => Some(future.await),
    }
}

/// Read an answer of 500 or above until it can be judged. One that is too large or too slow to be
/// judged is passed on as it comes.
async fn judge_error(call: &mut EngineCall, head: ResponseHeader) -> Result<Reply, Lost> {
    let mut body = Gathered::default();
    let read = timeout(ERROR_BODY_TIME, read_up_to(call, ERROR_BODY, &mut body)).await;
    let body = body.into_bytes();
    match read {
        Ok(Ok(())) if call.is_done() => Err(Lost::Status { head: Box::new(head), body }),
        // Nothing has reached the client: an honest answer of ours beats half of the engine's.
        Ok(Err(_)) => Err(Lost::HalfStatus(head.status.as_u16())),
        _ => Ok(Reply { head, body: ReplyBody::Plain { read: body } }),
    }
}

/// Hold a plain answer until it is whole (or too large to hold) and check that it is one.
async fn hold_plain(
    call: &mut EngineCall,
    head: ResponseHeader,
    question: &Question<'_>,
) -> Result<Reply, Lost> {
    let mut body = Gathered::default();
    read_up_to(call, PLAIN_BODY, &mut body).await.map_err(|_| Lost::Early)?;
    let body = body.into_bytes();
    if !call.is_done() {
        return Ok(Reply { head, body: ReplyBody::Plain { read: body } });
    }
    let answer = plain_answer(question.api, &body);
    if question.tracker.hide_abort && answer.aborted {
        return Err(Lost::GivenUp);
    }
    Ok(Reply { head, body: ReplyBody::Whole { body, answer } })
}

/// Read until the body ends or `into` holds more than `limit`. Cancel-safe: `into` keeps what came.
async fn read_up_to(
    call: &mut EngineCall,
    limit: usize,
    into: &mut Gathered,
) -> pingora_core::Result<()> {
    while !call.is_done() && into.len() <= limit {
        let Some(chunk) = call.read().await? else { break };
        into.push(chunk);
    }
    Ok(())
}
