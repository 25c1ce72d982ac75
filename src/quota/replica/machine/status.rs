//! What others may know of the replica.

use super::Machine;
use crate::config::WhenUnavailable;
use crate::core::ids::TenantId;
use crate::core::quota::{FullScope, SlotUsage, StoreStatus};
use crate::quota::replica::command::Class;
use crate::quota::replica::event::Lot;
use crate::quota::replica::params::Moment;

impl Machine {
    /// Whether work may begin on a slot now (R2).
    pub fn is_valid(&self, lot: Lot, now: Moment) -> bool {
        let agent = match lot.class {
            Class::Ordinary => Some(&self.ordinary),
            Class::Floor => self.floor.as_ref(),
        };
        let open = self.common.params.when_unavailable == WhenUnavailable::Open;
        agent.is_some_and(|agent| agent.owns(lot) && (open || agent.serving(now)))
    }

    /// Slots of a tenant.
    pub fn usage(&mut self, tenant: &TenantId) -> SlotUsage {
        let id = self.common.book.tenant(tenant);
        let scope = self.common.book.scope(id);
        SlotUsage { here: u64::from(scope.running), fleet: scope.fleet() }
    }

    /// For operators.
    pub fn status(&self, now: Moment) -> StoreStatus {
        let agents = [Some(&self.ordinary), self.floor.as_ref()];
        let mut status = StoreStatus {
            kind: "redis",
            up: self.health.connected() && !self.away(now) && self.ordinary.joined(),
            fenced: self.ordinary.fenced(now),
            learning: self.ordinary.learning(now),
            fleet: self.common.book.scopes_of_kind(FullScope::Tenant).map(|s| s.fleet()).sum(),
            replicas: self.common.replicas,
            last_fault: self.health.last(),
            ..StoreStatus::default()
        };
        for agent in agents.into_iter().flatten() {
            let (held, running) = agent.sums();
            status.held += held;
            status.spare += held - running.min(held);
            if !agent.serving(now) {
                status.unfenced += running;
            }
            if agent.class == Class::Floor {
                status.escrow += running;
            }
        }
        status
    }

    /// The incarnation that has a lease for ordinary slots, by its name in the store.
    pub fn incarnation(&self, now: Moment) -> Option<&str> {
        self.is_serving(now).then(|| self.ordinary.incarnation())
    }

    /// Nothing is held, and the store knows it as far as can be told (R18).
    pub fn is_empty(&self) -> bool {
        self.ordinary.is_empty() && self.floor.as_ref().is_none_or(|floor| floor.is_empty())
    }

    /// The store granted a lease that has not run out.
    pub fn is_serving(&self, now: Moment) -> bool {
        self.ordinary.joined() && self.ordinary.serving(now)
    }
}
