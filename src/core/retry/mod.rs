//! What follows from a failed attempt: whether another may be made, what the failure says about
//! its endpoint, and what the client is told if nothing better comes.
//!
//! A request is sent again only while nothing reached the client, and only if the engine cannot
//! have begun it, or is known to have lost it before its first token:
//!
//! | failure | again? | endpoint | else |
//! |---|---|---|---|
//! | no connection | yes | down | `upstream_unreachable` |
//! | no connection for want of a descriptor, port or memory of our own | yes | – | `no_endpoint` |
//! | pooled connection was closed, no byte of the request acknowledged | yes, there too, uncounted | – | `upstream_unreachable` |
//! | pooled connection was closed, the request taken, no byte of an answer | stream or read: once, there too, uncounted; answer: no | – ; down | `upstream_unreachable` |
//! | connection ended before an answer, or after an interim one or half a head | stream or read: once; answer: no | down | `upstream_unreachable` |
//! | answer "shutting down" (vLLM while it drains) | yes | draining | `no_endpoint` |
//! | answer "queue full" (503) | yes | – | `pool_saturated` |
//! | any other 503 of an engine | stream or read: once; answer: no | – | the engine's answer |
//! | any other 503 of a gateway | no: it may have reached an engine | – | the gateway's answer |
//! | answer "engine dead" | no | down | the engine's answer |
//! | any other answer | no | – | the engine's answer |
//! | answer lost before its first token | stream or read: once; answer: no | down | `upstream_unreachable` |
//! | error event before the first token, "shutting down" or "queue full" | once | draining; – | the engine's error |
//! | the same, of any other status 5xx | stream or read: once; answer: no | down | the engine's error |
//! | the same, of status 4xx | no: the request's fault | – | the engine's error |
//! | ended by us at its endpoint's deadline, before its first token | stream or read: once; answer: no | – | `no_endpoint` |
//! | no answer in time | no: it may be at work | – | `upstream_timeout` |
//! | the client has seen bytes | no | as above | broken |
//! | none, but the endpoint leaves before the first token | stream: moved, unpaid | – | stays there |
//!
//! "Once": a request that an engine may have begun is repeated at most once in all, whatever the
//! configuration allows and however its attempts fail, so a request that kills engines meets two
//! of them, not all. An *answer* that is lost may be finished work, of which only the delivery
//! failed; it is not done twice. "Uncounted": neither an attempt nor paid for; it bounds nothing
//! that "once" forbids. Only the first such connection of a request, and within 100 ms, is taken
//! for stale; any other one counts as one that ended before an answer.
//!
//! "Moved": a stream that waits for its first token at an endpoint that leaves is taken back and
//! sent to one that stays; it would have to hurry for the endpoint's deadline otherwise. Nothing is
//! multiplied, since the first engine is told to stop, so this costs no retry budget; it counts as
//! an attempt, so that a request does not flee from a whole rollout. A move that cannot be made is
//! no failure: the request stays where it is.

use super::endpoint_health::Mark;
use super::reason::Reason;
use serde_json::Value;
use std::time::Duration;

/// Stale pooled connections that one request may meet without it counting as an attempt. Closed
/// ones leave the pool by themselves, so meeting one is a race; a second one looks like an engine
/// that takes requests and dies of them, marks its endpoint and counts as begun.
const MAX_STALE: u32 = 1;
/// Within this time after the request was written, the end of a pooled connection means that it
/// had been closed while idle: the answer to the write is a reset, one round trip away.
const STALE_WITHIN: Duration = Duration::from_millis(100);

