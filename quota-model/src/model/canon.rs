//! One representative for states that behave alike.
//!
//! Numbers of which only the order matters are replaced by their ranks, what can never be looked at
//! again is forgotten, and holders of one class are sorted.

use super::config::Cfg;
use super::state::{Agent, Place, Post, State};
use crate::store::{Domain, Leaf, Store};

/// A set of small numbers; the rank of a member is the number of smaller members.
#[derive(Clone, Copy)]
struct Ranks(u64);

impl Ranks {
    /// 0 keeps its meaning ("none").
    const fn new() -> Self {
        Self(1)
    }

    fn add(&mut self, x: u16) {
        self.0 |= 1 << x;
    }

    fn of(self, x: u16) -> u16 {
        let below = self.0 & ((1u64 << x) - 1);
        u16::try_from(below.count_ones()).unwrap_or(u16::MAX)
    }
}

fn stores(state: &State) -> impl Iterator<Item = &Store> {
    state.servers.iter().map(|p| &p.store).chain([&state.snapshot])
}

fn domains(state: &mut State) -> impl Iterator<Item = &mut Domain> {
    let State { servers, snapshot, .. } = state;
    let stores = servers.iter_mut().map(|p| &mut p.store).chain([snapshot]);
    stores.filter_map(|store| store.domain_mut())
}

impl Cfg {
    /// Puts the state into its canonical form.
    pub fn canon(&self, state: &mut State) {
        for domain in domains(state) {
            self.tidy(domain);
        }
        for who in 0..state.agents.len() {
            if self.heal {
                self.lower_versions(state, who);
            } else {
                forget_versions(state, who);
            }
        }
        for agent in state.agents.iter_mut().filter(|agent| agent.gen_ == 0) {
            // The JOIN it owes will say.
            agent.clock *= u8::from(self.replica.naive_first_clock);
        }
        rank_generations(state);
        for who in 0..state.agents.len() {
            rank_agent(state, who);
        }
        if self.symmetry {
            sort(state);
        }
    }

    /// Forgets what no script can tell from absent, and hints that are not under test.
    fn tidy(&self, domain: &mut Domain) {
        domain.forget_dead(0);
        if !self.heal {
            domain.forget_settled();
        }
        if self.spare + self.floor_share == 0 {
            domain.pressure.clear();
        }
        if self.stall == crate::store::Time::MAX {
            domain.last_beat = 0;
        }
    }
}

impl Cfg {
    /// Stored versions where beats carry the table: entries keep theirs, and what only requests are
    /// compared with is as low as it can be. (An entry that a beat may still list, and that is not
    /// stored, is missing unless its version is settled: there the lease keeps what is settled.)
    fn lower_versions(&self, state: &mut State, who: usize) {
        let agent = &state.agents[who];
        if asks(agent) || !agent.quiet() || !agent.late.is_none() || !agent.beat.is_none() {
            return;
        }
        let mut top = agent.leaves.iter().map(|l| l.sure_v).max().unwrap_or(0);
        let known = self.leaves.iter().zip(agent.leaves).filter(|(_, l)| l.sure_v > 0);
        let known: Vec<Leaf> = known.map(|(leaf, _)| *leaf).collect();
        for domain in domains(state) {
            let Domain { leases, entries, .. } = domain;
            for lease in leases.iter_mut().filter(|l| usize::from(l.inc.owner) == who) {
                let mine = || entries.iter().filter(|e| e.inc == lease.inc);
                if known.iter().all(|leaf| mine().any(|e| e.leaf == *leaf)) {
                    lease.fv = 0;
                }
                lease.mv = mine().map(|e| e.v).max().unwrap_or(0).max(lease.fv);
                top = top.max(lease.mv);
            }
        }
        state.agents[who].v = top;
    }
}

