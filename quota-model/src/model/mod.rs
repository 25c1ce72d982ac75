//! The protocol around the store: replicas, an asynchronous network, faults.

mod canon;
mod config;
mod faults;
mod mail;
mod network;
mod property;
mod replica;
mod state;

pub use config::{Budget, Cfg, LEAVES, ReplicaRules, Revision};
pub use faults::Edit;
pub use state::{Agent, Place, State};

use crate::store::{Class, Domain, Lease, Store};
use faults::reachable;
use state::{Post, Process};
use stateright::{Model, Property};
use std::sync::atomic::Ordering;

/// One step of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Arrive(usize, usize),
    Leave(usize, usize),
    End(usize, usize),
    SendSet(usize, usize),
    SendBeat(usize),
    SendJoin(usize),
    /// Executed; the answer is under way, or has arrived (without `delayed`).
    Execute(usize, Place),
    /// Executed, but the answer is lost.
    ExecuteMute(usize, Place),
    Deliver(usize, Place),
    Lose(usize, Place),
    TimeOut(usize, usize),
    Tick,
    Crash(usize),
    Restart(usize),
    Pause(usize),
    Resume(usize),
    Reload(usize),
    Reconnect(usize),
    Flush,
    Snapshot,
    FailoverCurrent,
    FailoverToSnapshot,
    FailoverToEmpty,
    SplitBrain,
    ClockStep,
    OutageBegins,
    OutageEnds,
    Edit(Edit),
}

impl Action {
    /// Whether it comes out of a budget of faults.
    pub fn is_fault(self) -> bool {
        !matches!(
            self,
            Self::Arrive(..)
                | Self::Leave(..)
                | Self::End(..)
                | Self::SendSet(..)
                | Self::SendBeat(_)
                | Self::SendJoin(_)
                | Self::Execute(..)
                | Self::ExecuteMute(..)
                | Self::Deliver(..)
                | Self::Tick
                | Self::Restart(_)
                | Self::Resume(_)
                | Self::Reload(_)
                | Self::Reconnect(_)
                | Self::OutageEnds
        )
    }
}

impl Cfg {
    fn agent_actions(&self, state: &State, who: usize, out: &mut Vec<Action>) {
        let agent = &state.agents[who];
        for leaf in 0..self.leaves.len() {
            self.leaf_actions(agent, who, leaf, out);
        }
        let joined = agent.joined();
        let due = agent.lease < self.self_lease(agent.class) || self.replica.naive_no_fence;
        if agent.beat.is_none() && joined && (due || self.heal || self.spare > 0) {
            out.push(Action::SendBeat(who));
        }
        if agent.quiet() && agent.gen_ == 0 {
            out.push(Action::SendJoin(who));
        }
        for at in Agent::places() {
            if matches!(agent.post(at), Post::Reply(..)) {
                out.push(Action::Deliver(who, at));
            }
        }
        if agent.server != state.current {
            out.push(Action::Reconnect(who));
        }
        let budget = &state.budget;
        if budget.pause > 0 {
            out.push(Action::Pause(who));
        }
        if budget.crash > 0 {
            out.push(Action::Crash(who));
        }
        if budget.reload > 0 && usize::from(agent.revision) + 1 < self.revisions.len() {
            out.push(Action::Reload(who));
        }
        for (call, post) in agent.calls.iter().enumerate() {
            if matches!(post, Post::Request(_)) && budget.late > 0 && agent.late.is_none() {
                out.push(Action::TimeOut(who, call));
            }
        }
    }

    fn leaf_actions(&self, agent: &Agent, who: usize, leaf: usize, out: &mut Vec<Action>) {
        let l = &agent.leaves[leaf];
        let waiting = l.covered + l.fresh;
        let most = self.most(leaf);
        let comes = match agent.class {
            Class::Ordinary => waiting < self.waiters && l.used + waiting < most,
            Class::Floor => self.may_start(agent, leaf),
        };
        if comes {
            out.push(Action::Arrive(who, leaf));
        }
        if self.leave && waiting > 0 {
            out.push(Action::Leave(who, leaf));
        }
        if l.used > 0 {
            out.push(Action::End(who, leaf));
        }
        let free = if self.batch { agent.quiet() } else { agent.calls[leaf].is_none() };
        if free && agent.joined() && self.wants_set(agent, leaf) {
            let first = (0..leaf).any(|other| self.batch && self.wants_set(agent, other));
            if !first {
                out.push(Action::SendSet(who, leaf));
            }
        }
    }

    /// R2.
    fn may_start(&self, agent: &Agent, leaf: usize) -> bool {
        let l = &agent.leaves[leaf];
        let held = match agent.class {
            Class::Floor if self.replica.naive_floor_from_config => l.held.max(self.floor_share),
            _ => l.held,
        };
        let in_time = agent.lease > 0 || self.replica.naive_floor_from_config;
        in_time && l.used < held && l.covered + l.fresh == 0
    }