/// What vLLM answers to every generation request from SIGTERM to its exit (status 500).
const SHUTTING_DOWN: &str = "cannot schedule new futures after shutdown";
/// What vLLM answers when its queue is full (`--max-num-queued-reqs`, status 503).
const QUEUE_FULL: &str = "The engine is currently busy and cannot accept new requests";
/// What vLLM's API server answers once its engine process is gone (status 500).
const ENGINE_DEAD: &str = "EngineCore encountered an issue";

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<'a> {
    /// Unreachable, or not in time; nothing was sent.
    NotConnected,
    /// The connection was refused; nothing was sent.
    Refused,
    /// This process could not open a connection, whoever is at the other end
    /// ([`is_own_shortage`](super::shortage::is_own_shortage)); nothing was sent.
    OwnShortage,
    /// A connection from the pool of idle ones turned out to be closed: no byte of an answer came,
    /// and the engine's side acknowledged no byte of the request. `after`: since it was chosen.
    Untaken { after: Duration },
    /// The connection ended before the whole head of an answer, `after` it was chosen.
    Unanswered {
        /// It came from the pool of idle connections and was closed before any byte of an answer,
        /// interim ones included; but the engine's side has at least a part of the request.
        reused: bool,
        after: Duration,
    },
    /// An error status, with as much of its body as was read.
    Status { status: u16, body: &'a [u8] },
    /// The answer began with 200 and ended, or was given up by the engine, before its first
    /// token.
    LostEarly,
    /// We ended it: its endpoint drains and reached its deadline.
    Evicted,
    /// The answer began with 200 and its first word was an error event.
    EarlyError { status: Option<u16>, message: Option<&'a str> },
    /// No answer, or no first token, in time.
    TimedOut,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A stream of tokens.
    Stream,
    /// A whole answer, for which an engine works before it says anything.
    Answer,
    /// Something that is there (`GET`, `HEAD`); asking twice does nothing twice.
    Read,
}

/// What the client is told when the attempts are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Our own refusal.
    Refuse(Reason),
    /// The engine's own answer or error.
    PassOn,
    /// The client has seen bytes: the stream is broken and says so.
    Broken,
}

/// What follows from one failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What it says against the endpoint.
    pub mark: Option<Mark>,
    /// Whether another attempt may be made, as far as the budget and the endpoints allow.
    pub again: bool,
    /// Whether it is paid from the retry budget. A stale connection is not: it is no sign of
    /// trouble.
    pub paid: bool,
    /// Whether the endpoint is to be avoided by it.
    pub avoid: bool,
    /// What the client is told if no other attempt is made.
    pub end: End,
}

/// The attempts of one request.
#[derive(Clone, Copy, Debug)]
pub struct Attempts {
    kind: Kind,
    /// The endpoint is a gateway, which says little about the engine behind it.
    gateway: bool,
    max: u32,
    failed: u32,
    stale: u32,
    /// Failed attempts that an engine may have begun.
    begun: u32,
}

/// Whether an engine can have worked on the request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    None,
    /// Possible, and lost before the first token.
    Lost,
    /// Possible, and perhaps finished or still going on.
    Unknown,
}

impl Attempts {
    /// At most `max` attempts, the first included.
    pub const fn new(max: u32, kind: Kind, gateway: bool) -> Self {
        Self { kind, gateway, max, failed: 0, stale: 0, begun: 0 }
    }

    /// Failed attempts so far, stale connections apart.
    pub const fn failed(&self) -> u32 {
        self.failed
    }

    /// Whether the request may be taken from an endpoint that leaves.
    pub fn may_move(&self) -> bool {
        self.kind == Kind::Stream && !self.gateway && self.failed + 1 < self.max
    }

    /// It was taken, before its first token.
    pub const fn moved(&mut self) {
        self.failed += 1;
    }

    /// Judge the failure of the present attempt. `client_has_bytes`: the answer was already
    /// passed on in part.
    pub fn fail(&mut self, failure: Failure<'_>, client_has_bytes: bool) -> Judgement {
        let stale = is_stale(failure, self.kind) && self.stale < MAX_STALE;
        let (work, mark, end) = self.weigh(failure, stale);
        self.stale += u32::from(stale);
        self.failed += u32::from(!stale);
        self.begun += u32::from(work != Work::None);
        let repeatable = match work {
            Work::None => true,
            Work::Lost => self.begun <= 1,
            Work::Unknown => false,
        };
        Judgement {
            mark,
            again: repeatable && !client_has_bytes && self.failed < self.max,
            paid: !stale,
            avoid: !stale,
            end: if client_has_bytes { End::Broken } else { end },
        }
    }

