//! What a step does.

use super::action::Action;
use super::config::Cfg;
use super::network::fresh_generation;
use super::state::State;
use crate::store::Store;

impl Cfg {
    /// The step itself. `None`: it cannot happen.
    pub fn step(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Arrive(who, leaf) => {
                let starts = self.may_start(&state.agents[who], leaf);
                let l = &mut state.agents[who].leaves[leaf];
                if starts {
                    l.used += 1;
                } else {
                    l.fresh += 1;
                }
            }
            Action::Leave(who, leaf) => {
                let l = &mut state.agents[who].leaves[leaf];
                if l.fresh > 0 {
                    l.fresh -= 1;
                } else {
                    l.covered -= 1;
                }
                l.saw_fresh &= l.fresh > 0;
                l.saw_covered &= l.covered > 0;
            }
            Action::End(who, leaf) => {
                let agent = &mut state.agents[who];
                agent.leaves[leaf].used -= 1;
                if agent.lease > 0 {
                    agent.leaves[leaf].start();
                }
            }
            Action::SendSet(who, leaf) => self.send_set(&mut state.agents[who], leaf),
            Action::SendBeat(who) => self.send_beat(&mut state.agents[who]),
            Action::SendJoin(who) => {
                // Chosen on execution unless a copy may be executed again.
                let copied = self.budget.duplicate > 0;
                let nonce = if copied { fresh_generation(state) } else { 0 };
                self.send_join(&mut state.agents[who], nonce);
            }
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
            Action::Tick => self.tick(state)?,
            Action::Reconnect(who) => self.reconnect(state, who),
            fault => self.fault(state, fault)?,
        }
        Some(())
    }

    /// What happens to a message, to a replica, or to the servers.
    fn fault(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::TimeOut(who, call) => {
                state.budget.late -= 1;
                self.time_out(&mut state.agents[who], call);
            }
            Action::TimeOutBeat(who) => {
                state.budget.late_beat -= 1;
                let agent = &mut state.agents[who];
                agent.late = std::mem::take(&mut agent.beat);
            }
            Action::Duplicate(who, call) => {
                state.budget.duplicate -= 1;
                self.duplicate(&mut state.agents[who], call);
            }
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
            other => self.server_fault(state, other)?,
        }
        Some(())
    }

    fn server_fault(&self, state: &mut State, action: Action) -> Option<()> {
        let current = usize::from(state.current);
        match action {
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
}
