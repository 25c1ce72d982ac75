//! Commands as they leave (R1, R3, R8, R9, R10).

use super::Agent;
use crate::core::policy::Revision;
use crate::quota::replica::book::{LeafId, ScopeId};
use crate::quota::replica::command::{
    Ask, Beat, Call, Claim, Claimed, Class, Command, Join, Kind, Listed, Scoped, Set, Tabled, Token,
};
use crate::quota::replica::common::Common;
use crate::quota::replica::names;
use crate::quota::replica::params::Moment;
use std::sync::Arc;

/// Up to so many leaves are in the table of every BEAT, and beyond that in every second one: often
/// enough that an edit by hand is noticed within the own deadline.
const ALWAYS_TABLED: usize = 200;
/// More leaves than that do not fit into one BEAT, which then only renews the lease.
const MOST_TABLED: usize = 900;

impl Agent {
    fn token(&self, now: Moment, kind: Kind) -> Token {
        let (class, life) = (self.class, self.life);
        Token { class, life, generation: self.generation.clone(), at: now, kind }
    }

    /// R9: everything that is held, as one table. A command for every leaf: whatever was asked
    /// before does not count any more.
    pub(super) fn join(&mut self, common: &mut Common, now: Moment) -> Call {
        self.version += 1;
        self.joining = Some(self.version);
        let (mut claims, mut held) = (Vec::new(), Vec::new());
        for id in self.ids() {
            let leaf = self.leaf_mut(id);
            leaf.asked = 0;
            leaf.uncover();
            if leaf.held > 0 {
                let (n, idle) = (leaf.held, leaf.held - leaf.running.min(leaf.held));
                claims.push(Claim { leaf: common.book.name(id), n, idle });
                held.push(Claimed { leaf: id, n, idle });
            }
        }
        let unproven = self.deadline.is_none() || self.unasked;
        let join = Join {
            inc: Arc::clone(&self.inc),
            known: Arc::clone(&self.known),
            nonce: names::random("", &mut common.random),
            version: self.version,
            force: unproven && !claims.is_empty(),
            claims,
        };
        let kind = Kind::Join { version: self.version, claims: held };
        Call { token: self.token(now, kind), command: Command::Join(join) }
    }

    /// R3. What is given up is not used from here on, whatever becomes of the command.
    pub(super) fn set(&mut self, leaves: &[LeafId], common: &mut Common, now: Moment) -> Call {
        self.version += 1;
        let version = self.version;
        let (mut entries, mut scopes, mut raises) = (Vec::new(), Vec::new(), false);
        for id in leaves {
            let sheds = self.sheds(*id, common);
            let want = self.want(*id, common, now);
            let leaf = self.leaf_mut(*id);
            let need = if sheds { leaf.running } else { leaf.busy() };
            raises |= leaf.dirty || want > leaf.sure.n;
            leaf.held = leaf.held.min(want);
            if want < leaf.sure.n {
                leaf.turn.pass();
            }
            (leaf.asked, leaf.asked_need) = (version, need);
            (leaf.again, leaf.freed) = (None, false);
            if sheds {
                leaf.uncover();
            } else {
                leaf.cover();
            }
            entries.push(Ask { leaf: common.book.name(*id), need, want });
            for scope in common.book.path(*id) {
                if !scopes.contains(scope) {
                    scopes.push(*scope);
                }
            }
        }
        let set = Set {
            inc: Arc::clone(&self.inc),
            known: self.generation.clone().unwrap_or_default(),
            version,
            scopes: scopes.iter().map(|scope| self.scoped(*scope, common)).collect(),
            entries,
            raises,
        };
        let kind = Kind::Set { version, leaves: leaves.to_vec(), scopes };
        Call { token: self.token(now, kind), command: Command::Set(set) }
    }

    /// R8, R10. Ends a window of use.
    pub(super) fn beat(&mut self, common: &mut Common, now: Moment) -> Call {
        self.beating = true;
        self.version += 1;
        self.beat_at = now + common.jittered(self.times.beat);
        let outstanding = self.leaves.iter().map(|leaf| leaf.asked).filter(|asked| *asked > 0);
        let settled = outstanding.min().map_or(self.version, |oldest| oldest - 1);
        let (mut table, mut listed) = (Vec::new(), Vec::new());
        for id in self.ids() {
            let leaf = self.leaf_mut(id);
            leaf.usage.turn(leaf.busy());
            if !leaf.is_known() {
                continue;
            }
            let (n, version) = (leaf.sure.n, leaf.sure.version);
            let idle = n.saturating_sub(leaf.running);
            table.push(Tabled { leaf: common.book.name(id), n, idle, version });
            listed.push(Listed { leaf: id, n, idle, version });
        }
        self.tabled = !self.tabled || table.len() <= ALWAYS_TABLED;
        let fits = self.tabled && table.len() <= MOST_TABLED;
        if !fits {
            listed.clear();
        }
        let beat = Beat {
            inc: Arc::clone(&self.inc),
            known: self.generation.clone().unwrap_or_default(),
            settled,
            version: self.version,
            table: fits.then_some(table),
        };
        let kind = Kind::Beat { settled, table: listed };
        Call { token: self.token(now, kind), command: Command::Beat(beat) }
    }

    /// R19: the revision as the store's clock has it.
    fn scoped(&self, id: ScopeId, common: &Common) -> Scoped {
        let scope = common.book.scope(id);
        let (theirs, ours) = self.clocks;
        Scoped {
            name: Arc::clone(&scope.name),
            cap: scope.cap,
            revision: Revision::new(scope.revision).on_clock_of(theirs, ours),
            floor: common.params.floors.map_or(0, |floors| floors.sum(scope.cap)),
        }
    }
}

impl Call {
    /// A question about the whole fleet; belongs to no incarnation.
    pub(in crate::quota::replica) fn look(now: Moment) -> Self {
        let token =
            Token { class: Class::Ordinary, life: 0, generation: None, at: now, kind: Kind::Look };
        Self { token, command: Command::Look }
    }
}
