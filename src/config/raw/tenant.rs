//! `tenants[]`.

use super::{HOUR, ms, secs};
use crate::config::KeyHash;
use crate::config::read::kind::{duration, flag, key_hash, label, one_of, text, whole};
use crate::config::read::{At, Section};
use crate::core::policy::Mode;
use std::time::Duration;

const MODES: [(&str, Mode); 2] = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];

/// One tenant as written.
pub(in crate::config) struct RawTenant {
    /// Required; a label other than `unknown` and `reject`.
    pub id: String,
    /// `sha256:<64 hex>`. Default: none.
    pub api_keys: Vec<At<KeyHash>>,
    /// 1 to 1000000; required.
    pub max_in_flight: u32,
    /// Whether `on_limit` is `queue` rather than `reject`. Default `reject`.
    pub queues: bool,
    /// Only with `on_limit: queue`.
    pub queue: Option<RawQueue>,
    /// 1 to 1000. Default 1.
    pub weight: u32,
    /// −100 to 100. Default 0.
    pub priority: i32,
    /// 0 to 1000000000; 0: no limit. Default 0.
    pub requests_per_minute: u32,
    /// 0 to 10^15; 0: no limit. Default 0.
    pub tokens_per_minute: u64,
    /// Names, or `"*"` alone. Default `["*"]`.
    pub models: Vec<At<String>>,
    /// A pool's name. Default: none.
    pub pool: Option<String>,
    /// `enforce` or `shadow`. Default `enforce`.
    pub mode: Mode,
    /// Whether the tenant may send `routing-strategy` to a gateway. Default `false`.
    pub may_route: bool,
}

/// `queue`.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::config) struct RawQueue {
    /// Waiters, 1 to 100000. Default 32.
    pub max_depth: u32,
    /// 1 ms to 1 h. Default 10 s.
    pub max_wait: Duration,
}

impl Default for RawQueue {
    fn default() -> Self {
        Self { max_depth: 32, max_wait: secs(10) }
    }
}

pub(super) fn read(s: &mut Section<'_>) -> RawTenant {
    let cap = "give the number of requests that may run at once, 1 to 1000000";
    RawTenant {
        id: s.required("id", label, "give the tenant an id"),
        api_keys: s.list("api_keys", key_hash),
        max_in_flight: s.required("max_in_flight", whole(1..=1_000_000), cap),
        queues: s.or("on_limit", one_of(&[("reject", false), ("queue", true)]), false),
        queue: s.optional_section("queue", queue),
        weight: s.or("weight", whole(1..=1000), 1),
        priority: s.or("priority", whole(-100..=100), 0),
        requests_per_minute: s.or("requests_per_minute", whole(0..=1_000_000_000), 0),
        tokens_per_minute: s.or("tokens_per_minute", whole(0..=1_000_000_000_000_000), 0),
        models: s.nonempty_list("models", text, "name the models it may use, or [\"*\"]"),
        pool: s.optional("pool", label),
        mode: s.or("mode", one_of(&MODES), Mode::Enforce),
        may_route: s.or("may_route", flag, false),
    }
}

fn queue(s: &mut Section<'_>) -> RawQueue {
    let default = RawQueue::default();
    RawQueue {
        max_depth: s.or("max_depth", whole(1..=100_000), default.max_depth),
        max_wait: s.or("max_wait", duration(ms(1)..=HOUR), default.max_wait),
    }
}
