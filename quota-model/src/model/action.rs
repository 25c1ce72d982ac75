//! What may happen next.

use super::config::Cfg;
use super::faults::{Edit, reachable};
use super::state::{Agent, Place, Post, State};
use crate::store::Class;
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
    TimeOutBeat(usize),
    Duplicate(usize, usize),
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
        let overdue = matches!(agent.beat, Post::Request(_)) && agent.late.is_none();
        if overdue && budget.late_beat > 0 {
            out.push(Action::TimeOutBeat(who));
        }
        for (call, post) in agent.calls.iter().enumerate() {
            if matches!(post, Post::Request(_)) && agent.late.is_none() {
                if budget.late > 0 {
                    out.push(Action::TimeOut(who, call));
                }
                if budget.duplicate > 0 {
                    out.push(Action::Duplicate(who, call));
                }
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
    pub fn may_start(&self, agent: &Agent, leaf: usize) -> bool {
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

    /// Everything that may happen next; nothing once the exploration is to end.
    pub fn offer(&self, state: &State, out: &mut Vec<Action>) {
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
                    if !self.delayed && !self.reliable && at != Place::Late {
                        out.push(Action::ExecuteMute(who, at));
                    }
                }
                if !post.is_none() && !self.reliable {
                    out.push(Action::Lose(who, at));
                }
            }
        }
        out.push(Action::Tick);
        Self::fault_actions(state, out);
    }
}