    fn fault_actions(state: &State, out: &mut Vec<Action>) {
        let budget = &state.budget;
        let has_copy = state.snapshot.domain().is_some();
        let mut offer = |left: u8, actions: &[Action]| {
            if left > 0 {
                out.extend_from_slice(actions);
            }
        };
        offer(budget.flush, &[Action::Flush]);
        offer(budget.snapshot, &[Action::Snapshot]);
        offer(budget.failover, &[Action::FailoverCurrent, Action::FailoverToEmpty]);
        offer(budget.clock, &[Action::ClockStep]);
        if has_copy {
            offer(budget.failover, &[Action::FailoverToSnapshot]);
            offer(budget.split, &[Action::SplitBrain]);
        }
        match state.outage {
            false => offer(budget.outage, &[Action::OutageBegins]),
            true => offer(1, &[Action::OutageEnds]),
        }
        if budget.edit > 0 {
            out.extend(Edit::all(state.agents.len()).map(Action::Edit));
        }
    }

    /// The step itself. `None`: it cannot happen.
    fn step(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Arrive(who, leaf) => {
                let starts = self.may_start(&state.agents[who], leaf);
                let l = &mut state.agents[who].leaves[leaf];
                if starts { l.used += 1 } else { l.fresh += 1 }
            }
            Action::Leave(who, leaf) => {
                let l = &mut state.agents[who].leaves[leaf];
                if l.fresh > 0 {
                    l.fresh -= 1
                } else {
                    l.covered -= 1
                }
                l.saw_fresh &= l.fresh > 0;
                l.saw_covered &= l.covered > 0;
            }
            Action::End(who, leaf) => state.agents[who].leaves[leaf].used -= 1,
            Action::SendSet(who, leaf) => self.send_set(&mut state.agents[who], leaf),
            Action::SendBeat(who) => self.send_beat(&mut state.agents[who]),
            Action::SendJoin(who) => self.send_join(&mut state.agents[who]),
            Action::Execute(who, at) => {
                self.execute(state, who, at)?;
                if !self.delayed {
                    self.watch_fullness(state);
                    self.receive(state, who, at);
                }
            }
            Action::ExecuteMute(who, at) => {
                self.execute(state, who, at)?;
                self.lose(&mut state.agents[who], at);
            }
            Action::Deliver(who, at) => self.receive(state, who, at),
            Action::Lose(who, at) => self.lose(&mut state.agents[who], at),
            Action::TimeOut(who, call) => {
                state.budget.late -= 1;
                self.time_out(&mut state.agents[who], call);
            }
            Action::Tick => self.tick(state)?,
            Action::Reconnect(who) => self.reconnect(state, who),
            fault => self.fault(state, fault)?,
        }
        Some(())
    }

    fn fault(&self, state: &mut State, action: Action) -> Option<()> {
        let current = usize::from(state.current);
        match action {
            Action::Crash(who) => {
                state.budget.crash -= 1;
                self.crash(state, who);
            }
            Action::Restart(who) => {
                state.budget.restart -= 1;
                state.agents[who].up = true;
                state.agents[who].server = state.current;
            }
            Action::Pause(who) => {
                state.budget.pause -= 1;
                state.agents[who].paused = true;
            }
            Action::Resume(who) => self.resume(state, who),
            Action::Reload(who) => {
                state.budget.reload -= 1;
                state.agents[who].revision += 1;
                for l in &mut state.agents[who].leaves {
                    l.dirty = true;
                }
            }
            Action::Flush => {
                state.budget.flush -= 1;
                state.servers[current].store = Store::Absent;
            }
            Action::Snapshot => {
                state.budget.snapshot -= 1;
                state.snapshot = state.servers[current].store.clone();
            }
            Action::FailoverCurrent | Action::FailoverToSnapshot | Action::FailoverToEmpty => {
                state.budget.failover -= 1;
                let store = match action {
                    Action::FailoverCurrent => state.servers[current].store.clone(),
                    Action::FailoverToSnapshot => state.snapshot.clone(),
                    _ => Store::Absent,
                };
                self.promote(state, store, false);
            }
            Action::SplitBrain => {
                state.budget.split -= 1;
                let store = state.snapshot.clone();
                self.promote(state, store, true);
            }
            Action::ClockStep => {
                state.budget.clock -= 1;
                self.step_clock(state);
            }
            Action::OutageBegins => {
                state.budget.outage -= 1;
                state.outage = true;
            }
            Action::OutageEnds => state.outage = false,
            Action::Edit(edit) => {
                state.budget.edit -= 1;
                self.edit(state, edit)?;
            }
            _ => return None,
        }
        Some(())
    }

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
            newest: 0,
            unhealed: 0,
            tainted: false,
        };
        self.canon(&mut state);
        state
    }
}

impl Model for Cfg {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, out: &mut Vec<Action>) {
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        for (who, agent) in state.agents.iter().enumerate() {
            if agent.up && !agent.paused {
                self.agent_actions(state, who, out);
            }
            if agent.paused {
                out.push(Action::Resume(who));
            }
            if !agent.up && state.budget.restart > 0 {
                out.push(Action::Restart(who));
            }
            for at in Agent::places() {
                let post = agent.post(at);
                if reachable(state, post) {
                    out.push(Action::Execute(who, at));
                    if !self.delayed && at != Place::Late {
                        out.push(Action::ExecuteMute(who, at));
                    }
                }
                if !post.is_none() {
                    out.push(Action::Lose(who, at));
                }
            }
        }
        out.push(Action::Tick);
        Self::fault_actions(state, out);
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
pub const BOOKS: &str = "books agree";
