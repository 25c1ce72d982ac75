//! The replica: what it sends, and what it makes of answers (docs/quota-protocol.md, section 4).

use super::config::{Cfg, LEAVES};
use super::state::{Agent, Answer, Item, Kind, LeafState, Mail, Place, Post, State, Status};
use crate::store::{Class, Code};

impl LeafState {
    /// Covered waiters are not covered any more.
    pub fn uncover(&mut self) {
        self.fresh += self.covered;
        self.saw_fresh |= self.saw_covered && self.covered > 0;
        self.covered = 0;
        self.saw_covered = false;
    }

    /// R6: the call is not answered.
    pub fn give_up(&mut self, v: u16) {
        self.uncover();
        if self.asked == v {
            self.asked = 0;
        }
        self.dirty = true;
    }

    /// R2, R5: waiters start on what is held, covered ones first.
    pub fn start(&mut self) {
        let covered = self.held.saturating_sub(self.used).min(self.covered);
        self.used += covered;
        self.covered -= covered;
        let fresh = self.held.saturating_sub(self.used).min(self.fresh);
        self.used += fresh;
        self.fresh -= fresh;
        self.saw_fresh &= self.fresh > 0;
        self.saw_covered &= self.covered > 0;
    }
}

impl Cfg {
    /// Running and waiting.
    pub fn need(&self, agent: &Agent, leaf: usize) -> u8 {
        let state = &agent.leaves[leaf];
        (state.used + state.covered + state.fresh).min(self.most(leaf))
    }

    /// R12, R13, R15.
    pub fn want(&self, agent: &Agent, leaf: usize) -> u8 {
        let need = self.need(agent, leaf);
        let pressed = agent.leaves[leaf].pressed && !self.replica.naive_keep_spare;
        match (pressed, agent.class) {
            (true, _) => need,
            (false, Class::Ordinary) => (need + self.spare).min(self.most(leaf)),
            (false, Class::Floor) => need.max(self.floor_share),
        }
    }

    /// Whether the leaf has a reason for a SET.
    pub fn wants_set(&self, agent: &Agent, leaf: usize) -> bool {
        let state = &agent.leaves[leaf];
        let moved = state.dirty || self.want(agent, leaf) != state.held;
        state.asked == 0 && (moved || self.must_confess(state))
    }

    /// R13: somebody waits for what the store was told to be unused, but it is used by now.
    fn must_confess(&self, state: &LeafState) -> bool {
        let deaf = self.replica.naive_keep_spare || self.replica.naive_keep_silent;
        state.pressed && !deaf && state.told > state.held.saturating_sub(state.used)
    }

    /// Whether waiters or a debt (not the mere wish for spare) make it send a SET.
    pub fn must_set(&self, agent: &Agent, leaf: usize) -> bool {
        let state = &agent.leaves[leaf];
        let need = self.need(agent, leaf);
        let moved = need > state.held || self.want(agent, leaf) < state.held;
        state.dirty || moved || self.must_confess(state)
    }

    /// R3. `first`: the leaf, or with `batch` the first of those that want one.
    pub fn send_set(&self, agent: &mut Agent, first: usize) {
        agent.v += 1;
        let mut mail = Mail {
            kind: Kind::Set,
            server: agent.server,
            life: agent.life,
            known: agent.gen_,
            v: agent.v,
            revision: agent.revision,
            rev: self.dated(agent),
            ..Mail::default()
        };
        for leaf in 0..self.leaves.len() {
            if leaf != first && !(self.batch && self.wants_set(agent, leaf)) {
                continue;
            }
            let (need, want) = (self.need(agent, leaf), self.want(agent, leaf));
            mail.items[leaf] = Item { on: true, n: need, more: want, v: 0 };
            let state = &mut agent.leaves[leaf];
            if !self.replica.naive_lower_on_reply {
                state.held = state.held.min(want);
            }
            state.covered += state.fresh;
            state.saw_covered |= state.saw_fresh;
            state.fresh = 0;
            state.saw_fresh = false;
            state.asked = mail.v;
        }
        agent.calls[first] = Post::Request(mail);
    }

    /// R19: the number of its configuration: when it came, on the store's clock.
    fn dated(&self, agent: &Agent) -> u8 {
        agent.revision + if self.replica.naive_own_dates { 1 } else { agent.clock }
    }

