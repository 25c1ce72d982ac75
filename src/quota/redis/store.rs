//! The store as the rest of the process sees it.

use super::link::{Confirm, Target};
use super::owner::Owner;
use super::shared::{OnCut, Question, Shared};
use super::wire::Encoder;
use super::{clock, fence, journal::Journal};
use crate::config::{self, StrictFailover, WhenUnavailable};
use crate::core::ids::{PoolId, ReplicaId, TenantId};
use crate::core::quota::{
    Acquired, FullScope, QuotaStore, SlotPath, SlotUsage, StoreError, StoreMeter, StoreStatus,
};
use crate::quota::replica::{Floors, Machine, Params, Ticket, Times};
use futures::future::BoxFuture;
use rand::Rng;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::AbortOnDropHandle;

/// Without a hint, whoever waits for room looks again after a time between these.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_millis(500));

/// What the store is connected to.
#[derive(Clone)]
pub struct Hooks {
    /// Told of every operation.
    pub meter: Arc<dyn StoreMeter>,
    /// Called when this replica's lease ran out with `on_fence: cut`: every stream must be ended
    /// at once. Called on whatever thread noticed it; must not block.
    pub on_cut: Arc<dyn Fn() + Send + Sync>,
}

/// The store `quota.store: redis`: exact over all replicas that share the Redis.
///
/// Dropping it stops its tasks, as if the process died: what it held is granted to others when its
/// lease ends. [`leave`](Self::leave) gives it back first.
pub struct RedisStore {
    shared: Arc<Shared>,
    _owner: AbortOnDropHandle<()>,
    _fence: AbortOnDropHandle<()>,
}

impl RedisStore {
    /// Begin to connect and to serve. Must be called inside a runtime. Never fails: a Redis that
    /// cannot be reached or used is a state, told by the log and by
    /// [`status`](QuotaStore::status), and ends when its cause ends.
    pub fn start(settings: &config::Quota, hooks: Hooks) -> Arc<Self> {
        let params = params(settings);
        let machine = Machine::new(params, rand::rng().random(), clock::now());
        let target = Arc::new(Target::new(settings.redis.clone()));
        let key = format!("{}:{{q0}}", settings.redis.key_prefix);
        let encoder = Arc::new(Encoder::new(key.clone(), &params));
        let on_cut: OnCut = hooks.on_cut;
        let shared = Shared::new(machine, Journal::new(target.to_string(), key), on_cut);
        let owner = Owner {
            shared: Arc::clone(&shared),
            target,
            encoder,
            confirm: confirm(settings),
            timeout: settings.operation_timeout,
            watch: params.times.beat,
            meter: hooks.meter,
        };
        Arc::new(Self {
            _owner: AbortOnDropHandle::new(tokio::spawn(owner.run())),
            _fence: AbortOnDropHandle::new(tokio::spawn(fence::watch(Arc::clone(&shared)))),
            shared,
        })
    }

    /// Wait until the Redis granted this replica its first lease, at most for `limit`. `false`: it
    /// did not yet. Cancel-safe.
    pub async fn ready(&self, limit: Duration) -> bool {
        let mut serving = self.shared.serving.subscribe();
        let ready = serving.wait_for(|serving| *serving);
        tokio::time::timeout(limit, ready).await.is_ok_and(|ready| ready.is_ok())
    }

    /// Give everything back that no request uses, and wait at most `limit` until the Redis knows.
    /// `false`: it was not told all in time; the lease will tell it. To be called when the last
    /// stream has ended.
    pub async fn leave(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        self.shared.with(|machine, _| machine.leave());
        loop {
            let progress = self.shared.progress.notified();
            self.shared.wake.notify_one();
            if self.shared.with(|machine, _| machine.is_empty()) {
                return true;
            }
            if timeout_at(until, progress).await.is_err() {
                return false;
            }
        }
    }
}

impl RedisStore {
    /// What becomes of a question. Cancel-safe: dropped, it gives its place up.
    async fn answer(&self, question: Question) -> Result<Acquired, StoreError> {
        match question {
            Question::Answered(answer) => answer,
            Question::Waits(ticket, answer) => {
                let mut place = Place { shared: &self.shared, ticket: Some(ticket) };
                let answer = answer.await;
                place.ticket = None;
                // The sender is dropped unanswered only when the machine is gone.
                answer.unwrap_or(Err(StoreError::Timeout))
            }
        }
    }

    /// This replica as the store knows it; `None` without a lease.
    pub(super) fn incarnation(&self) -> Option<ReplicaId> {
        self.shared.with(|machine, now| machine.incarnation(now).map(ReplicaId::from))
    }
}

impl QuotaStore for RedisStore {
    fn acquire<'a>(&'a self, path: &'a SlotPath) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        Box::pin(async move {
            self.answer(self.shared.ask(|machine, now| machine.ask(path, now))).await
        })
    }

    fn wait<'a>(
        &'a self,
        path: &'a SlotPath,
        told: Option<FullScope>,
    ) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        Box::pin(async move {
            self.answer(self.shared.ask(|machine, now| machine.wait(path, told, now))).await
        })
    }

    fn room(&self, tenant: &TenantId, pool: &PoolId) -> BoxFuture<'static, ()> {
        // A `notified_owned` future hears every ring from its creation on, polled or not; it is
        // created here, before the caller can ask the store again.
        let bells = self.shared.bells(|machine| machine.scopes(tenant, pool));
        let [tenant, pool] = bells.map(|bell| bell.notified_owned());
        let wait = rand::rng().random_range(LOOK_AGAIN.0..=LOOK_AGAIN.1);
        Box::pin(async move {
            tokio::select! {
                () = tenant => {}
                () = pool => {}
                () = sleep(wait) => {}
            }
        })
    }

    fn usage(&self, tenant: &TenantId) -> SlotUsage {
        self.shared.with(|machine, _| machine.usage(tenant))
    }

    fn status(&self) -> StoreStatus {
        self.shared.with(|machine, now| machine.status(now))
    }
}

/// A request that waits. Dropped without an answer, it gives its place up.
struct Place<'a> {
    shared: &'a Arc<Shared>,
    /// `None`: it was answered.
    ticket: Option<Ticket>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.forget(ticket);
        }
    }
}

fn params(settings: &config::Quota) -> Params {
    let floors = &settings.floors;
    let escrow = settings.when_unavailable == WhenUnavailable::Escrow && floors.percent > 0;
    Params {
        times: Times::of(settings.replica_lease),
        operation_timeout: settings.operation_timeout,
        when_unavailable: settings.when_unavailable,
        on_fence: settings.on_fence,
        floors: escrow.then(|| Floors {
            percent: floors.percent,
            per_replica: floors.per_replica,
            times: Times::of(floors.lease),
        }),
    }
}

fn confirm(settings: &config::Quota) -> Option<Confirm> {
    match settings.strict_failover {
        StrictFailover::Off => None,
        StrictFailover::Wait => Some(Confirm {
            copies: settings.redis.copies,
            within: settings.operation_timeout.mul_f64(0.8),
        }),
    }
}
