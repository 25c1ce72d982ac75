//! Time and faults.

use super::config::Cfg;
use super::state::{Agent, Kind, Post, Process, State};
use crate::store::{Domain, Leaf, Store, Time};

/// What is done to a field by hand, with the right seal unless the seal is what is wrong. The first
/// three can deceive until the next beats look at the books; the others are noticed by whoever reads
/// the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edit {
    /// One less in an agent's row of the first scope, and in its sum.
    ForgeRow(usize),
    /// The first scope is deleted.
    DropScope,
    /// An agent's lease is deleted.
    DropLease(usize),
    /// One more, one less in an agent's entry of the first leaf.
    EntryUp(usize),
    EntryDown(usize),
    /// An agent's entry of the first leaf is deleted.
    DropEntry(usize),
    /// One less in an agent's row, but not in the sum.
    RowDown(usize),
    /// The first scope, an agent's entry of the first leaf, an agent's lease: the seal is wrong.
    Garble,
    GarbleEntry(usize),
    GarbleLease(usize),
    /// The header does not parse.
    Header,
}

impl Edit {
    /// Whether caps may be exceeded until everybody has beaten. (With one leaf an entry is its row,
    /// and a larger entry is noticed.)
    pub fn deceives(self, leaves: usize) -> bool {
        match self {
            Self::ForgeRow(_) | Self::DropScope | Self::DropLease(_) => true,
            Self::EntryUp(_) => leaves > 1,
            _ => false,
        }
    }

    /// All edits for `agents` holders.
    pub fn all(agents: usize) -> impl Iterator<Item = Self> {
        let each = (0..agents).flat_map(|a| {
            [
                Self::ForgeRow(a),
                Self::DropLease(a),
                Self::EntryUp(a),
                Self::EntryDown(a),
                Self::DropEntry(a),
                Self::RowDown(a),
                Self::GarbleEntry(a),
                Self::GarbleLease(a),
            ]
        });
        each.chain([Self::DropScope, Self::Garble, Self::Header])
    }
}

impl Cfg {
    /// A tick of every clock. `None`: the environment this configuration assumes forbids it.
    pub fn tick(&self, state: &mut State) -> Option<()> {
        if self.keep_forbids_tick(state) {
            return None;
        }
        state.linger = [0; super::LEAVES];
        for process in &mut state.servers {
            self.age_store(&mut process.store);
        }
        self.age_store(&mut state.snapshot);
        for who in 0..state.agents.len() {
            self.age_messages(&mut state.agents[who]);
            self.age_agent(state, who);
        }
        Some(())
    }

    /// `keep` is exact only if no live lease lapses but through an outage of the whole store, and
    /// everybody comes back while it learns.
    fn keep_forbids_tick(&self, state: &State) -> bool {
        let up = || state.agents.iter().filter(|agent| agent.up);
        let current = state.servers[usize::from(state.current)].store.domain();
        let learning = current.map_or(0, |d| d.learning);
        let silent = current.is_some_and(|d| d.last_beat < 0);
        let lapses = self.no_lapse
            && !state.outage
            && up().any(|a| a.lease > 0 && a.lease < self.self_lease(a.class));
        let misses = self.keep && learning == 1 && up().any(|a| !a.joined());
        let unfenced =
            self.keep && !state.outage && up().any(|a| a.lease == 0) && learning <= 0 && !silent;
        lapses || misses || unfenced
    }

    /// The servers' clocks jump a tick ahead.
    pub fn step_clock(&self, state: &mut State) {
        for process in &mut state.servers {
            self.age_store(&mut process.store);
        }
    }

    fn age_store(&self, store: &mut Store) {
        if let Some(domain) = store.domain_mut() {
            age(domain, self);
        }
    }

    fn age_messages(&self, agent: &mut Agent) {
        let most = self.self_lease(agent.class);
        for at in Agent::places() {
            if let Some(mail) = agent.post_mut(at).mail_mut()
                && mail.kind != Kind::Set
            {
                mail.age = (mail.age + 1).min(most);
            }
        }
    }

    fn age_agent(&self, state: &mut State, who: usize) {
        let agent = &mut state.agents[who];
        let frozen = agent.paused && self.pause_stops_clock;
        if !agent.up || agent.lease == 0 || self.replica.naive_no_fence || frozen {
            return;
        }
        agent.lease -= 1;
        if agent.lease > 0 {
            return;
        }
        if self.replica.naive_reply_unfences {
            // Cut, but not a new incarnation.
            for l in &mut agent.leaves {
                l.used = 0;
            }
        } else if !agent.paused || self.watchdog {
            self.fence(state, who);
        }
    }

    /// The process is gone; the kernel closes its sockets.
    pub fn crash(&self, state: &mut State, who: usize) {
        state.agents[who].up = false;
        self.fence(state, who);
        let agent = &mut state.agents[who];
        agent.paused = false;
        agent.clock = 0;
        for l in &mut agent.leaves {
            l.fresh = 0;
            l.saw_fresh = false;
        }
        state.unhealed &= !(1 << who);
    }

