//! The decision: run, wait or refuse.

use super::holders::{Holders, OpenGuard};
use super::lane::{AskingGuard, Lane, OverflowGuard, Place};
use super::permit::Permit;
use super::request::{AdmitRequest, Admitted, Refused};
use crate::core::cause::CutCause;
use crate::core::hold::HoldTimes;
use crate::core::ids::{PoolId, TenantId};
use crate::core::policy::{Mode, OnLimit, PoolCap, TenantPolicy};
use crate::core::quota::{Acquired, FullScope, QuotaStore, SlotGuard, SlotPath, StoreError};
use crate::core::reason::Reason;
use crate::core::sync::lock;
use crate::core::traffic::Traffic;
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Admits requests by what is running. One per process.
pub struct AdmissionController {
    store: Arc<dyn QuotaStore>,
    hold_times: Arc<dyn HoldTimes>,
    holders: Arc<Holders>,
    lanes: Mutex<HashMap<TenantId, Arc<Lane>>>,
    /// Caps of the last reload; newer than what a waiting request brought along.
    pool_caps: Mutex<HashMap<PoolId, PoolCap>>,
    closed: CancellationToken,
}

/// Longest wait of a shadow request for the store: one slow round trip.
const SHADOW_PATIENCE: Duration = Duration::from_millis(100);

/// What a request may run with.
#[derive(Default)]
struct Grant {
    slot: Option<Box<dyn SlotGuard>>,
    overflow: Option<OverflowGuard>,
    shadow_refusal: Option<Reason>,
}

impl From<Box<dyn SlotGuard>> for Grant {
    fn from(slot: Box<dyn SlotGuard>) -> Self {
        Self { slot: Some(slot), ..Self::default() }
    }
}

impl AdmissionController {
    /// A controller over `store` that reports hold times to `hold_times`.
    pub fn new(
        store: Arc<dyn QuotaStore>,
        hold_times: Arc<dyn HoldTimes>,
        holders: Arc<Holders>,
    ) -> Self {
        Self {
            store,
            hold_times,
            holders,
            lanes: Mutex::default(),
            pool_caps: Mutex::default(),
            closed: CancellationToken::new(),
        }
    }

    /// A request's head has come: the drain waits for its answer from now on, its upload
    /// included. `None`: the replica takes no more requests; this one will be refused.
    pub fn open(&self) -> Option<OpenGuard> {
        self.holders.begin()
    }