/// Whether a SET or JOIN of this holder may still be executed.
fn asks(agent: &Agent) -> bool {
    let mut places = Agent::places().filter(|at| *at != Place::Beat);
    places.any(|at| matches!(agent.post(at), Post::Request(_)))
}

/// Stored versions are compared with requests under way. If a holder has none, its next one is newer
/// whatever is stored.
fn forget_versions(state: &mut State, who: usize) {
    if asks(&state.agents[who]) {
        return;
    }
    let agent = &mut state.agents[who];
    if agent.quiet() && agent.late.is_none() {
        agent.v = 0;
    }
    for domain in domains(state) {
        domain.entries.retain(|e| usize::from(e.inc.owner) != who || e.n > 0);
        for entry in domain.entries.iter_mut().filter(|e| usize::from(e.inc.owner) == who) {
            entry.v = 0;
        }
        for lease in domain.leases.iter_mut().filter(|l| usize::from(l.inc.owner) == who) {
            lease.fv = 0;
            lease.mv = 0;
        }
    }
}

fn rank_generations(state: &mut State) {
    let (mut gens, mut idents) = (Ranks::new(), Ranks::new());
    for process in &state.servers {
        idents.add(process.ident);
    }
    for domain in stores(state).filter_map(|s| s.domain()) {
        gens.add(domain.gen_);
        idents.add(domain.founder);
    }
    for agent in &state.agents {
        gens.add(agent.gen_);
        for at in Agent::places() {
            if let Some(mail) = agent.post(at).mail() {
                gens.add(mail.known);
                gens.add(mail.nonce);
            }
            if let Post::Reply(_, answer) = agent.post(at) {
                gens.add(answer.gen_);
            }
        }
    }
    for process in &mut state.servers {
        process.ident = idents.of(process.ident);
    }
    for domain in domains(state) {
        domain.gen_ = gens.of(domain.gen_);
        domain.founder = idents.of(domain.founder);
    }
    for agent in &mut state.agents {
        agent.gen_ = gens.of(agent.gen_);
        for at in Agent::places() {
            if let Some(mail) = agent.post_mut(at).mail_mut() {
                mail.known = gens.of(mail.known);
                mail.nonce = gens.of(mail.nonce);
            }
            if let Post::Reply(_, answer) = agent.post_mut(at) {
                answer.gen_ = gens.of(answer.gen_);
            }
        }
    }
}

/// Versions and lives of one holder.
fn rank_agent(state: &mut State, who: usize) {
    let (mut vers, mut lives) = (Ranks::new(), Ranks::new());
    let agent = &state.agents[who];
    vers.add(agent.v);
    lives.add(u16::from(agent.life));
    for l in &agent.leaves {
        vers.add(l.asked);
        vers.add(l.sure_v);
    }
    for mail in Agent::places().filter_map(|at| agent.post(at).mail()) {
        lives.add(u16::from(mail.life));
        vers.add(mail.v);
        vers.add(mail.fv);
        for item in &mail.items {
            vers.add(item.v);
        }
    }
    let owner = who;
    for domain in stores(state).filter_map(|s| s.domain()) {
        for lease in domain.leases.iter().filter(|l| usize::from(l.inc.owner) == owner) {
            lives.add(u16::from(lease.inc.life));
            vers.add(lease.fv);
            vers.add(lease.mv);
        }
        for entry in domain.entries.iter().filter(|e| usize::from(e.inc.owner) == owner) {
            lives.add(u16::from(entry.inc.life));
            vers.add(entry.v);
        }
        for row in domain.scopes.iter().flat_map(|s| &s.rows) {
            if usize::from(row.inc.owner) == owner {
                lives.add(u16::from(row.inc.life));
            }
        }
    }
    rename(state, who, vers, lives);
}

