//! The protocol around the store: replicas, an asynchronous network, faults.

mod action;
mod canon;
mod config;
mod faults;
mod mail;
mod network;
mod property;
mod replica;
mod state;
mod step;

pub use action::Action;
pub use config::{Budget, Cfg, LEAVES, ReplicaRules, Revision};
pub use faults::Edit;
pub use state::{Agent, Place, State};

use crate::store::{Class, Domain, Lease, Store};
use state::{Kind, Mail, Post, Process};
use stateright::{Model, Property};

impl Cfg {
    /// All holders joined, nothing held, nothing to learn: losses come later.
    fn start(&self) -> State {
        let mut domain = Domain { gen_: 1, founder: 1, ..Domain::default() };
        let mut agents = Vec::new();
        for (who, class) in self.agents.iter().enumerate() {
            let agent = Agent {
                class: *class,
                up: true,
                paused: false,
                server: 0,
                life: 1,
                gen_: 1,
                lease: self.self_lease(*class),
                v: 0,
                revision: 0,
                clock: self.clock(0),
                leaves: Default::default(),
                calls: Default::default(),
                beat: Post::None,
                late: Post::None,
            };
            let end = match class {
                Class::Ordinary => self.lease_store,
                Class::Floor => self.floor_store,
            };
            domain.put_lease(Lease { inc: agent.inc(who, 1), end, ..Lease::default() });
            agents.push(agent);
        }
        if self.copy {
            Self::copy_of_join(&mut agents[0], &mut domain);
        }
        domain.founded = -self.lease_store.max(self.floor_store);
        let idle = Process { alive: false, ident: 0, store: Store::Absent };
        let mut state = State {
            agents,
            servers: [Process { alive: true, ident: 1, store: Store::Own(domain) }, idle],
            current: 0,
            snapshot: Store::Absent,
            linger: [0; LEAVES],
            budget: self.budget,
            outage: false,
            bad_refusal: false,
            bad_growth: false,
            bad_damage: false,
            newest: 0,
            unhealed: 0,
            tainted: false,
        };
        self.canon(&mut state);
        state
    }

    /// The JOIN was version 1, claimed nothing, and its nonce is the generation.
    fn copy_of_join(agent: &mut Agent, domain: &mut Domain) {
        agent.v = 1;
        let join = Mail { kind: Kind::Join, life: agent.life, nonce: 1, v: 1, ..Mail::default() };
        agent.late = Post::Request(join);
        for lease in domain.leases.iter_mut().filter(|lease| lease.inc == agent.inc(0, 1)) {
            (lease.fv, lease.mv) = (1, 1);
        }
    }
}

impl Model for Cfg {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, out: &mut Vec<Action>) {
        self.offer(state, out);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.step(&mut state, action)?;
        self.watch_fullness(&mut state);
        self.forget_dead_messages(&mut state);
        self.canon(&mut state);
        if state == *last { None } else { Some(state) }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![Property::<Self>::always(SAFETY, |cfg, state| cfg.safe(state))];
        if self.only_safety {
            return all;
        }
        all.push(Property::always(NO_FALSE_REFUSAL, |_: &Self, state: &State| !state.bad_refusal));
        all.push(Property::always(NO_FALSE_DAMAGE, |_: &Self, state: &State| !state.bad_damage));
        all.push(Property::always(NO_LEAK, |cfg: &Self, state: &State| cfg.leak_free(state)));
        if self.check_books {
            all.push(Property::always(BOOKS, |cfg: &Self, state: &State| cfg.books_agree(state)));
        }
        all
    }
}

/// The properties' names.
pub const SAFETY: &str = "1 in flight <= cap";
pub const NO_FALSE_REFUSAL: &str = "2 no false refusal";
pub const NO_LEAK: &str = "6 no leak";
pub const NO_FALSE_DAMAGE: &str = "no damage seen where none was done";
pub const BOOKS: &str = "books agree";