    /// Decide about one request that arrived at `now`; waits in the tenant's queue if the policy
    /// says so.
    ///
    /// Cancel-safe: dropping the future gives up the place in line, and a slot that was granted
    /// meanwhile comes back.
    ///
    /// # Errors
    /// `tenant_in_flight`, `pool_saturated`, `queue_full`, `queue_timeout`, `quota_unavailable`
    /// or `draining`. For a shadow tenant only `draining`.
    pub async fn admit(&self, request: AdmitRequest, now: Instant) -> Result<Admitted, Refused> {
        let lane = self.lane(&request.policy.id);
        let policy = lane.policy(&request.policy);
        let Some(open) = self.holders.begin() else {
            return Err(refused(Reason::Draining, &policy, now, None));
        };
        let decision = async {
            let _asking = AskingGuard::new(Arc::clone(&lane));
            match (policy.mode, policy.on_limit) {
                (Mode::Shadow, _) => Ok(self.shadow(&request, &policy, &lane).await),
                (Mode::Enforce, OnLimit::Reject) => self.ask_once(&request, &policy).await,
                (Mode::Enforce, OnLimit::Queue { max_depth, max_wait }) => {
                    self.ask_or_wait(&request, &policy, &lane, max_depth, now + max_wait).await
                }
            }
        };
        // A shared store may take a lease to answer; a drain does not wait for it.
        let decision = tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(Reason::Draining),
            decision = decision => decision,
        };
        match decision {
            Ok(grant) => self.register(grant, request, &policy, open, now),
            Err(reason) => Err(refused(reason, &policy, now, Some(open))),
        }
    }

    /// Requests of `tenant` that wait for an answer: in its queue, or asking the store.
    pub fn queued(&self, tenant: &TenantId) -> u64 {
        lock(&self.lanes).get(tenant).map_or(0, |lane| lane.asking())
    }

    /// Requests of all tenants that wait for an answer.
    pub fn queued_total(&self) -> u64 {
        lock(&self.lanes).values().map(|lane| lane.asking()).sum()
    }

    /// A reload: those who wait are judged by the new policies from now on. Counts stay.
    pub fn apply(&self, policies: impl IntoIterator<Item = Arc<TenantPolicy>>) {
        for policy in policies {
            self.lane(&policy.id).set_policy(policy);
        }
    }

    /// A reload: those who wait are judged by the new caps of the pools from now on, at once where
    /// there is more room. A pool that is not named keeps the cap it had.
    pub fn apply_pools(&self, caps: impl IntoIterator<Item = (PoolId, PoolCap)>) {
        lock(&self.pool_caps).extend(caps);
        lock(&self.lanes).values().for_each(|lane| lane.ring());
    }

    /// Everyone who waits is refused with `draining` at once, and so is everyone who comes.
    /// Those who are admitted run on.
    pub fn close_queue(&self) {
        self.holders.close();
        self.closed.cancel();
    }

    fn lane(&self, tenant: &TenantId) -> Arc<Lane> {
        let mut lanes = lock(&self.lanes);
        match lanes.get(tenant) {
            Some(lane) => Arc::clone(lane),
            None => Arc::clone(lanes.entry(tenant.clone()).or_default()),
        }
    }

    async fn ask_once(
        &self,
        request: &AdmitRequest,
        policy: &TenantPolicy,
    ) -> Result<Grant, Reason> {
        match self.ask(request, policy).await? {
            Acquired::Granted(slot) => Ok(slot.into()),
            Acquired::Full(scope) => Err(at_once(scope)),
        }
    }

    async fn ask_or_wait(
        &self,
        request: &AdmitRequest,
        policy: &TenantPolicy,
        lane: &Arc<Lane>,
        max_depth: u32,
        until: Instant,
    ) -> Result<Grant, Reason> {
        let mut blocked = None;
        if lane.newcomer_may_ask(&request.pool) {
            match self.store.wait(&self.path(request, policy), None).await {
                Ok(Acquired::Granted(slot)) => return Ok(slot.into()),
                Ok(Acquired::Full(scope)) => blocked = Some(scope),
                Err(error) => return Err(unanswered(policy, &error)),
            }
        }
        // No await between the store's answer and the place in line: order is kept.
        let Some(place) = lane.join(&request.pool, blocked, max_depth) else {
            return match blocked {
                None => Err(in_queue(lane.cause(&request.pool), Reason::QueueFull)),
                // What was said may be a moment old; nobody is refused by that.
                Some(_) => match self.ask(request, policy).await? {
                    Acquired::Granted(slot) => Ok(slot.into()),
                    Acquired::Full(scope) => Err(in_queue(scope, Reason::QueueFull)),
                },
            };
        };
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(Reason::Draining),
            slot = self.wait(request, lane, &place, blocked) => match slot {
                Ok(slot) => Ok(slot.into()),
                Err(error) => Err(unanswered(policy, &error)),
            },
            () = sleep_until(until) => {
                Err(in_queue(lane.cause(&request.pool), Reason::QueueTimeout))
            }
        }
    }

    /// Wait in line for a slot. Cancel-safe.
    async fn wait(
        &self,
        request: &AdmitRequest,
        lane: &Lane,
        place: &Place,
        mut told: Option<FullScope>,
    ) -> Result<Box<dyn SlotGuard>, StoreError> {
        loop {
            if !place.may_ask() {
                place.rung().await;
                continue;
            }
            let path = self.path(request, &lane.policy(&request.policy));
            tokio::select! {
                biased;
                // First: what was asked for under another policy is not to be taken.
                () = place.rung() => {}
                answer = self.store.wait(&path, told) => match answer? {
                    Acquired::Granted(slot) => return Ok(slot),
                    Acquired::Full(scope) => {
                        told = Some(scope);
                        place.mark(scope);
                    }
                },
            }
        }
    }

    /// Never delays: what an enforcing tenant would have waited for, this one runs without.
    async fn shadow(
        &self,
        request: &AdmitRequest,
        policy: &TenantPolicy,
        lane: &Arc<Lane>,
    ) -> Grant {
        let scope = match timeout(SHADOW_PATIENCE, self.ask(request, policy)).await {
            Ok(Ok(Acquired::Granted(slot))) => return slot.into(),
            Ok(Ok(Acquired::Full(scope))) => scope,
            Ok(Err(_)) | Err(_) => {
                let shadow_refusal = Some(Reason::QuotaUnavailable);
                return Grant { shadow_refusal, ..Grant::default() };
            }
        };
        let (overflow, before) = OverflowGuard::new(Arc::clone(lane));
        let shadow_refusal = match policy.on_limit {
            OnLimit::Reject => Some(at_once(scope)),
            // Whether a wait would have ended in time cannot be known without waiting; those who
            // run above the cap stand for those who would be in line.
            OnLimit::Queue { max_depth, .. } => {
                (before >= u64::from(max_depth)).then(|| in_queue(scope, Reason::QueueFull))
            }
        };
        Grant { slot: None, overflow: Some(overflow), shadow_refusal }
    }

    /// The pool's cap that counts now: the last reload's, else the one the request brought.
    fn pool_cap(&self, request: &AdmitRequest) -> PoolCap {
        lock(&self.pool_caps).get(&request.pool).copied().unwrap_or(request.pool_cap)
    }

    async fn ask(&self, request: &AdmitRequest, policy: &TenantPolicy) -> Result<Acquired, Reason> {
        let answer = self.store.acquire(&self.path(request, policy)).await;
        answer.map_err(|error| unanswered(policy, &error))
    }

    fn path(&self, request: &AdmitRequest, policy: &TenantPolicy) -> SlotPath {
        let pool = self.pool_cap(request);
        SlotPath {
            tenant: policy.id.clone(),
            tenant_cap: policy.max_in_flight,
            pool: request.pool.clone(),
            pool_cap: pool.max_in_flight,
            tenant_revision: policy.revision.number(),
            pool_revision: pool.revision.number(),
        }
    }

    fn register(
        &self,
        grant: Grant,
        request: AdmitRequest,
        policy: &TenantPolicy,
        open: OpenGuard,
        now: Instant,
    ) -> Result<Admitted, Refused> {
        let entry = (request.request_id, policy.id.clone(), request.model);
        match self.holders.register(open, entry, now) {
            Ok(holder) => Ok(Admitted {
                permit: Permit::new(
                    grant.slot,
                    grant.overflow,
                    holder,
                    Arc::clone(&self.hold_times),
                ),
                waited: now.elapsed(),
                shadow_refusal: grant.shadow_refusal,
            }),
            Err(open) => Err(refused(Reason::Draining, policy, now, Some(open))),
        }
    }
}

