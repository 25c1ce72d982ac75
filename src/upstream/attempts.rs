//! The attempts of one request: which endpoint next, and whether there is a next.

use super::endpoint::EndpointLease;
use super::pool::Pool;
use crate::core::endpoint_health::Mark;
use crate::core::ids::EndpointId;
use crate::core::retry::{self, End, Failure, Judgement, Kind};
use std::sync::Arc;
use std::time::Duration;

/// What to do after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait for so long, then [`pick`](Attempts::pick) again.
    Retry { pause: Duration },
    /// Tell the client.
    GiveUp(End),
}

/// Follows one request from endpoint to endpoint. The rules are `core::retry`'s; this adds the
/// pool's retry budget and the endpoints already tried.
#[derive(Debug)]
pub struct Attempts {
    pool: Arc<Pool>,
    rules: retry::Attempts,
    avoided: Vec<EndpointId>,
    /// What the last failure means for the client if there is no other endpoint.
    fallback: Option<End>,
}

impl Attempts {
    pub(super) fn new(pool: Arc<Pool>, kind: Kind) -> Self {
        let max = pool.spec().retries.max_attempts;
        let rules = retry::Attempts::new(max, kind, pool.is_gateway());
        Self { pool, rules, avoided: Vec::new(), fallback: None }
    }

    /// The number of the attempt that is being made or comes next, stale connections apart; the
    /// first is 1.
    pub const fn number(&self) -> u32 {
        self.rules.failed() + 1
    }

    /// Choose an endpoint for the next attempt.
    ///
    /// # Errors
    /// What the client is told: the pool's condition if this is the first attempt, else what the
    /// last failure meant.
    pub fn pick(&self) -> Result<EndpointLease, End> {
        let none = |none: crate::core::routing::NoChoice| End::Refuse(none.reason());
        self.pool.pick(&self.avoided).map_err(|error| self.fallback.unwrap_or(none(error)))
    }

    /// Another endpoint for a request that waits for its first token at `leaving`, which leaves. `None`: it stays, because the move would spend the last attempt, no other endpoint
    /// is ready, or an engine at work would be cut off (see `core::retry`). The new lease is
    /// counted beside the old one until that is dropped.
    pub fn move_from(&mut self, leaving: &EndpointId) -> Option<EndpointLease> {
        if !self.rules.may_move() {
            return None;
        }
        let avoided: Vec<EndpointId> = self.avoided.iter().chain([leaving]).cloned().collect();
        let next = self.pool.pick(&avoided).ok().filter(EndpointLease::is_ready)?;
        self.rules.moved();
        self.avoided = avoided;
        Some(next)
    }

    /// The attempt on `lease` failed: tell the endpoint's health, and take a retry from the budget
    /// if the failure allows one. Drop `lease` before the next [`pick`](Self::pick), so that it is
    /// not counted twice.
    pub fn failed(
        &mut self,
        lease: &EndpointLease,
        failure: Failure<'_>,
        client_has_bytes: bool,
    ) -> Next {
        let Judgement { mark, again, paid, avoid, end } =
            self.rules.fail(failure, client_has_bytes);
        let gateway = self.pool.is_gateway();
        match mark {
            // One engine behind the gateway drains, not the gateway.
            Some(Mark::DrainAnswer) if gateway => {}
            Some(mark) => lease.mark(mark),
            None => {}
        }
        // A gateway is the only address there is; behind it another engine may be chosen.
        let elsewhere = avoid && !gateway;
        if elsewhere {
            self.avoided.push(lease.id().clone());
        }
        // Asked before the budget is: a retry that cannot be made costs nothing.
        let nowhere = elsewhere && !self.pool.can_pick(&self.avoided);
        if !again || nowhere || (paid && !self.pool.try_retry()) {
            return Next::GiveUp(end);
        }
        self.fallback = Some(end);
        Next::Retry { pause: retry::pause(self.number(), elsewhere, rand::random()) }
    }
}
