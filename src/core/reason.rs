//! Why a request was refused: a closed set, the value of `x-streamgate-reason` and of the
//! `reason` label.

use std::fmt;

/// The reason of a refusal. `docs/status-codes.md` explains each to a client's author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    TenantInFlight,
    QueueFull,
    QueueTimeout,
    RequestRate,
    TokenBudget,
    PoolSaturated,
    NoEndpoint,
    Draining,
    QuotaUnavailable,
    Unauthenticated,
    ForbiddenModel,
    UnknownModel,
    BadRequest,
    PayloadTooLarge,
    UpstreamUnreachable,
    UpstreamTimeout,
    /// An operator ended the request before its answer began. It may have been the request that
    /// had to go, so a client must not send it again by itself.
    CutByOperator,
}

impl Reason {
    /// Every reason, in declaration order.
    pub const ALL: [Self; 17] = [
        Self::TenantInFlight,
        Self::QueueFull,
        Self::QueueTimeout,
        Self::RequestRate,
        Self::TokenBudget,
        Self::PoolSaturated,
        Self::NoEndpoint,
        Self::Draining,
        Self::QuotaUnavailable,
        Self::Unauthenticated,
        Self::ForbiddenModel,
        Self::UnknownModel,
        Self::BadRequest,
        Self::PayloadTooLarge,
        Self::UpstreamUnreachable,
        Self::UpstreamTimeout,
        Self::CutByOperator,
    ];

    /// The header and label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TenantInFlight => "tenant_in_flight",
            Self::QueueFull => "queue_full",
            Self::QueueTimeout => "queue_timeout",
            Self::RequestRate => "request_rate",
            Self::TokenBudget => "token_budget",
            Self::PoolSaturated => "pool_saturated",
            Self::NoEndpoint => "no_endpoint",
            Self::Draining => "draining",
            Self::QuotaUnavailable => "quota_unavailable",
            Self::Unauthenticated => "unauthenticated",
            Self::ForbiddenModel => "forbidden_model",
            Self::UnknownModel => "unknown_model",
            Self::BadRequest => "bad_request",
            Self::PayloadTooLarge => "payload_too_large",
            Self::UpstreamUnreachable => "upstream_unreachable",
            Self::UpstreamTimeout => "upstream_timeout",
            Self::CutByOperator => "cut_by_operator",
        }
    }

    /// The HTTP status this reason is answered with.
    pub const fn status(self) -> u16 {
        match self {
            Self::TenantInFlight
            | Self::QueueFull
            | Self::QueueTimeout
            | Self::RequestRate
            | Self::TokenBudget => 429,
            Self::PoolSaturated
            | Self::NoEndpoint
            | Self::Draining
            | Self::QuotaUnavailable
            | Self::CutByOperator => 503,
            Self::Unauthenticated => 401,
            Self::ForbiddenModel => 403,
            Self::UnknownModel => 404,
            Self::BadRequest => 400,
            Self::PayloadTooLarge => 413,
            Self::UpstreamUnreachable => 502,
            Self::UpstreamTimeout => 504,
        }
    }

    /// Whether the same request may succeed later (`Retry-After` is given), or never
    /// (`x-should-retry: false`).
    pub const fn retryable(self) -> bool {
        matches!(self.status(), 429 | 502 | 503 | 504) && !matches!(self, Self::CutByOperator)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
