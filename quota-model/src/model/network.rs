//! The network: messages are executed, delivered, lost or late in any order.

use super::config::{Cfg, LEAVES};
use super::mail;
use super::state::{Agent, Kind, Mail, Place, Post, State, Status};
use crate::store::{Domain, Reply, Server, Store, UNLIMITED, exec};

impl Cfg {
    /// The server executes a message.
    pub fn execute(&self, state: &mut State, who: usize, at: Place) -> Option<()> {
        let Post::Request(mut mail) = *state.agents[who].post(at) else { return None };
        let attached = mail.server == state.current;
        if mail.kind == Kind::Join && mail.nonce == 0 {
            mail.nonce = fresh_generation(state);
        }
        let agent = &state.agents[who];
        let inc = agent.inc(who, mail.life);
        let command = mail::command(self, agent, inc, &mail);
        let process = &mut state.servers[usize::from(mail.server)];
        let before = process.store.clone();
        let server = Server { now: 0, ident: process.ident };
        let reply = exec(&self.store, &mut process.store, server, &command).reply;
        let gen_ = process.store.domain().map_or(0, |d| d.gen_);
        state.bad_damage |=
            self.untouched(state) && self.took_for_damage(&before, &reply, server, gen_);
        let complete = before.domain().and_then(|d| d.lease(inc)).is_some_and(|l| l.mv <= mail.v);
        let checked =
            matches!(reply, Reply::Beaten { .. }) && complete && self.heal && !mail.unaware;
        if (checked || matches!(reply, Reply::Joined { .. })) && attached {
            state.unhealed &= !(1 << who);
        }
        if before.domain().is_none_or(|d| d.gen_ != gen_) {
            state.newest = 0;
        }
        if matches!(reply, Reply::Held { .. }) {
            state.newest = state.newest.max(mail.revision);
            let after = &state.servers[usize::from(mail.server)].store;
            state.bad_growth |= self.grew_beyond_cap(&before, after, state.newest);
        }
        let answer = mail::answer(self, &mail, &reply, gen_);
        let confirmed =
            if mail.kind == Kind::Set { self.wait_on_grant } else { self.wait_on_lease };
        if confirmed {
            if !attached {
                // Executed, but no copy acknowledges: the sender must not count it.
                self.lose(&mut state.agents[who], at);
                return Some(());
            }
            state.snapshot = state.servers[usize::from(mail.server)].store.clone();
        }
        if mail.kind == Kind::Set {
            mail.age = 0;
        }
        mail.nonce = 0;
        *state.agents[who].post_mut(at) = Post::Reply(mail, answer);
        // Only a naive replica listens to the answer of a call it gave up.
        if at == Place::Late && !self.replica.naive_accept_any_reply {
            state.agents[who].late = Post::None;
        }
        Some(())
    }

    /// Nobody edited a field, and nothing was executed twice.
    fn untouched(&self, state: &State) -> bool {
        let left = &state.budget;
        left.edit == self.budget.edit && left.duplicate == self.budget.duplicate && !self.copy
    }

    /// Whether a command believed the server's memory to be its own, and then found it damaged. (A
    /// JOIN founds a generation at once.)
    fn took_for_damage(&self, before: &Store, reply: &Reply, server: Server, gen_: u16) -> bool {
        let believed = |d: &&Domain| {
            d.founder == server.ident && (server.now - d.last_beat).abs() <= self.stall
        };
        before.domain().filter(believed).is_some_and(|domain| match reply {
            Reply::NewGen | Reply::Joined { .. } => domain.gen_ != gen_,
            _ => false,
        })
    }

    /// A reply arrives, if there is one.
    pub fn receive(&self, state: &mut State, who: usize, at: Place) {
        if let Post::Reply(mail, answer) = *state.agents[who].post(at) {
            *state.agents[who].post_mut(at) = Post::None;
            self.deliver(state, who, &mail, &answer, at);
        }
    }

    /// A message is lost, or its sender does not wait any longer.
    pub fn lose(&self, agent: &mut Agent, at: Place) {
        let post = std::mem::take(agent.post_mut(at));
        let (Place::Call(_), Some(mail)) = (at, post.mail()) else { return };
        for leaf in 0..LEAVES {
            let l = &mut agent.leaves[leaf];
            if mail.kind == Kind::Join {
                l.asked = 0;
            } else if mail.items[leaf].on {
                if self.replica.naive_raise_optimistic {
                    l.used += l.covered;
                    l.held = l.held.max(l.used);
                    l.covered = 0;
                }
                l.give_up(mail.v);
            }
        }
    }

