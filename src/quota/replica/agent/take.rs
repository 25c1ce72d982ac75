//! What is made of answers (R4 to R9).

use super::Agent;
use super::give::ON_ITS_WAY;
use crate::quota::replica::book::{LeafId, ScopeId};
use crate::quota::replica::command::{
    Answer, Claimed, Class, Code, Grant, Kind, Learning, Listed, Shown, Token,
};
use crate::quota::replica::common::Common;
use crate::quota::replica::event::{Event, Notice};
use crate::quota::replica::leaf::{Block, Sure, Verdict};
use crate::quota::replica::params::Moment;
use std::sync::Arc;
use std::time::Duration;

/// A floor that was not granted is asked for again after so long.
const FLOOR_AGAIN: Duration = Duration::from_secs(5);

impl Agent {
    /// The command was sent by the incarnation that lives now.
    pub fn sent(&self, token: &Token) -> bool {
        token.class == self.class && token.life == self.life
    }

    /// An answer to a command of this incarnation. `false`: it does not fit the command.
    pub fn take(
        &mut self,
        token: &Token,
        answer: Answer,
        common: &mut Common,
        now: Moment,
    ) -> bool {
        match (&token.kind, answer) {
            (Kind::Join { version, claims }, answer) => {
                self.joined_answer(token.at, *version, claims, answer, common, now)
            }
            (Kind::Beat { .. } | Kind::Set { .. }, Answer::NoLease) => {
                self.fence(common, now);
                true
            }
            (Kind::Beat { .. } | Kind::Set { .. }, Answer::NewGeneration) => {
                self.missed(token);
                if self.is_current(token) {
                    self.forget_generation(common, now);
                }
                true
            }
            (Kind::Beat { settled, table }, Answer::Beaten { learning, pressed }) => {
                self.beating = false;
                if self.is_current(token) && self.serving(now) {
                    self.renew(token.at);
                    self.learn(learning, now);
                    self.pressed(&pressed, common, now);
                    self.settle(*settled, table);
                }
                true
            }
            (Kind::Set { .. }, Answer::Stale) => {
                self.missed(token);
                true
            }
            (
                Kind::Set { version, leaves, scopes },
                Answer::Held { learning, grants, scopes: shown },
            ) => {
                if grants.len() != leaves.len() || shown.len() != scopes.len() {
                    return false;
                }
                if self.is_current(token) && self.serving(now) {
                    let full = self.show(scopes, &shown, common, now);
                    for (leaf, grant) in leaves.iter().zip(grants) {
                        if self.leaves[leaf.0].asked == *version {
                            let scope = grant.at.and_then(|at| full.get(at)).copied();
                            self.granted(*leaf, *version, grant, scope, learning, common, now);
                        }
                    }
                }
                true
            }
            _ => false,
        }
    }

    /// R6: no answer, or one that decides nothing.
    pub fn missed(&mut self, token: &Token) {
        match &token.kind {
            Kind::Join { .. } => self.joining = None,
            Kind::Beat { .. } => {
                self.beating = false;
                self.beat_at = token.at;
            }
            Kind::Set { version, leaves, .. } => {
                for id in leaves {
                    let leaf = self.leaf_mut(*id);
                    if leaf.asked == *version {
                        leaf.give_up();
                    }
                }
            }
            Kind::Look => {}
        }
    }

    fn is_current(&self, token: &Token) -> bool {
        self.generation.is_some() && self.generation == token.generation
    }

    fn renew(&mut self, sent: Moment) {
        let deadline = sent + self.times.own;
        self.deadline = Some(self.deadline.map_or(deadline, |before| before.max(deadline)));
    }

    fn learn(&mut self, learning: Learning, now: Moment) {
        self.learning_until = now + learning.of(self.class);
    }

