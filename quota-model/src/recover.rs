//! Liveness: from every reachable state, without further help, something good can still happen.
//!
//! Keeps whole states and edges, so it is for small configurations only.

use crate::model::{Action, Cfg, State};
use crate::store::Class;
use rustc_hash::FxHashMap;
use stateright::Model;

/// What must stay possible, and by which steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Some replica comes to hold the whole cap of the first scope: slots that were crashed, lost or
    /// released all come back. By any step that is not a fault.
    WholeCap,
    /// Nobody waits: every waiter was served or refused. By the protocol's own steps alone: no request
    /// ends or gives up, and no time passes, so no lease lapses either.
    NobodyWaits,
}

/// What was found.
#[derive(Debug)]
pub struct Recovery {
    pub states: usize,
    /// Every reachable state was seen.
    pub exhausted: bool,
    /// States from which the goal cannot be reached.
    pub stuck: usize,
    pub example: Option<State>,
}

impl Goal {
    fn met(self, cfg: &Cfg, state: &State) -> bool {
        let up = || state.agents.iter().filter(|agent| agent.up);
        match self {
            Self::WholeCap => {
                let held = |agent: &crate::model::Agent| i32::from(agent.leaves[0].held);
                up().next().is_none() || up().any(|agent| held(agent) == cfg.cap(0, 0))
            }
            Self::NobodyWaits => up()
                .filter(|agent| agent.class == Class::Ordinary)
                .all(|agent| agent.leaves.iter().all(|l| l.covered + l.fresh == 0)),
        }
    }

    fn allows(self, action: Action) -> bool {
        let helped = matches!(
            action,
            Action::Arrive(..) | Action::Leave(..) | Action::End(..) | Action::Tick
        );
        !action.is_fault() && (self == Self::WholeCap || !helped)
    }
}

/// Looks for states from which the goal cannot be reached any more.
pub fn recover(cfg: &Cfg, goal: Goal, most: usize) -> Recovery {
    let (states, edges, exhausted) = graph(cfg, goal, most);
    let mut good: Vec<bool> = states.iter().map(|state| goal.met(cfg, state)).collect();
    let before = predecessors(states.len(), &edges);
    let mut todo: Vec<usize> = (0..states.len()).filter(|at| good[*at]).collect();
    while let Some(at) = todo.pop() {
        for &from in &before[at] {
            if !good[from] {
                good[from] = true;
                todo.push(from);
            }
        }
    }
    // States at the edge of a bounded search have successors that were not looked at.
    let seen = if exhausted { states.len() } else { 0 };
    let stuck: Vec<usize> = (0..seen).filter(|at| !good[*at]).collect();
    let example = stuck.first().map(|at| states[*at].clone());
    Recovery { states: states.len(), exhausted, stuck: stuck.len(), example }
}

/// All states, and the edges by allowed steps.
fn graph(cfg: &Cfg, goal: Goal, most: usize) -> (Vec<State>, Vec<(usize, usize)>, bool) {
    let mut ids: FxHashMap<State, usize> = FxHashMap::default();
    let mut states = cfg.init_states();
    for (id, state) in states.iter().enumerate() {
        ids.insert(state.clone(), id);
    }
    let (mut edges, mut actions, mut at) = (Vec::new(), Vec::new(), 0);
    while at < states.len() && states.len() < most {
        actions.clear();
        cfg.actions(&states[at], &mut actions);
        for action in &actions {
            let Some(next) = cfg.next_state(&states[at], *action) else { continue };
            let fresh = states.len();
            let id = *ids.entry(next.clone()).or_insert(fresh);
            if id == fresh {
                states.push(next);
            }
            if goal.allows(*action) {
                edges.push((at, id));
            }
        }
        at += 1;
    }
    let exhausted = at == states.len();
    (states, edges, exhausted)
}

fn predecessors(states: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); states];
    for &(from, to) in edges {
        before[to].push(from);
    }
    before
}
