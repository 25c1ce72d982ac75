//! The `RateLimit-Policy` and `RateLimit` fields (draft-ietf-httpapi-ratelimit-headers): lists of
//! structured-field strings with parameters.

use super::wait::Wait;
use crate::core::rejection::{LimitInfo, LimitUnit};

/// The largest structured-field integer (RFC 9651, section 3.3.1).
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// Both fields for the limit that was met. The reset time is not later than the time at which the
/// client is told to come back.
pub(super) fn fields(limit: &LimitInfo, wait: Option<Wait>) -> [(&'static str, String); 2] {
    let LimitInfo { name, unit, quota, remaining, window, reset } = limit;
    let unit = match unit {
        LimitUnit::ConcurrentRequests => ";qu=\"concurrent-requests\"",
        LimitUnit::Bytes => ";qu=\"content-bytes\"",
        // The default unit of the draft.
        LimitUnit::Requests => "",
        // Not registered; the draft leaves room for units of a service.
        LimitUnit::Tokens => ";qu=\"tokens\"",
    };
    let quota = quota.min(&MAX_INTEGER);
    let window = window.map_or(String::new(), |window| format!(";w={}", window.as_secs().max(1)));
    let policy = format!("\"{name}\";q={quota}{unit}{window}");

    let told = wait.map(Wait::seconds);
    let reset = reset.map(|reset| {
        let seconds = reset.as_secs() + u64::from(reset.subsec_nanos() > 0);
        told.map_or(seconds, |told| seconds.min(told))
    });
    let reset = reset.or(told).map_or(String::new(), |seconds| format!(";t={seconds}"));
    let remaining = remaining.min(&MAX_INTEGER);
    let state = format!("\"{name}\";r={remaining}{reset}");
    [("ratelimit-policy", policy), ("ratelimit", state)]
}