    fn joined_answer(
        &mut self,
        sent: Moment,
        version: u64,
        claims: &[Claimed],
        answer: Answer,
        common: &mut Common,
        now: Moment,
    ) -> bool {
        if self.joining != Some(version) {
            return true;
        }
        self.joining = None;
        self.join_at = now;
        let (generation, learning, clock) = match answer {
            Answer::Joined { generation, learning, clock } => (generation, learning, clock),
            Answer::Stale => return true,
            Answer::NoLease => {
                self.fence(common, now);
                return true;
            }
            _ => return false,
        };
        let late = now >= sent + self.times.own || self.deadline.is_some_and(|at| now >= at);
        if late {
            return true;
        }
        self.known = Arc::clone(&generation);
        self.generation = Some(generation);
        self.clocks = (clock, now);
        self.unasked = false;
        self.renew(sent);
        self.learn(learning, now);
        self.beat_at = sent + common.jittered(self.times.beat);
        let claimed = claims.iter().map(|claimed| claimed.n).sum();
        self.claimed(version, claims, common, now);
        let learning = learning.of(self.class);
        common.notice(Notice::Joined { class: self.class, claimed, learning });
        true
    }

    fn claimed(&mut self, version: u64, claims: &[Claimed], common: &mut Common, now: Moment) {
        for id in self.ids() {
            let claimed = claims.iter().find(|claimed| claimed.leaf == id);
            let (claim, idle) = claimed.map_or((0, 0), |claimed| (claimed.n, claimed.idle));
            let leaf = self.leaf_mut(id);
            leaf.held = leaf.held.min(claim).max(leaf.running);
            leaf.sure = Sure { n: claim, version: if claim > 0 { version } else { 0 } };
            leaf.told_idle = idle;
            (leaf.dirty, leaf.again) = (false, None);
            if leaf.running > claim {
                // Begun while the JOIN was under way (`open`): claimed by the next one.
                self.generation = None;
                self.unasked = true;
            }
            if !common.tight(id) {
                self.start_waiting(id, common, now);
            }
        }
    }

    /// The scopes of a SET; returned with whether each was known to be under pressure before.
    fn show(
        &mut self,
        scopes: &[ScopeId],
        shown: &[Shown],
        common: &mut Common,
        now: Moment,
    ) -> Vec<(ScopeId, bool)> {
        let pressure = common.params.times.pressure;
        let each = scopes.iter().zip(shown).map(|(id, shown)| {
            let scope = common.book.scope_mut(*id);
            let known = scope.pressed(now);
            scope.show(*shown);
            scope.pressed_until = if shown.pressed { now + pressure } else { Moment::ZERO };
            (*id, known)
        });
        each.collect()
    }

    /// R5.
    #[expect(clippy::too_many_arguments, reason = "one answer, taken apart once")]
    fn granted(
        &mut self,
        id: LeafId,
        version: u64,
        grant: Grant,
        blocking: Option<(ScopeId, bool)>,
        learning: Duration,
        common: &mut Common,
        now: Moment,
    ) {
        let leaf = self.leaf_mut(id);
        if grant.n > leaf.sure.n {
            leaf.turn.begin(now);
        }
        leaf.held = grant.n.max(leaf.running);
        leaf.sure = Sure { n: grant.n, version };
        leaf.told_idle = grant.n.saturating_sub(leaf.asked_need);
        if leaf.shed && leaf.yields_until.is_some() {
            // The others were told of it just now.
            leaf.yields_until = Some(now + ON_ITS_WAY);
        } else {
            leaf.yields_until = None;
            leaf.turn.answered(grant.code != Code::Ok);
        }
        (leaf.asked, leaf.dirty, leaf.shed, leaf.block) = (0, false, false, None);
        leaf.learning = grant.code == Code::Learning;
        self.start_waiting(id, common, now);
        if self.class == Class::Floor {
            self.leaf_mut(id).again = Some(now + FLOOR_AGAIN);
        } else if let Some(again) = self.verdict(id, grant.code, blocking, learning, common, now) {
            let leaf = self.leaf_mut(id);
            leaf.again = Some(again);
            if leaf.freed {
                (leaf.again, leaf.block) = (Some(now), None);
            }
        }
        self.leaf_mut(id).uncover();
        self.trim(id, common, now);
    }

