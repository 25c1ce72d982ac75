//! One replica: its ordinary slots, its floors, and what it makes of a store that may be away.

mod ask;
mod flow;
mod status;

pub use flow::Hint;

use super::agent::Agent;
use super::book::{Book, ScopeId};
use super::command::Class;
use super::common::Common;
use super::event::{Event, Lot};
use super::health::Health;
use super::leaf::Ticket;
use super::params::{Moment, Params};
use crate::core::ids::{PoolId, TenantId};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// The replica's part of the protocol, without I/O: it is told what happened and when, and says
/// what to send. See the module's documentation for the rules it keeps.
#[derive(Debug)]
pub struct Machine {
    common: Common,
    ordinary: Agent,
    floor: Option<Agent>,
    health: Health,
    tickets: u64,
    looking: bool,
    look_at: Moment,
    /// It was told that the store is away, and not yet that it is back.
    was_away: bool,
}

impl Machine {
    /// A replica that has just started. `seed` must not be known to others: names are drawn from
    /// it.
    pub fn new(params: Params, seed: [u8; 32], now: Moment) -> Self {
        let mut common = Common {
            params,
            book: Book::default(),
            random: StdRng::from_seed(seed),
            replicas: 0,
            leaving: false,
            stirred: true,
            events: Vec::new(),
        };
        let floors = params.floors;
        Self {
            ordinary: Agent::new(Class::Ordinary, params.times, &mut common, now),
            floor: floors.map(|f| Agent::new(Class::Floor, f.times, &mut common, now)),
            common,
            health: Health::new(now),
            tickets: 0,
            looking: false,
            look_at: now,
            was_away: false,
        }
    }

    /// A waiter is not there any more. `false`: its event is on the way, or was delivered.
    pub fn forget(&mut self, ticket: Ticket, now: Moment) -> bool {
        self.common.stirred = true;
        self.ordinary.forget(ticket, now)
    }

    /// A request ended.
    pub fn release(&mut self, lot: Lot, now: Moment) {
        let Self { ordinary, floor, common, .. } = self;
        match lot.class {
            Class::Ordinary => ordinary.release(lot, common, now),
            Class::Floor => {
                if let Some(floor) = floor {
                    floor.release(lot, common, now);
                }
            }
        }
    }

    /// What happened since the last call, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.common.events)
    }

    /// The scopes of a tenant and a pool, for those who wait for [`Event::Room`].
    pub fn scopes(&mut self, tenant: &TenantId, pool: &PoolId) -> [ScopeId; 2] {
        [self.common.book.tenant(tenant), self.common.book.pool(pool)]
    }

    /// Whether something may be due earlier than [`next`](Self::next) last said.
    pub fn take_stir(&mut self) -> bool {
        std::mem::take(&mut self.common.stirred)
    }

    /// When the earliest lease is over, unless it is renewed.
    pub fn deadline(&self) -> Option<Moment> {
        let agents = [Some(&self.ordinary), self.floor.as_ref()];
        agents.into_iter().flatten().filter_map(Agent::deadline).min()
    }

    /// From now on no slot is kept unused (R18).
    pub fn leave(&mut self) {
        self.common.leaving = true;
        self.common.stirred = true;
    }

    fn away(&self, now: Moment) -> bool {
        self.health.away(now, self.common.params.operation_timeout)
    }
}
