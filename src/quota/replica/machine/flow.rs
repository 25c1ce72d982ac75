//! Time passes, commands go out, answers and hints come in.

use super::Machine;
use crate::core::quota::StoreFault;
use crate::quota::replica::agent::Agent;
use crate::quota::replica::command::{Answer, Call, Fleet, Kind, Token};
use crate::quota::replica::event::{Event, Notice};
use crate::quota::replica::params::Moment;
use std::time::Duration;

/// Between two looks at the fleet.
const LOOK: Duration = Duration::from_secs(1);

/// What somebody published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Somebody began to wait in the scope.
    Pressure(String),
    /// A slot came free where somebody waits.
    Free(String),
}

impl Machine {
    /// Fence whatever is past its deadline (R11). Cheap; to be called by a timer of its own too.
    pub fn watch(&mut self, now: Moment) {
        let Self { ordinary, floor, common, .. } = self;
        for agent in [Some(ordinary), floor.as_mut()].into_iter().flatten() {
            if agent.deadline().is_some_and(|deadline| now >= deadline) {
                agent.fence(common, now);
            }
        }
    }

    /// What to send now. `now` was read before this call.
    pub fn poll(&mut self, now: Moment) -> Vec<Call> {
        self.watch(now);
        self.expire(now);
        let away = self.away(now);
        if away {
            // The first connection of a process that starts is not an outage yet.
            if let Some(fault) = self.health.last().filter(|_| !self.was_away) {
                self.was_away = true;
                self.common.notice(Notice::Away(fault));
            }
            self.dismiss(now);
        }
        let mut calls = Vec::new();
        if !self.health.connected() {
            return calls;
        }
        let Self { ordinary, floor, common, health, .. } = self;
        for agent in [Some(ordinary), floor.as_mut()].into_iter().flatten() {
            agent.plan(health, away, common, now, &mut calls);
        }
        if !away && !self.looking && now >= self.look_at {
            self.looking = true;
            self.look_at = now + self.common.jittered(LOOK);
            calls.push(Call::look(now));
        }
        calls
    }

    /// When [`poll`](Self::poll) has something to do, if nothing happens before.
    pub fn next(&self, now: Moment) -> Moment {
        let away = self.away(now);
        let mut next = now + LOOK;
        let mut earlier = |at: Option<Moment>| next = at.map_or(next, |at| next.min(at));
        for agent in [Some(&self.ordinary), self.floor.as_ref()].into_iter().flatten() {
            earlier(agent.deadline());
            earlier(agent.first_until());
            if self.health.connected() {
                let due = agent.next(away, &self.common, now);
                earlier(due.map(|due| due.max(self.health.try_again())));
            }
        }
        if !away {
            earlier(self.health.away_at(self.common.params.operation_timeout));
            earlier((self.health.connected() && !self.looking).then_some(self.look_at));
        }
        next
    }

    /// A connection is there: whatever is owed goes out first.
    pub fn connected(&mut self, now: Moment) {
        self.health.connect(now);
        self.ordinary.resume(now);
        if let Some(floor) = &mut self.floor {
            floor.resume(now);
        }
    }

    /// The connection is gone or cannot be made. Calls on the way are to be answered with the
    /// fault, each.
    pub fn disconnected(&mut self, fault: StoreFault, now: Moment) {
        self.health.disconnect(fault, now);
    }

    /// A call was answered, or will not be.
    pub fn answered(&mut self, token: &Token, answer: Result<Answer, StoreFault>, now: Moment) {
        self.watch(now);
        let fault = match answer {
            Ok(answer) => match self.take(token, answer, now) {
                true => {
                    if self.health.answered(now) {
                        self.back(now);
                    }
                    return;
                }
                false => StoreFault::Protocol,
            },
            Err(fault) => fault,
        };
        let jitter = self.common.chance();
        self.health.failed(fault, token.at, now, jitter);
        self.looking &= !matches!(token.kind, Kind::Look);
        if let Some(agent) = self.sender(token) {
            agent.missed(token);
        }
    }

    /// `false`: the answer does not fit the question.
    fn take(&mut self, token: &Token, answer: Answer, now: Moment) -> bool {
        if matches!(token.kind, Kind::Look) {
            self.looking = false;
            match answer {
                Answer::Seen(fleet) => self.seen(fleet),
                // Memory was lost: the next beat will be told, so let it go out now.
                Answer::NewGeneration => self.ordinary.resume(now),
                _ => return false,
            }
            return true;
        }
        let Self { ordinary, floor, common, .. } = self;
        for agent in [Some(ordinary), floor.as_mut()].into_iter().flatten() {
            if agent.sent(token) {
                return agent.take(token, answer, common, now);
            }
        }
        // Of an incarnation that is over.
        true
    }

    fn sender(&mut self, token: &Token) -> Option<&mut Agent> {
        let agents = [Some(&mut self.ordinary), self.floor.as_mut()];
        agents.into_iter().flatten().find(|agent| agent.sent(token))
    }

    fn back(&mut self, now: Moment) {
        if self.was_away {
            self.was_away = false;
            self.common.notice(Notice::Back);
        }
        self.look_at = now;
    }

    fn seen(&mut self, fleet: Fleet) {
        self.common.replicas = fleet.replicas;
        let book = &mut self.common.book;
        book.all_scopes().for_each(|scope| (scope.seen.total, scope.seen.idle) = (0, 0));
        for shown in fleet.scopes {
            if let Some(id) = book.named(&shown.name) {
                let seen = &mut book.scope_mut(id).seen;
                (seen.cap, seen.total, seen.idle) = (shown.cap, shown.total, shown.idle);
            }
        }
    }

    /// A hint was heard.
    pub fn hint(&mut self, hint: &Hint, now: Moment) {
        let (Hint::Pressure(name) | Hint::Free(name)) = hint;
        let Some(scope) = self.common.book.named(name) else { return };
        match hint {
            Hint::Pressure(_) => {
                let until = now + self.common.params.times.pressure;
                self.common.book.scope_mut(scope).pressed_until = until;
            }
            Hint::Free(_) => {
                self.ordinary.ask_now(scope, &self.common, now);
                self.common.events.push(Event::Room(scope));
            }
        }
    }
}