    /// What becomes of those the call covered and left without a slot. `Some`: they stay, and ask
    /// again then.
    fn verdict(
        &mut self,
        id: LeafId,
        code: Code,
        blocking: Option<(ScopeId, bool)>,
        learning: Duration,
        common: &mut Common,
        now: Moment,
    ) -> Option<Moment> {
        match (code, blocking) {
            (Code::Ok, _) => None,
            (Code::Learning, _) if learning > Duration::ZERO => Some(now + learning),
            (Code::Spare, Some((scope, _))) if self.lends(scope, common) => Some(now),
            (Code::Full, Some((scope, known))) => self.full(id, scope, known, common, now),
            (Code::Learning | Code::Spare | Code::Full, _) => Some(common.ask_again(now)),
        }
    }

    /// "Full". Others may hold slots of the scope that nobody uses any more and that the store was
    /// not told of: where nobody waited before, they are asked for them now, so the question is
    /// put again; where they know, such a slot is on its way, so there is a moment for it to be
    /// heard of. Whoever was told "full" before is refused. Who queues stays.
    fn full(
        &mut self,
        id: LeafId,
        scope: ScopeId,
        known: bool,
        common: &mut Common,
        now: Moment,
    ) -> Option<Moment> {
        let kind = common.book.scope(scope).kind;
        let at_once = !self.others_hold(scope, common);
        while let Some(ticket) = self.leaf_mut(id).refuse(kind, at_once, now) {
            common.events.push(Event::Refused(ticket, kind));
        }
        let soon = now + if known { ON_ITS_WAY } else { common.params.grace() };
        let later = common.queue_again(self.leaves[id.0].held > 0, now);
        let patience = now + common.params.patience();
        let leaf = self.leaf_mut(id);
        leaf.sentence(Verdict { scope: kind, at: known.then_some(soon) }, patience);
        leaf.block = Some(Block { scope, until: later });
        let again = if leaf.somebody_asks() { soon } else { later };
        (!leaf.nobody_waits()).then_some(again)
    }

    /// This replica itself holds unused slots of the scope, under other leaves: the next SET
    /// gives them back and takes them in one call.
    fn lends(&self, scope: ScopeId, common: &Common) -> bool {
        self.ids().any(|id| {
            let leaf = &self.leaves[id.0];
            leaf.sure.n > leaf.running && leaf.asked == 0 && common.book.path(id).contains(&scope)
        })
    }

    /// Somebody else holds slots of the scope, of which some may be unused and not reported yet.
    fn others_hold(&self, scope: ScopeId, common: &Common) -> bool {
        let in_scope = self.ids().filter(|id| common.book.path(*id).contains(&scope));
        let own = in_scope.map(|id| u64::from(self.leaves[id.0].sure.n)).sum::<u64>();
        u64::from(common.book.scope(scope).seen.total) > own
    }

    /// R13: who waits, by a beat. All other scopes are calm.
    fn pressed(&mut self, names: &[Arc<str>], common: &mut Common, now: Moment) {
        if self.class == Class::Floor {
            return;
        }
        let until = now + common.params.times.pressure;
        common.book.all_scopes().for_each(|scope| scope.pressed_until = Moment::ZERO);
        for name in names {
            if let Some(id) = common.book.named(name) {
                common.book.scope_mut(id).pressed_until = until;
            }
        }
        for id in self.ids() {
            self.trim(id, common, now);
        }
    }

    /// R10: a leaf that the store was told to be empty, and settled, is out of the books.
    fn settle(&mut self, settled: u64, table: &[Listed]) {
        for Listed { leaf: id, n, idle, version } in table {
            let leaf = self.leaf_mut(*id);
            let same = *version == leaf.sure.version;
            if same && leaf.asked == 0 && !leaf.dirty {
                leaf.told_idle = *idle;
            }
            let same = same && *n == 0 && *version <= settled;
            if same && leaf.asked == 0 && !leaf.dirty && leaf.busy() == 0 && leaf.held == 0 {
                leaf.sure.version = 0;
            }
        }
    }
}
