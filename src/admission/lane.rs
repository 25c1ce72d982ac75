//! One tenant's queue: places that are owned, and a bell for whoever's turn it is.
//!
//! No wake-up is lost: a bell stores one ring ([`Notify::notify_one`]), it rings after every
//! change of the line for everyone whose turn it then is, and whoever has the turn subscribes to
//! the store's `room` before asking.

use crate::core::ids::PoolId;
use crate::core::policy::TenantPolicy;
use crate::core::quota::FullScope;
use crate::core::sync::lock;
use crate::core::wait_line::{Ticket, WaitLine};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The queue of one tenant, and what else admission counts for it.
#[derive(Debug, Default)]
pub(super) struct Lane {
    state: Mutex<LaneState>,
    asking: AtomicU64,
    overflow: AtomicU64,
}

#[derive(Debug, Default)]
struct LaneState {
    line: WaitLine,
    bells: HashMap<Ticket, Arc<Notify>>,
    /// Set by a reload; newer than what a waiting request brought along.
    policy: Option<Arc<TenantPolicy>>,
}

impl LaneState {
    fn ring_turns(&self, except: Option<Ticket>) {
        for ticket in self.line.turns().filter(|ticket| Some(*ticket) != except) {
            if let Some(bell) = self.bells.get(&ticket) {
                bell.notify_one();
            }
        }
    }
}

impl Lane {
    /// The policy that counts now: the last reload's, else the one the request brought.
    pub(super) fn policy(&self, brought: &Arc<TenantPolicy>) -> Arc<TenantPolicy> {
        Arc::clone(lock(&self.state).policy.as_ref().unwrap_or(brought))
    }

    /// A reload: those who wait ask again under the new policy.
    pub(super) fn set_policy(&self, policy: Arc<TenantPolicy>) {
        let mut state = lock(&self.state);
        state.policy = Some(policy);
        state.ring_turns(None);
    }

    /// A reload of something else: those who wait ask again.
    pub(super) fn ring(&self) {
        lock(&self.state).ring_turns(None);
    }

    pub(super) fn newcomer_may_ask(&self, pool: &PoolId) -> bool {
        lock(&self.state).line.newcomer_may_ask(pool)
    }

    /// What requests for `pool` wait for.
    pub(super) fn cause(&self, pool: &PoolId) -> FullScope {
        lock(&self.state).line.cause(pool)
    }

    /// Requests that wait for an answer: asking the store, or in line.
    pub(super) fn asking(&self) -> u64 {
        self.asking.load(Ordering::Relaxed)
    }

    /// Take a place at the end. `None`: the line is full.
    pub(super) fn join(
        self: &Arc<Self>,
        pool: &PoolId,
        blocked: Option<FullScope>,
        max_depth: u32,
    ) -> Option<Place> {
        let mut state = lock(&self.state);
        let ticket = state.line.join(pool.clone(), blocked, max_depth)?;
        let bell = Arc::new(Notify::new());
        state.bells.insert(ticket, Arc::clone(&bell));
        // A newcomer blocked by its pool may let those behind it pass; there are none yet.
        Some(Place { lane: Arc::clone(self), ticket, bell })
    }
}

/// A place in line. Dropping it gives the place up and rings for whoever is next.
#[derive(Debug)]
pub(super) struct Place {
    lane: Arc<Lane>,
    ticket: Ticket,
    bell: Arc<Notify>,
}

impl Place {
    pub(super) fn may_ask(&self) -> bool {
        lock(&self.lane.state).line.may_ask(self.ticket)
    }

    /// The store said that `scope` is full.
    pub(super) fn mark(&self, scope: FullScope) {
        let mut state = lock(&self.lane.state);
        state.line.mark(self.ticket, scope);
        state.ring_turns(Some(self.ticket));
    }

    /// Resolves when the line or the policy changed so that this place may have its turn.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = lock(&self.lane.state);
        state.line.leave(self.ticket);
        state.bells.remove(&self.ticket);
        state.ring_turns(None);
    }
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct AskingGuard(Arc<Lane>);

impl AskingGuard {
    pub(super) fn new(lane: Arc<Lane>) -> Self {
        lane.asking.fetch_add(1, Ordering::Relaxed);
        Self(lane)
    }
}

impl Drop for AskingGuard {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A shadow request that runs without a slot, where an enforcing tenant would have queued it.
#[derive(Debug)]
pub(super) struct OverflowGuard(Arc<Lane>);

impl OverflowGuard {
    /// The guard, and how many there were before it.
    pub(super) fn new(lane: Arc<Lane>) -> (Self, u64) {
        let before = lane.overflow.fetch_add(1, Ordering::Relaxed);
        (Self(lane), before)
    }
}

impl Drop for OverflowGuard {
    fn drop(&mut self) {
        self.0.overflow.fetch_sub(1, Ordering::Relaxed);
    }
}
