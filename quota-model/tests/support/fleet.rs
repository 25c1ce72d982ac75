//! Random commands of a small fleet: mostly what correct replicas send, often stale, repeated,
//! reordered or wrong.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use streamgate_quota_model::store::{
    Ask, Beat, Claim, Class, Command, Config, Grant, IncId, Join, Leaf, Op, Reply, ScopeId, Set,
    Tabled, Time, UNLIMITED,
};

/// Milliseconds. Short, so that a case of a few hundred steps sees everything expire.
pub const LEASE: Time = 600;
pub const FLOOR_LEASE: Time = 1500;
pub const STALL: Time = 2500;
pub const PRESSURE: Time = 500;

/// The leaves: tenant and pool, once with both pools, once a scope alone.
const LEAVES: [Leaf; 6] =
    [Leaf(0b0101), Leaf(0b0110), Leaf(0b1001), Leaf(0b1010), Leaf(0b0111), Leaf(0b0100)];

/// One holder as it sees itself.
struct Holder {
    inc: IncId,
    known: u16,
    v: u16,
    table: BTreeMap<Leaf, (u16, u16, u16)>,
}

/// The fleet and its random source.
pub struct Fleet {
    pub rng: StdRng,
    holders: Vec<Holder>,
    history: Vec<(usize, Command)>,
    generations: u16,
}

impl Fleet {
    pub fn new(seed: u64) -> Self {
        let holder = |owner, class| Holder {
            inc: IncId { owner, life: 1, class },
            known: 0,
            v: 0,
            table: BTreeMap::new(),
        };
        let mut holders: Vec<Holder> = (0..3).map(|owner| holder(owner, Class::Ordinary)).collect();
        holders.extend((0..2).map(|owner| holder(owner, Class::Floor)));
        Self { rng: StdRng::seed_from_u64(seed), holders, history: Vec::new(), generations: 0 }
    }

    /// The next command, and whose it is.
    pub fn next(&mut self) -> (usize, Command) {
        if !self.history.is_empty() && self.rng.random_bool(0.1) {
            let from = self.history.len().saturating_sub(20);
            let again = self.history[from..].choose(&mut self.rng).expect("not empty");
            return again.clone();
        }
        let who = self.rng.random_range(0..self.holders.len());
        let joined = self.holders[who].known != 0;
        let op = match self.rng.random_range(0..100) {
            _ if !joined && self.rng.random_bool(0.7) => self.join(who),
            0..5 => self.join(who),
            5..40 => self.beat(who),
            _ => self.set(who),
        };
        let holder = &self.holders[who];
        let known = if self.rng.random_bool(0.03) { holder.known + 1 } else { holder.known };
        let command = Command { inc: holder.inc, known, stall: STALL, op };
        self.history.push((who, command.clone()));
        (who, command)
    }

    /// What the holder makes of an answer (sometimes lost).
    pub fn learn(&mut self, who: usize, command: &Command, reply: &Reply) {
        let holder = &mut self.holders[who];
        if command.inc != holder.inc || self.rng.random_bool(0.1) {
            return;
        }
        match (reply, &command.op) {
            (Reply::Joined { gen_, .. }, Op::Join(join)) => {
                holder.known = *gen_;
                holder.table =
                    join.claims.iter().map(|c| (c.leaf, (c.n, c.idle, join.v))).collect();
            }
            (Reply::Held { grants, .. }, Op::Set(set)) => {
                for (ask, Grant { n, .. }) in set.entries.iter().zip(grants) {
                    holder.table.insert(ask.leaf, (*n, n.saturating_sub(ask.need), set.v));
                }
            }
            (Reply::NewGen, _) if self.rng.random_bool(0.5) => holder.known = 0,
            (Reply::NoLease, _) => {
                holder.inc.life += 1;
                holder.known = 0;
                holder.v = 0;
                holder.table.clear();
            }
            _ => {}
        }
    }

    /// Usually the next version, sometimes an old one.
    fn version(&mut self, who: usize) -> u16 {
        let v = &mut self.holders[who].v;
        *v += 1;
        if self.rng.random_bool(0.07) { self.rng.random_range(0..=*v) } else { *v }
    }

    fn join(&mut self, who: usize) -> Op {
        self.generations += 1;
        let mut claims: Vec<Claim> = self.holders[who]
            .table
            .iter()
            .map(|(leaf, (n, idle, _))| Claim { leaf: *leaf, n: *n, idle: *idle })
            .collect();
        if self.rng.random_bool(0.1) {
            claims.retain(|claim| claim.leaf.0 % 2 == 0);
        }
        if self.rng.random_bool(0.1)
            && let Some(claim) = claims.first_mut()
        {
            claim.n += 1;
        }
        let join = Join {
            lease: if self.rng.random_bool(0.05) { LEASE * 2 } else { LEASE },
            floor_lease: FLOOR_LEASE,
            nonce: self.generations,
            v: self.version(who),
            force: self.rng.random_bool(0.1),
            claims,
        };
        Op::Join(join)
    }

    fn beat(&mut self, who: usize) -> Op {
        let mut table: Vec<Tabled> = self.holders[who]
            .table
            .iter()
            .map(|(leaf, &(n, idle, v))| Tabled { leaf: *leaf, n, idle, v })
            .collect();
        for item in &mut table {
            if self.rng.random_bool(0.01) {
                item.n += 1;
            }
            if self.rng.random_bool(0.2) {
                item.idle = self.rng.random_range(0..=item.n);
            }
        }
        let bv = self.version(who);
        table.retain(|item| item.v <= bv);
        Op::Beat(Beat {
            lease: LEASE,
            floor_lease: FLOOR_LEASE,
            fv: self.rng.random_range(0..=bv),
            bv,
            table: self.rng.random_bool(0.8).then_some(table),
        })
    }

    fn set(&mut self, who: usize) -> Op {
        let mut entries: Vec<Ask> = Vec::new();
        for _ in 0..self.rng.random_range(1..=3) {
            let leaf = *LEAVES.choose(&mut self.rng).expect("not empty");
            let need = self.rng.random_range(0..=3);
            let want = need + self.rng.random_range(0..=2);
            if entries.iter().all(|ask| ask.leaf != leaf) {
                entries.push(Ask { leaf, need, want });
            }
        }
        let mut ids: Vec<ScopeId> = entries.iter().flat_map(|ask| ask.leaf.path()).collect();
        ids.sort_unstable();
        ids.dedup();
        if self.rng.random_bool(0.5) {
            ids.reverse();
        }
        let scopes = ids.into_iter().map(|id| self.config(id)).collect();
        Op::Set(Set { pressure: PRESSURE, v: self.version(who), scopes, entries })
    }

    /// Three revisions in use at once, and now and then two configurations under one number.
    fn config(&mut self, scope: ScopeId) -> Config {
        let rev = self.rng.random_range(1..=3u32);
        let caps = [[UNLIMITED, 4, 3], [6, 5, 7], [4, 3, 5], [2, UNLIMITED, 2]];
        let mut cap = caps[usize::from(scope)][rev as usize - 1];
        if self.rng.random_bool(0.05) {
            cap = self.rng.random_range(0..6);
        }
        Config { scope, cap, rev, floor: self.rng.random_range(0..=2) }
    }
}
