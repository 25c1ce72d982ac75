//! A refusal as a value: why, what to tell the client, and when to come back.
//!
//! A rejection knows no HTTP beyond its status; [`answer`](super::answer) turns it into headers
//! and a body of the dialect that the client speaks.

use super::facts::BadRequest;
use super::reason::Reason;
use std::borrow::Cow;
use std::time::Duration;

/// Why a request is refused and what its client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub reason: Reason,
    /// For the client's author: what is wrong and what to do. Nothing internal.
    pub message: Cow<'static, str>,
    /// The key of the request at fault.
    pub param: Option<Cow<'static, str>>,
    /// When a retry may succeed; `None`: the reason's default. Ignored if it never can.
    pub retry_after: Option<Duration>,
    /// The limit that was met.
    pub limit: Option<Box<LimitInfo>>,
    /// Answered with this status instead of the reason's: 400 for a request that no budget can
    /// ever hold, 405, 408, 431 for what the HTTP layer refuses.
    pub status: Option<u16>,
}

/// A limit as its client may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitInfo {
    /// The policy's name: printable ASCII without `"` and `\`.
    pub name: &'static str,
    pub unit: LimitUnit,
    pub quota: u64,
    pub remaining: u64,
    /// The window of a rate; `None` for a cap on what runs at once.
    pub window: Option<Duration>,
    /// When the quota is whole again, or a slot comes free.
    pub reset: Option<Duration>,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    /// Requests running at once.
    ConcurrentRequests,
    Requests,
    Tokens,
    /// Bytes of request bodies.
    Bytes,
}

impl Rejection {
    /// A refusal for `reason`; details by the methods below.
    pub fn new(reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            reason,
            message: message.into(),
            param: None,
            retry_after: None,
            limit: None,
            status: None,
        }
    }

    /// Names the key of the request at fault.
    #[must_use]
    pub fn param(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Says when a retry may succeed.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Shows the limit that was met.
    #[must_use]
    pub fn limit(mut self, limit: LimitInfo) -> Self {
        self.limit = Some(Box::new(limit));
        self
    }

    /// Answers with another status than the reason's.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Marks a request that the limit can never hold, however long it waits: status 400.
    #[must_use]
    pub fn never_fits(self) -> Self {
        self.with_status(400)
    }

    /// The HTTP status of the answer.
    pub fn http_status(&self) -> u16 {
        self.status.unwrap_or(self.reason.status())
    }

    /// Whether the same request may succeed later.
    pub fn retryable(&self) -> bool {
        matches!(self.http_status(), 408 | 429 | 502 | 503 | 504)
            && self.reason != Reason::CutByOperator
    }

    /// When a retry may succeed, before it is spread; `None`: never.
    pub fn retry_in(&self) -> Option<Duration> {
        self.retryable().then(|| self.retry_after.unwrap_or(default_wait(self.reason)))
    }
}

/// The wait to name when nothing better is known: short where another replica or the next second
/// may help, longer where a window must pass or an engine must come back.
const fn default_wait(reason: Reason) -> Duration {
    Duration::from_secs(match reason {
        Reason::Draining | Reason::TenantInFlight | Reason::UpstreamUnreachable => 1,
        Reason::QueueFull
        | Reason::QueueTimeout
        | Reason::PoolSaturated
        | Reason::QuotaUnavailable => 2,
        Reason::RequestRate
        | Reason::TokenBudget
        | Reason::NoEndpoint
        | Reason::UpstreamTimeout => 5,
        Reason::Unauthenticated
        | Reason::ForbiddenModel
        | Reason::UnknownModel
        | Reason::BadRequest
        | Reason::PayloadTooLarge
        | Reason::CutByOperator => 1,
    })
}

impl From<BadRequest> for Rejection {
    fn from(bad: BadRequest) -> Self {
        let mut rejection = Self::new(Reason::BadRequest, bad.message);
        rejection.param = bad.param.map(Cow::Borrowed);
        rejection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_contract_calls_hopeless_has_no_retry_time() {
        for reason in Reason::ALL {
            let rejection = Rejection::new(reason, "x").retry_after(Duration::from_secs(9));
            assert_eq!(rejection.retryable(), reason.retryable(), "{reason}");
            assert_eq!(rejection.retry_in().is_some(), reason.retryable(), "{reason}");
        }
    }

    #[test]
    fn a_request_that_no_budget_can_hold_is_not_retryable() {
        let rejection = Rejection::new(Reason::TokenBudget, "x").never_fits();
        assert_eq!((rejection.http_status(), rejection.retry_in()), (400, None));
    }

    #[test]
    fn a_bad_body_keeps_its_message_and_key() {
        let bad = BadRequest { message: "no".into(), param: Some("n") };
        let rejection = Rejection::from(bad);
        assert_eq!(rejection, Rejection::new(Reason::BadRequest, "no").param("n"));
    }
}
