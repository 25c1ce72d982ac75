//! Reads the owners of all figures for the admin API and the metrics.

use crate::admission::Holders;
use crate::core::cause::CutCause;
use crate::core::ids::TenantId;
use crate::core::ledger::Ledger;
use crate::core::observe::{DrainState, HolderState, Observe, PoolState, TenantState};
use crate::core::quota::{QuotaStore, StoreStatus};
use crate::lifecycle::Lifecycle;
use crate::proxy::Gateway;
use crate::telemetry::Telemetry;
use crate::upstream::Pools;
use std::sync::Arc;
use tokio::time::Instant;

/// The process as an operator sees it.
pub(super) struct Observer {
    pub gateway: Arc<Gateway>,
    pub telemetry: Arc<Telemetry>,
    pub holders: Arc<Holders>,
    pub store: Arc<dyn QuotaStore>,
    pub pools: Arc<Pools>,
    pub lifecycle: Lifecycle,
    pub started: Instant,
}

impl Observe for Observer {
    fn tenants(&self) -> Vec<TenantState> {
        let live = self.gateway.live();
        let policies = live.tenants.tenants().iter();
        policies
            .map(|policy| {
                let ledger = self.telemetry.ledger(&policy.id);
                TenantState {
                    limit: policy.max_in_flight,
                    mode: policy.mode,
                    fleet_in_flight: self.store.usage(&policy.id).fleet,
                    ..tenant_state(policy.id.clone(), &ledger)
                }
            })
            .collect()
    }

    fn pools(&self) -> Vec<PoolState> {
        self.pools.states()
    }

    fn holders(&self) -> Vec<HolderState> {
        self.holders.list(Instant::now())
    }

    fn store(&self) -> StoreStatus {
        self.store.status()
    }

    fn drain(&self) -> DrainState {
        let total = self.telemetry.total();
        DrainState {
            state: self.lifecycle.phase(),
            in_flight: total.in_flight(),
            queued: total.queued(),
            since_seconds: self.lifecycle.since().map(|since| since.as_secs_f64()),
        }
    }

    fn uptime_seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn awaits_endpoints(&self) -> bool {
        self.pools.awaits_endpoints()
    }

    fn cut_holder(&self, request: &str) -> bool {
        self.holders.cut(request, CutCause::Operator) > 0
    }
}

fn tenant_state(tenant: TenantId, ledger: &Ledger) -> TenantState {
    TenantState {
        tenant,
        limit: 0,
        mode: crate::core::policy::Mode::Enforce,
        in_flight: ledger.in_flight(),
        fleet_in_flight: 0,
        queued: ledger.queued(),
        arrivals: ledger.arrivals(),
        outcomes: ledger.outcomes(),
    }
}
