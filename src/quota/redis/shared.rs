//! The machine behind its lock, and everybody who waits for it.
//!
//! The lock is held for the machine's own steps only: no I/O, no await, no user code. Slots are
//! dropped and hooks are called after it was released, so a slot that comes back while an answer
//! is delivered cannot meet its own lock.

use super::clock;
use super::journal::Journal;
use super::slot::RedisSlot;
use crate::core::quota::{Acquired, StoreError};
use crate::core::sync::lock;
use crate::quota::replica::{Asked, Class, Event, Lot, Machine, Moment, Notice, ScopeId, Ticket};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, oneshot, watch};

type Answer = Result<Acquired, StoreError>;

/// Called when the streams of this replica must end.
pub(super) type OnCut = Arc<dyn Fn() + Send + Sync>;

/// What the store's handle, its slots and its tasks share.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// Something is due.
    pub wake: Notify,
    /// Something was answered.
    pub progress: Notify,
    pub serving: watch::Sender<bool>,
    pub journal: Journal,
    on_cut: OnCut,
}

struct Inner {
    machine: Machine,
    waiting: HashMap<Ticket, oneshot::Sender<Answer>>,
    bells: HashMap<ScopeId, Arc<Notify>>,
}

/// What is to be told after the lock was released.
#[derive(Default)]
struct Deliveries {
    answers: Vec<(oneshot::Sender<Answer>, Outcome)>,
    bells: Vec<Arc<Notify>>,
    notices: Vec<Notice>,
}

enum Outcome {
    Granted(Lot),
    Other(Answer),
}

/// How a request's question was taken.
pub(super) enum Question {
    Answered(Answer),
    Waits(Ticket, oneshot::Receiver<Answer>),
}

impl Shared {
    pub fn new(machine: Machine, journal: Journal, on_cut: OnCut) -> Arc<Self> {
        let inner = Inner { machine, waiting: HashMap::new(), bells: HashMap::new() };
        Arc::new(Self {
            inner: Mutex::new(inner),
            wake: Notify::new(),
            progress: Notify::new(),
            serving: watch::Sender::new(false),
            journal,
            on_cut,
        })
    }

    /// Let the machine act, then tell everybody what came of it.
    pub fn with<T>(self: &Arc<Self>, act: impl FnOnce(&mut Machine, Moment) -> T) -> T {
        let (value, deliveries, stirred) = {
            let mut inner = lock(&self.inner);
            let value = act(&mut inner.machine, clock::now());
            (value, inner.deliveries(), inner.machine.take_stir())
        };
        self.deliver(deliveries);
        if stirred {
            self.wake.notify_one();
        }
        value
    }

    /// A request asks for a slot, by [`Machine::ask`] or [`Machine::wait`].
    pub fn ask(self: &Arc<Self>, question: impl FnOnce(&mut Machine, Moment) -> Asked) -> Question {
        let (question, deliveries, stirred) = {
            let mut inner = lock(&self.inner);
            let question = match question(&mut inner.machine, clock::now()) {
                Asked::Granted(lot) => Ok(lot),
                Asked::Full(scope) => Err(Question::Answered(Ok(Acquired::Full(scope)))),
                Asked::Failed(error) => Err(Question::Answered(Err(error))),
                Asked::Waits(ticket) => {
                    let (sender, receiver) = oneshot::channel();
                    inner.waiting.insert(ticket, sender);
                    Err(Question::Waits(ticket, receiver))
                }
            };
            (question, inner.deliveries(), inner.machine.take_stir())
        };
        self.deliver(deliveries);
        if stirred {
            self.wake.notify_one();
        }
        match question {
            Ok(lot) => Question::Answered(Ok(self.slot(lot))),
            Err(question) => question,
        }
    }

    /// A request does not wait any more.
    pub fn forget(self: &Arc<Self>, ticket: Ticket) {
        // Taken out and dropped after the lock: an answer in it may hold a slot.
        let sender = {
            let mut inner = lock(&self.inner);
            inner.machine.forget(ticket, clock::now());
            inner.waiting.remove(&ticket)
        };
        drop(sender);
        self.wake.notify_one();
    }

    /// The bells of a tenant and a pool.
    pub fn bells(&self, path: impl FnOnce(&mut Machine) -> [ScopeId; 2]) -> [Arc<Notify>; 2] {
        let mut inner = lock(&self.inner);
        let scopes = path(&mut inner.machine);
        scopes.map(|scope| Arc::clone(inner.bells.entry(scope).or_default()))
    }

    fn slot(self: &Arc<Self>, lot: Lot) -> Acquired {
        Acquired::Granted(Box::new(RedisSlot::new(Arc::clone(self), lot)))
    }

    fn deliver(self: &Arc<Self>, deliveries: Deliveries) {
        for notice in deliveries.notices {
            self.journal.notice(notice);
            match notice {
                Notice::Fenced { cut: true, .. } => (self.on_cut)(),
                Notice::Joined { class: Class::Ordinary, .. } => {
                    self.serving.send_replace(true);
                }
                Notice::Fenced { .. }
                | Notice::Joined { .. }
                | Notice::MemoryLost { .. }
                | Notice::Away(_)
                | Notice::Back => {}
            }
        }
        for (sender, outcome) in deliveries.answers {
            let answer = match outcome {
                Outcome::Granted(lot) => Ok(self.slot(lot)),
                Outcome::Other(answer) => answer,
            };
            // Whoever asked is gone: the slot in the answer comes back by its drop.
            let _ = sender.send(answer);
        }
        deliveries.bells.iter().for_each(|bell| bell.notify_waiters());
    }
}

impl Inner {
    fn deliveries(&mut self) -> Deliveries {
        let mut deliveries = Deliveries::default();
        for event in self.machine.take_events() {
            let (ticket, outcome) = match event {
                Event::Granted(ticket, lot) => (ticket, Outcome::Granted(lot)),
                Event::Refused(ticket, scope) => {
                    (ticket, Outcome::Other(Ok(Acquired::Full(scope))))
                }
                Event::Failed(ticket, error) => (ticket, Outcome::Other(Err(error))),
                Event::Room(scope) => {
                    deliveries.bells.extend(self.bells.get(&scope).map(Arc::clone));
                    continue;
                }
                Event::Notice(notice) => {
                    deliveries.notices.push(notice);
                    continue;
                }
            };
            // A ticket has its sender until it is answered or forgotten, under this lock.
            if let Some(sender) = self.waiting.remove(&ticket) {
                deliveries.answers.push((sender, outcome));
            }
        }
        deliveries
    }
}