    /// R8, R10.
    pub fn send_beat(&self, agent: &mut Agent) {
        agent.v += u16::from(self.heal && !self.replica.naive_unnumbered_beats);
        let mut mail = Mail {
            kind: Kind::Beat,
            server: agent.server,
            life: agent.life,
            known: agent.gen_,
            ..Mail::default()
        };
        if self.heal {
            let asked = agent.leaves.iter().map(|l| l.asked).filter(|v| *v > 0).min();
            mail.v = agent.v;
            mail.fv = asked.map_or(agent.v, |v| v - 1);
            for (leaf, state) in agent.leaves.iter().enumerate() {
                let unsure = state.asked > 0 || state.dirty;
                let on = state.sure_v > 0 || unsure;
                let idle = if self.spare > 0 { state.sure_n.saturating_sub(state.used) } else { 0 };
                if on {
                    mail.items[leaf] = Item { on, n: state.sure_n, more: idle, v: state.sure_v };
                }
            }
        }
        agent.beat = Post::Request(mail);
    }

    /// R1, R9, R11. `nonce`: a generation nobody used.
    pub fn send_join(&self, agent: &mut Agent, nonce: u16) {
        agent.v += 1;
        let mut mail = Mail {
            kind: Kind::Join,
            server: agent.server,
            life: agent.life,
            known: agent.gen_,
            nonce,
            v: agent.v,
            ..Mail::default()
        };
        for (leaf, state) in agent.leaves.iter_mut().enumerate() {
            let n = if self.replica.naive_claim_used_only { state.used } else { state.held };
            let idle = if self.spare > 0 { n.saturating_sub(state.used) } else { 0 };
            if n > 0 {
                mail.items[leaf] = Item { on: true, n, more: idle, v: 0 };
                mail.force |= self.keep && agent.lease == 0;
            }
            state.asked = mail.v;
        }
        agent.calls[0] = Post::Request(mail);
    }

    /// R11: past the own deadline, or told that the lease lapsed.
    pub fn fence(&self, state: &mut State, who: usize) {
        let agent = &mut state.agents[who];
        let keep = self.keep && agent.up;
        for (leaf, l) in agent.leaves.iter_mut().enumerate() {
            if !keep {
                if self.linger {
                    state.linger[leaf] += l.used;
                }
                l.used = 0;
            }
            l.uncover();
            *l = LeafState {
                held: l.used,
                used: l.used,
                fresh: l.fresh,
                saw_fresh: l.saw_fresh,
                ..LeafState::default()
            };
        }
        for call in 0..LEAVES {
            let post = std::mem::take(&mut agent.calls[call]);
            if matches!(post, Post::Request(_)) && agent.late.is_none() {
                agent.late = post;
            }
        }
        agent.beat = Post::None;
        agent.gen_ = 0;
        agent.lease = 0;
        agent.life += 1;
        agent.v = 0;
    }

    /// Hands an answer to its replica.
    pub fn deliver(&self, state: &mut State, who: usize, mail: &Mail, answer: &Answer, at: Place) {
        match mail.kind {
            Kind::Beat => self.beat_answered(state, who, mail, answer),
            Kind::Join => self.join_answered(state, who, mail, answer),
            Kind::Set => self.set_answered(state, who, mail, answer, at),
        }
    }

    /// Ticks that a lease asked for with this message is worth to its sender now.
    pub fn worth(&self, class: Class, mail: &Mail) -> u8 {
        let lease = self.self_lease(class);
        if self.replica.naive_deadline_from_receipt {
            lease
        } else {
            lease.saturating_sub(mail.age)
        }
    }

    fn beat_answered(&self, state: &mut State, who: usize, mail: &Mail, answer: &Answer) {
        let agent = &mut state.agents[who];
        let alive = agent.lease > 0 || self.replica.naive_reply_unfences;
        if mail.life != agent.life || !alive || agent.gen_ == 0 {
            return;
        }
        match answer.status {
            Status::Ok if mail.known == agent.gen_ => {
                agent.lease = agent.lease.max(self.worth(agent.class, mail));
                agent.gen_ = answer.gen_;
                for (leaf, l) in agent.leaves.iter_mut().enumerate() {
                    l.pressed = answer.pressed[leaf];
                    if mail.items[leaf].on {
                        l.told = mail.items[leaf].more;
                    }
                    forget_empty(l, &mail.items[leaf], mail.fv);
                }
            }
            Status::NewGen if mail.known == agent.gen_ && mail.server == agent.server => {
                agent.gen_ = 0;
            }
            Status::NoLease => self.fence(state, who),
            _ => {}
        }
    }