    /// A call's sender gives up while the message is still on its way.
    pub fn time_out(&self, agent: &mut Agent, call: usize) {
        let post = agent.calls[call];
        self.lose(agent, Place::Call(call));
        agent.late = post;
    }

    /// Something between replica and server sends a call again.
    pub fn duplicate(&self, agent: &mut Agent, call: usize) {
        agent.late = agent.calls[call];
    }

    /// A new connection, to the current primary. What was under way on the old one is lost, but for a
    /// late call to a server that lives.
    pub fn reconnect(&self, state: &mut State, who: usize) {
        let current = state.current;
        for at in Agent::places() {
            let Some(mail) = state.agents[who].post(at).mail() else { continue };
            let dead = !state.servers[usize::from(mail.server)].alive;
            if dead || at != Place::Late {
                self.lose(&mut state.agents[who], at);
            }
        }
        state.agents[who].server = current;
    }

    /// Drops messages that can no longer change anything. A reduction only: off for rules that need
    /// them.
    pub fn forget_dead_messages(&self, state: &mut State) {
        let rules = (&self.store, &self.replica);
        let listens = rules.1.naive_accept_any_reply
            || rules.1.naive_deadline_from_receipt
            || rules.1.naive_reply_unfences
            || rules.0.naive_beat_gen_blind;
        for who in 0..state.agents.len() {
            let agent = &state.agents[who];
            if let Some(mail) = agent.beat.mail() {
                let foreign = mail.known != agent.gen_ || mail.life != agent.life;
                let late = matches!(agent.beat, Post::Reply(_, a) if a.status == Status::Ok)
                    && self.worth(agent.class, mail) <= agent.lease
                    && self.spare == 0
                    && !self.heal;
                if !listens && (foreign || late) {
                    state.agents[who].beat = Post::None;
                }
            }
            if let Post::Request(mail) = state.agents[who].late {
                let process = &state.servers[usize::from(mail.server)];
                if !process.alive || (!listens && self.inert(who, &mail, state)) {
                    state.agents[who].late = Post::None;
                }
            }
        }
    }

    /// Ghost: a SET raised a sum above the cap of the newest configuration it was told.
    fn grew_beyond_cap(&self, before: &Store, after: &Store, newest: u8) -> bool {
        let old = |id| before.domain().map_or(0, |d| d.total(id));
        after.domain().is_some_and(|domain| {
            domain.scopes.iter().any(|s| {
                let cap = self.cap(newest, s.id);
                cap != UNLIMITED && s.total > cap && s.total > old(s.id)
            })
        })
    }

    /// Whether a late SET will be refused whatever happens before it is executed.
    fn inert(&self, who: usize, mail: &Mail, state: &State) -> bool {
        if mail.kind != Kind::Set || self.store.naive_no_version || self.store.naive_no_lease_check
        {
            return false;
        }
        let process = &state.servers[usize::from(mail.server)];
        let Store::Own(domain) = &process.store else { return true };
        let inc = state.agents[who].inc(who, mail.life);
        let Some(lease) = domain.lease(inc) else { return true };
        let stale = |leaf: usize| {
            let v = domain.entry(inc, self.leaves[leaf]).map_or(lease.fv, |e| e.v.max(lease.fv));
            mail.items[leaf].on && mail.v <= v
        };
        mail.known != domain.gen_ || (0..self.leaves.len()).any(stale)
    }
}

/// A generation number nobody uses.
pub fn fresh_generation(state: &State) -> u16 {
    let stores = state.servers.iter().map(|p| &p.store).chain([&state.snapshot]);
    let stored = stores.filter_map(|s| s.domain()).map(|d| d.gen_);
    let known = state.agents.iter().flat_map(|agent| {
        let mails = Agent::places().filter_map(|at| agent.post(at).mail());
        let mails = mails.map(|mail| mail.known.max(mail.nonce));
        mails.chain([agent.gen_]).collect::<Vec<_>>()
    });
    stored.chain(known).max().unwrap_or(0) + 1
}