impl Traffic for AdmissionController {
    fn close(&self) {
        self.close_queue();
    }

    fn cut(&self) -> u64 {
        self.holders.end_the_unadmitted();
        self.holders.cut_all(CutCause::Drain) as u64
    }

    fn idle(&self) -> BoxFuture<'static, ()> {
        let holders = Arc::clone(&self.holders);
        Box::pin(async move { holders.wait_idle().await })
    }

    fn in_flight(&self) -> u64 {
        self.holders.in_flight()
    }
}

fn refused(
    reason: Reason,
    policy: &TenantPolicy,
    asked_at: Instant,
    open: Option<OpenGuard>,
) -> Refused {
    Refused {
        reason,
        tenant: policy.id.clone(),
        limit: policy.max_in_flight,
        waited: asked_at.elapsed(),
        _open: open,
    }
}

/// The store gave no answer.
fn unanswered(policy: &TenantPolicy, error: &StoreError) -> Reason {
    tracing::debug!(tenant = %policy.id, %error, "quota store gave no answer");
    Reason::QuotaUnavailable
}

/// The reason for a request that does not queue.
fn at_once(scope: FullScope) -> Reason {
    match scope {
        FullScope::Tenant => Reason::TenantInFlight,
        FullScope::Pool => Reason::PoolSaturated,
    }
}

/// The reason for a request whose queue did not help: the tenant's own, unless it waited for a
/// pool, which is ours to answer for.
fn in_queue(cause: FullScope, own: Reason) -> Reason {
    match cause {
        FullScope::Tenant => own,
        FullScope::Pool => Reason::PoolSaturated,
    }
}
