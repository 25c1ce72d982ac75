//! What must hold.

use super::config::Cfg;
use super::state::{Agent, State};
use crate::store::{Domain, Leaf, ScopeId, UNLIMITED};

impl Cfg {
    fn scopes(&self) -> impl Iterator<Item = ScopeId> {
        let union = self.leaves.iter().fold(0, |bits, leaf| bits | leaf.0);
        Leaf(union).path()
    }

    /// Requests in flight at the engines below a scope.
    pub fn in_flight(&self, state: &State, scope: ScopeId) -> i32 {
        let below = |leaf: usize| {
            let used = state.agents.iter().map(|agent| i32::from(agent.leaves[leaf].used));
            used.sum::<i32>() + i32::from(state.linger[leaf])
        };
        let leaves = self.leaves.iter().enumerate().filter(|(_, leaf)| leaf.touches(scope));
        leaves.map(|(leaf, _)| below(leaf)).sum()
    }

    /// The largest cap any configuration in use so far gave the scope.
    fn ceiling(&self, state: &State, scope: ScopeId) -> i32 {
        let newest = state.agents.iter().map(|agent| agent.revision).max().unwrap_or(0);
        let caps = (0..=newest).map(|revision| self.cap(revision, scope));
        caps.map(|cap| if cap == UNLIMITED { i32::MAX } else { cap }).max().unwrap_or(i32::MAX)
    }

    /// 1. Never more in flight than the cap, and no grant above the cap in force.
    pub fn safe(&self, state: &State) -> bool {
        let within = |scope| self.in_flight(state, scope) <= self.ceiling(state, scope);
        !state.bad_growth && (state.tainted || self.scopes().all(within))
    }

    /// 6. When nothing is under way and nobody wants anything, the store holds for each replica
    ///    exactly what the replica knows of.
    pub fn leak_free(&self, state: &State) -> bool {
        if !self.quiescent(state) {
            return true;
        }
        let process = &state.servers[usize::from(state.current)];
        let Some(domain) = process.store.domain() else { return true };
        state.agents.iter().enumerate().filter(|(_, agent)| agent.up).all(|(who, agent)| {
            let inc = agent.inc(who, agent.life);
            (0..self.leaves.len()).all(|leaf| {
                let stored = domain.entry(inc, self.leaves[leaf]).map_or(0, |entry| entry.n);
                stored == u16::from(agent.leaves[leaf].held)
            })
        })
    }

    fn quiescent(&self, state: &State) -> bool {
        let process = &state.servers[usize::from(state.current)];
        let gen_ = process.store.domain().filter(|d| d.founder == process.ident).map(|d| d.gen_);
        let silent = |agent: &Agent| Agent::places().all(|at| agent.post(at).is_none());
        let done = |agent: &Agent| {
            let idle = |leaf: usize| {
                let l = &agent.leaves[leaf];
                l.used + l.covered + l.fresh == 0 && !self.must_set(agent, leaf)
            };
            let here = agent.joined() && agent.server == state.current;
            !agent.paused && here && Some(agent.gen_) == gen_ && (0..self.leaves.len()).all(idle)
        };
        state.unhealed == 0 && state.agents.iter().all(|a| silent(a) && (!a.up || done(a)))
    }

    /// The store's sums agree with its entries, and no replica believes to hold more than its entry
    /// says. Suspended between an edit and the beats that heal it.
    pub fn books_agree(&self, state: &State) -> bool {
        let process = &state.servers[usize::from(state.current)];
        let Some(domain) = process.store.domain() else { return true };
        if state.unhealed != 0 || domain.founder != process.ident || damaged(domain) {
            return true;
        }
        let covered = state.agents.iter().enumerate().all(|(who, agent)| {
            let inc = agent.inc(who, agent.life);
            let believes = agent.up && agent.joined() && agent.gen_ == domain.gen_;
            !believes
                || (0..self.leaves.len()).all(|leaf| {
                    let stored = domain.entry(inc, self.leaves[leaf]).map_or(0, |e| e.n);
                    u16::from(agent.leaves[leaf].held) <= stored
                })
        });
        covered && sums_agree(domain)
    }

    /// Property 2's ghost: what every waiter saw since it came.
    pub fn watch_fullness(&self, state: &mut State) {
        if !self.check_refusal {
            state.bad_refusal = false;
            return;
        }
        for leaf in 0..self.leaves.len() {
            let full = self.leaves[leaf].path().any(|scope| self.full(state, scope));
            for agent in &mut state.agents {
                let l = &mut agent.leaves[leaf];
                l.saw_covered = l.covered > 0 && (l.saw_covered || full);
                l.saw_fresh = l.fresh > 0 && (l.saw_fresh || full);
            }
        }
    }

    /// No slot of the scope was unused as far as the store was told, on some server that lives.
    fn full(&self, state: &State, scope: ScopeId) -> bool {
        if self.strict_refusal {
            return self.in_flight(state, scope) >= self.ceiling(state, scope);
        }
        state.servers.iter().filter(|process| process.alive).any(|process| {
            let stored = process.store.domain().and_then(|d| d.scope(scope));
            stored.is_some_and(|s| s.cap != UNLIMITED && s.total - s.idle >= s.cap)
        })
    }
}

/// Whether the next reader will notice that a field is not ours.
fn damaged(domain: &Domain) -> bool {
    domain.scopes.iter().any(|s| s.damaged || s.rows_wrong())
        || domain.entries.iter().any(|e| e.damaged)
        || domain.leases.iter().any(|l| l.damaged)
}

fn sums_agree(domain: &Domain) -> bool {
    domain.scopes.iter().all(|scope| {
        let rows = scope.rows.iter().all(|row| {
            let below =
                domain.entries.iter().filter(|e| e.inc == row.inc && e.leaf.touches(scope.id));
            below.map(|entry| i32::from(entry.n)).sum::<i32>() == row.n
        });
        let entries = domain.entries.iter().filter(|e| e.leaf.touches(scope.id));
        let all: i32 = entries.map(|entry| i32::from(entry.n)).sum();
        rows && all == scope.total
    })
}