    /// A frozen process goes on.
    pub fn resume(&self, state: &mut State, who: usize) {
        let agent = &mut state.agents[who];
        agent.paused = false;
        if agent.lease == 0 && agent.gen_ != 0 {
            self.fence(state, who);
        }
    }

    /// Another server takes over with `store`.
    pub fn promote(&self, state: &mut State, store: Store, split: bool) {
        let (old, new) = (usize::from(state.current), usize::from(1 - state.current));
        let ident = state.servers[old].ident.max(state.servers[new].ident) + 1;
        state.servers[new] = Process { alive: true, ident, store };
        state.current = 1 - state.current;
        state.snapshot = Store::Absent;
        if !split {
            state.servers[old] = Process { alive: false, ident: 0, store: Store::Absent };
            for who in 0..state.agents.len() {
                self.reconnect(state, who);
            }
        }
    }

    /// A field is edited. `None`: there is no such field.
    pub fn edit(&self, state: &mut State, edit: Edit) -> Option<()> {
        let incs: Vec<_> = (0..state.agents.len())
            .map(|who| state.agents[who].inc(who, state.agents[who].life))
            .collect();
        let current = usize::from(state.current);
        let domain = state.servers[current].store.domain_mut()?;
        let leaf: Leaf = self.leaves[0];
        let first = leaf.path().next()?;
        match edit {
            Edit::Header => domain.founder = 0,
            Edit::DropLease(who) => {
                let before = domain.leases.len();
                domain.leases.retain(|lease| lease.inc != incs[who]);
                (domain.leases.len() < before).then_some(())?;
            }
            Edit::GarbleLease(who) => {
                domain.leases.iter_mut().find(|lease| lease.inc == incs[who])?.damaged = true;
            }
            Edit::EntryUp(who)
            | Edit::EntryDown(who)
            | Edit::DropEntry(who)
            | Edit::GarbleEntry(who) => {
                let at =
                    domain.entries.iter().position(|e| e.inc == incs[who] && e.leaf == leaf)?;
                match edit {
                    Edit::EntryUp(_) => domain.entries[at].n += 1,
                    Edit::EntryDown(_) => {
                        domain.entries[at].n = domain.entries[at].n.checked_sub(1)?;
                        domain.entries[at].idle = domain.entries[at].idle.min(domain.entries[at].n);
                    }
                    Edit::GarbleEntry(_) => domain.entries[at].damaged = true,
                    _ => {
                        domain.entries.remove(at);
                    }
                }
            }
            Edit::DropScope => {
                let before = domain.scopes.len();
                domain.scopes.retain(|scope| scope.id != first);
                (domain.scopes.len() < before).then_some(())?;
            }
            Edit::Garble | Edit::ForgeRow(_) | Edit::RowDown(_) => {
                let scope = domain.scopes.iter_mut().find(|scope| scope.id == first)?;
                scope.damaged = edit == Edit::Garble;
                if let Edit::ForgeRow(who) | Edit::RowDown(who) = edit {
                    let at = scope.rows.iter().position(|row| row.inc == incs[who])?;
                    scope.rows[at].n -= 1;
                    scope.rows[at].idle = scope.rows[at].idle.min(scope.rows[at].n);
                    if matches!(edit, Edit::ForgeRow(_)) {
                        scope.total -= 1;
                        scope.idle = scope.rows.iter().map(|row| row.idle).sum();
                    }
                    scope.rows.retain(|row| row.n > 0);
                }
            }
        }
        state.unhealed = up_mask(state);
        mark_beats(state);
        state.tainted |= edit.deceives(self.leaves.len());
        Some(())
    }
}

/// Beats that are under way cannot know of what was edited.
fn mark_beats(state: &mut State) {
    for agent in &mut state.agents {
        for at in Agent::places() {
            if let Some(mail) = agent.post_mut(at).mail_mut() {
                mail.unaware = mail.kind == Kind::Beat;
            }
        }
    }
}

fn up_mask(state: &State) -> u8 {
    let up = state.agents.iter().enumerate().filter(|(_, agent)| agent.up);
    up.fold(0, |mask, (who, _)| mask | (1 << who))
}

/// One tick less for everything; what is over stays over.
fn age(domain: &mut Domain, cfg: &Cfg) {
    let oldest = -cfg.lease_store.max(cfg.floor_store);
    let less = |t: &mut Time, least: Time| *t = (*t - 1).max(least);
    less(&mut domain.founded, oldest);
    less(&mut domain.learning, 0);
    less(&mut domain.floor_learning, 0);
    for lease in &mut domain.leases {
        less(&mut lease.end, 0);
    }
    for (_, until) in &mut domain.pressure {
        less(until, 0);
    }
    if cfg.stall == Time::MAX {
        domain.last_beat = 0;
    } else {
        less(&mut domain.last_beat, -cfg.stall - 1);
    }
}

/// Whether the message may be executed: its server lives and can be reached.
pub fn reachable(state: &State, post: &Post) -> bool {
    match post {
        Post::Request(mail) => state.servers[usize::from(mail.server)].alive && !state.outage,
        _ => false,
    }
}