    fn join_answered(&self, state: &mut State, who: usize, mail: &Mail, answer: &Answer) {
        let agent = &mut state.agents[who];
        if mail.life != agent.life || mail.v != agent.v {
            return;
        }
        for l in &mut agent.leaves {
            l.asked = 0;
        }
        match answer.status {
            Status::Ok => {
                let left = self.worth(agent.class, mail);
                if left == 0 {
                    return;
                }
                agent.gen_ = answer.gen_;
                if agent.clock == 0 || !self.replica.naive_first_clock {
                    agent.clock = self.clock(mail.server);
                }
                agent.lease = agent.lease.max(left);
                for (leaf, l) in agent.leaves.iter_mut().enumerate() {
                    let claimed = mail.items[leaf].n;
                    if !self.replica.naive_claim_used_only {
                        l.held = l.held.min(claimed);
                    }
                    l.dirty = false;
                    l.told = mail.items[leaf].more;
                    if self.heal {
                        l.sure_n = claimed;
                        l.sure_v = if claimed > 0 { mail.v } else { 0 };
                    }
                }
            }
            Status::Stale => {}
            Status::NewGen | Status::NoLease => self.fence(state, who),
        }
    }

    fn set_answered(&self, state: &mut State, who: usize, mail: &Mail, answer: &Answer, at: Place) {
        let agent = &mut state.agents[who];
        let listed: Vec<usize> = (0..LEAVES).filter(|leaf| mail.items[*leaf].on).collect();
        let alive = agent.lease > 0 || self.replica.naive_reply_unfences;
        let mine = mail.life == agent.life && alive && agent.gen_ != 0 && mail.known == agent.gen_;
        let last = listed.iter().all(|leaf| agent.leaves[*leaf].asked == mail.v);
        let counts = mine && ((last && at != Place::Late) || self.replica.naive_accept_any_reply);
        if counts && answer.status == Status::NoLease {
            self.fence(state, who);
            return;
        }
        if counts && answer.status == Status::Ok {
            for &leaf in &listed {
                let bad = self.take(&mut agent.leaves[leaf], leaf, mail, answer, at);
                state.bad_refusal |= bad;
            }
            return;
        }
        if at == Place::Late {
            return;
        }
        for &leaf in &listed {
            agent.leaves[leaf].give_up(mail.v);
        }
        if counts && answer.status == Status::NewGen {
            agent.gen_ = 0;
        }
    }

    /// R5. Returns whether a waiter was refused though its scopes were never seen full.
    fn take(
        &self,
        l: &mut LeafState,
        leaf: usize,
        mail: &Mail,
        answer: &Answer,
        at: Place,
    ) -> bool {
        l.held = answer.n[leaf];
        l.told = answer.n[leaf].saturating_sub(mail.items[leaf].n);
        l.pressed = answer.pressed[leaf];
        if self.heal {
            l.sure_n = answer.n[leaf];
            l.sure_v = mail.v;
        }
        if at != Place::Late {
            l.asked = 0;
            l.dirty = false;
        }
        l.start();
        let refuse = match answer.code[leaf] {
            Code::Full => true,
            Code::Spare => self.replica.naive_refuse_on_spare,
            Code::Learning => self.replica.naive_refuse_on_learning,
            Code::Ok => false,
        };
        if !refuse {
            l.uncover();
            return false;
        }
        let mut bad = l.covered > 0 && !l.saw_covered;
        l.covered = 0;
        l.saw_covered = false;
        if self.replica.naive_stale_refusal {
            bad |= l.fresh > 0 && !l.saw_fresh;
            l.fresh = 0;
            l.saw_fresh = false;
        }
        bad
    }
}

/// R10: a leaf that the store was told to be empty, and settled, is out of the books.
fn forget_empty(l: &mut LeafState, item: &Item, fv: u16) {
    let same = item.on && item.n == 0 && item.v == l.sure_v && item.v <= fv;
    if same && l.asked == 0 && !l.dirty && l.held == 0 {
        l.sure_v = 0;
    }
}