    fn weigh(&self, failure: Failure<'_>, stale: bool) -> (Work, Option<Mark>, End) {
        let unreachable = End::Refuse(Reason::UpstreamUnreachable);
        let lost = if self.kind == Kind::Answer { Work::Unknown } else { Work::Lost };
        match failure {
            Failure::NotConnected => (Work::None, Some(Mark::Unreachable), unreachable),
            Failure::Refused => (Work::None, Some(Mark::Refused), unreachable),
            Failure::OwnShortage => (Work::None, None, End::Refuse(Reason::NoEndpoint)),
            Failure::Untaken { .. } if stale => (Work::None, None, unreachable),
            Failure::Unanswered { .. } if stale => (lost, None, unreachable),
            Failure::Untaken { .. } | Failure::Unanswered { .. } | Failure::LostEarly => {
                (lost, Some(Mark::Lost), unreachable)
            }
            Failure::Evicted => (lost, None, End::Refuse(Reason::NoEndpoint)),
            Failure::Status { status, body } => self.weigh_status(status, body, lost),
            Failure::EarlyError { status: Some(400..500), .. } => {
                (Work::Unknown, None, End::PassOn)
            }
            Failure::EarlyError { status, message } => match said(status.unwrap_or(500), message) {
                Said::ShuttingDown => (Work::Lost, Some(Mark::DrainAnswer), End::PassOn),
                Said::QueueFull => (Work::Lost, None, End::PassOn),
                Said::EngineDead | Said::Other => (lost, Some(Mark::Lost), End::PassOn),
            },
            Failure::TimedOut => (Work::Unknown, None, End::Refuse(Reason::UpstreamTimeout)),
        }
    }

    /// `lost`: what it is to this kind of request that an engine may have had it.
    fn weigh_status(&self, status: u16, body: &[u8], lost: Work) -> (Work, Option<Mark>, End) {
        match said(status, message_of(body).as_deref()) {
            Said::ShuttingDown => {
                (Work::None, Some(Mark::DrainAnswer), End::Refuse(Reason::NoEndpoint))
            }
            Said::QueueFull => (Work::None, None, End::Refuse(Reason::PoolSaturated)),
            Said::EngineDead => (Work::Unknown, Some(Mark::Lost), End::PassOn),
            Said::Other if status == 503 && !self.gateway => (lost, None, End::PassOn),
            Said::Other => (Work::Unknown, None, End::PassOn),
        }
    }
}

/// Whether the connection is taken for one that was closed while idle. What its engine has taken
/// may have been begun all the same (a process that dies of it closes in the same way): it counts
/// as begun, and an answer, which must not be worked out twice, is not repeated then.
fn is_stale(failure: Failure<'_>, kind: Kind) -> bool {
    match failure {
        Failure::Untaken { after } => after <= STALE_WITHIN,
        Failure::Unanswered { reused, after } => {
            reused && after <= STALE_WITHIN && kind != Kind::Answer
        }
        _ => false,
    }
}

/// What an engine's error is known to mean.
enum Said {
    ShuttingDown,
    QueueFull,
    EngineDead,
    Other,
}

/// The whole message (or its fixed beginning) must agree: a message that merely quotes a request
/// must not be able to take an endpoint out of service.
fn said(status: u16, message: Option<&str>) -> Said {
    match (status, message) {
        (500 | 503, Some(SHUTTING_DOWN)) => Said::ShuttingDown,
        (503, Some(message)) if message.starts_with(QUEUE_FULL) => Said::QueueFull,
        (500 | 503, Some(message)) if message.starts_with(ENGINE_DEAD) => Said::EngineDead,
        _ => Said::Other,
    }
}

/// `error.message` of an error body, in OpenAI's and in Anthropic's shape.
fn message_of(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    value.pointer("/error/message")?.as_str().map(str::to_owned)
}

/// The pause before attempt number `attempt` (the first is 1): exponential with full jitter
/// (M. Brooker, *Exponential Backoff and Jitter*, AWS Architecture Blog, 2015), `random` in
/// `0.0..1.0`. The first retry on another endpoint (`elsewhere`) needs none.
pub fn pause(attempt: u32, elsewhere: bool, random: f64) -> Duration {
    const FIRST: Duration = Duration::from_millis(25);
    const LONGEST: Duration = Duration::from_millis(250);
    let doublings = attempt.saturating_sub(if elsewhere { 3 } else { 2 });
    if attempt < 2 || (elsewhere && attempt == 2) {
        return Duration::ZERO;
    }
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    FIRST.saturating_mul(factor).min(LONGEST).mul_f64(random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests;