fn rename(state: &mut State, who: usize, vers: Ranks, lives: Ranks) {
    let life = |l: u8| u8::try_from(lives.of(u16::from(l))).unwrap_or(u8::MAX);
    let agent = &mut state.agents[who];
    agent.v = vers.of(agent.v);
    agent.life = life(agent.life);
    for l in &mut agent.leaves {
        l.asked = vers.of(l.asked);
        l.sure_v = vers.of(l.sure_v);
    }
    for at in Agent::places() {
        if let Some(mail) = agent.post_mut(at).mail_mut() {
            mail.life = life(mail.life);
            mail.v = vers.of(mail.v);
            mail.fv = vers.of(mail.fv);
            for item in &mut mail.items {
                item.v = vers.of(item.v);
            }
        }
    }
    for domain in domains(state) {
        for lease in domain.leases.iter_mut().filter(|l| usize::from(l.inc.owner) == who) {
            lease.inc.life = life(lease.inc.life);
            lease.fv = vers.of(lease.fv);
            lease.mv = vers.of(lease.mv);
        }
        for entry in domain.entries.iter_mut().filter(|e| usize::from(e.inc.owner) == who) {
            entry.inc.life = life(entry.inc.life);
            entry.v = vers.of(entry.v);
        }
        for row in domain.scopes.iter_mut().flat_map(|s| &mut s.rows) {
            if usize::from(row.inc.owner) == who {
                row.inc.life = life(row.inc.life);
            }
        }
    }
}

/// Sorts holders of one class by all that is known of them.
fn sort(state: &mut State) {
    let n = state.agents.len();
    for i in 1..n {
        let mut j = i;
        while j > 0 && out_of_order(state, j - 1, j) {
            swap(state, j - 1, j);
            j -= 1;
        }
    }
}

fn out_of_order(state: &State, a: usize, b: usize) -> bool {
    if state.agents[a].class != state.agents[b].class {
        return false;
    }
    let agents = state.agents[a].cmp(&state.agents[b]);
    agents.then_with(|| books(state, a).cmp(&books(state, b))).is_gt()
}

/// What the stores know of one holder, comparable.
fn books(state: &State, who: usize) -> Vec<[i32; 4]> {
    let mine = |inc: &crate::store::IncId| usize::from(inc.owner) == who;
    let mut out = Vec::new();
    for domain in stores(state).filter_map(|s| s.domain()) {
        for l in domain.leases.iter().filter(|l| mine(&l.inc)) {
            out.push([i32::from(l.inc.life), l.end, i32::from(l.fv), i32::from(l.mv)]);
        }
        for e in domain.entries.iter().filter(|e| mine(&e.inc)) {
            let line = [u16::from(e.leaf.0), e.n, e.idle, e.v].map(i32::from);
            out.push(line);
        }
        for row in domain.scopes.iter().flat_map(|s| &s.rows).filter(|r| mine(&r.inc)) {
            out.push([i32::from(row.inc.life), row.n, row.idle, -1]);
        }
        out.push([-1; 4]);
    }
    out
}

fn swap(state: &mut State, a: usize, b: usize) {
    state.agents.swap(a, b);
    let bits = (state.unhealed >> a & 1, state.unhealed >> b & 1);
    state.unhealed = state.unhealed & !(1 << a | 1 << b) | bits.0 << b | bits.1 << a;
    let name = |x: usize| u8::try_from(x).unwrap_or(u8::MAX);
    let (a, b) = (name(a), name(b));
    let flip = |owner: &mut u8| {
        if *owner == a {
            *owner = b;
        } else if *owner == b {
            *owner = a;
        }
    };
    for domain in domains(state) {
        for lease in &mut domain.leases {
            flip(&mut lease.inc.owner);
        }
        for entry in &mut domain.entries {
            flip(&mut entry.inc.owner);
        }
        for scope in &mut domain.scopes {
            for row in &mut scope.rows {
                flip(&mut row.inc.owner);
            }
            scope.rows.sort_unstable();
        }
        domain.leases.sort_unstable_by_key(|l| l.inc);
        domain.entries.sort_unstable_by_key(|e| (e.inc, e.leaf));
    }
}
