//! Random histories of a small fleet: messages that are lost, repeated and late, replicas that
//! die, a board that loses its memory.

use crate::core::endpoint_drain::*;
use crate::core::ids::{EndpointId, ReplicaId};
use crate::core::observe::EndpointPhase;
use proptest::prelude::*;
use std::time::{Duration, Instant};

const REPLICAS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    RequestLost,
    ReplyLost,
    /// Executed later, perhaps several times.
    Late,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Order {
        at: usize,
        wait: u64,
    },
    Restore {
        at: usize,
        /// The board cannot be asked.
        unheard: bool,
    },
    /// The engine's drain answer.
    Answer {
        at: usize,
    },
    Exchange {
        at: usize,
        fate: Fate,
    },
    Deliver {
        which: usize,
    },
    /// A request is routed, if the endpoint may be chosen.
    Begin {
        at: usize,
    },
    End {
        at: usize,
    },
    Kill {
        at: usize,
    },
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..REPLICAS;
    let fate = prop_oneof![
        5 => Just(Fate::Arrives),
        1 => Just(Fate::RequestLost),
        1 => Just(Fate::ReplyLost),
        1 => Just(Fate::Late),
    ];
    prop_oneof![
        2 => (at.clone(), 1_u64..50).prop_map(|(at, wait)| Step::Order { at, wait }),
        2 => (at.clone(), any::<bool>()).prop_map(|(at, unheard)| Step::Restore { at, unheard }),
        1 => at.clone().prop_map(|at| Step::Answer { at }),
        8 => (at.clone(), fate).prop_map(|(at, fate)| Step::Exchange { at, fate }),
        2 => (0_usize..8).prop_map(|which| Step::Deliver { which }),
        3 => at.clone().prop_map(|at| Step::Begin { at }),
        3 => at.clone().prop_map(|at| Step::End { at }),
        1 => at.prop_map(|at| Step::Kill { at }),
        1 => Just(Step::Flush),
    ]
}

struct Replica {
    id: ReplicaId,
    desk: Desk,
    phase: EndpointPhase,
    in_flight: u64,
    alive: bool,
    number: u64,
    was_drained: bool,
}

struct World {
    now: Instant,
    engine: EndpointId,
    board: Board,
    replicas: Vec<Replica>,
    late: Vec<(ReplicaId, u64, Dispatch)>,
    /// What an operator last said, and to whom, who still lives; `None`: nobody did, or an engine
    /// spoke later.
    last: Option<(bool, usize)>,
    /// Not necessarily who spoke last wins: the board lost its memory, or heard a word late, or
    /// somebody died with a word on the lips.
    doubtful: bool,
}

impl World {
    fn new() -> Self {
        let replica = |n: usize| Replica {
            id: ReplicaId::from(format!("r{n}")),
            desk: Desk::new(&format!("d{n}"), Duration::ZERO),
            phase: EndpointPhase::Ready,
            in_flight: 0,
            alive: true,
            number: 0,
            was_drained: false,
        };
        Self {
            now: Instant::now(),
            engine: EndpointId::from("e:1"),
            board: Board::default(),
            replicas: (0..REPLICAS).map(replica).collect(),
            late: Vec::new(),
            last: None,
            doubtful: false,
        }
    }

    /// The versions on the board.
    fn words(&mut self) -> Vec<u64> {
        let nothing = Dispatch::default();
        let view = self.board.exchange((None, 0), &nothing, None, self.now);
        view.entries.iter().map(|entry| entry.version).collect()
    }

    fn live(&self) -> Vec<ReplicaId> {
        self.replicas.iter().filter(|r| r.alive).map(|r| r.id.clone()).collect()
    }

    /// A call that was given up is executed late.
    fn deliver(&mut self, which: usize) {
        let Some((who, number, dispatch)) = self.late.get(which).cloned() else { return };
        let (before, live) = (self.words(), self.live());
        self.board.exchange((Some(&who), number), &dispatch, Some(live), self.now);
        // A word that is executed late counts as said then, and so may win.
        self.doubtful |= self.words() != before;
    }

    fn step(&mut self, step: Step) {
        self.now += Duration::from_secs(1);
        let now = self.now;
        if let Step::Deliver { which } = step {
            return self.deliver(which);
        }
        if matches!(step, Step::Flush) {
            self.board = Board::default();
            self.doubtful = true;
            return;
        }
        let (Step::Order { at, .. }
        | Step::Restore { at, .. }
        | Step::Answer { at }
        | Step::Exchange { at, .. }
        | Step::Begin { at }
        | Step::End { at }
        | Step::Kill { at }) = step
        else {
            return;
        };
        let engine = self.engine.clone();
        let replica = &mut self.replicas[at];
        if !replica.alive {
            return;
        }
        match step {
            Step::Order { wait, .. } => {
                let answered =
                    replica.desk.word(&engine).is_some_and(|w| w.stance == Stance::Answered);
                replica.desk.order(&engine, Duration::from_secs(wait), now);
                if !answered {
                    self.last = Some((true, at));
                }
            }
            Step::Restore { .. } if replica.desk.restore(&engine, now) => {
                self.last = Some((false, at));
            }
            Step::Restore { unheard: true, .. } => {
                replica.desk.restore_unheard(&engine, now);
                self.last = Some((false, at));
            }
            Step::Answer { .. } if replica.phase == EndpointPhase::Ready => {
                replica.phase = EndpointPhase::Draining;
                replica.desk.noticed(&engine, now);
                // The first of several notices is kept, so a restoration between them may win: the
                // engine's next answer is the next notice.
                self.last = None;
            }
            Step::Begin { .. } if replica.phase == EndpointPhase::Ready => replica.in_flight += 1,
            Step::End { .. } => replica.in_flight = replica.in_flight.saturating_sub(1),
            Step::Exchange { fate, .. } => self.exchange(at, fate),
            // The last one that lives must be able to tell how it ended.
            Step::Kill { .. }
                if self.last.is_none_or(|(_, last)| last != at) && self.live().len() > 1 =>
            {
                let replica = &mut self.replicas[at];
                (replica.alive, replica.in_flight) = (false, 0);
                // Its last word may still be on its way, or never come.
                let unsaid = replica.desk.word(&engine).is_some_and(|word| !word.posted);
                self.doubtful |= unsaid;
            }
            _ => {}
        }
        self.settle(at);
    }

    fn exchange(&mut self, at: usize, fate: Fate) {
        let (now, live) = (self.now, self.live());
        let replica = &mut self.replicas[at];
        replica.number += 1;
        let in_flight = replica.in_flight;
        let seen = |_: &EndpointId| Seen { in_flight, ..Seen::default() };
        let dispatch = replica.desk.dispatch(now, seen);
        let who = (Some(&replica.id), replica.number);
        match fate {
            Fate::Arrives => {
                let view = self.board.exchange(who, &dispatch, Some(live), now);
                replica.desk.heard(view, now);
            }
            Fate::ReplyLost => {
                self.board.exchange(who, &dispatch, Some(live), now);
                replica.desk.lost();
            }
            Fate::RequestLost => replica.desk.lost(),
            Fate::Late => {
                self.late.push((replica.id.clone(), replica.number, dispatch));
                replica.desk.lost();
            }
        }
    }

    /// The owner's turn: actions, a look, actions.
    fn settle(&mut self, at: usize) {
        let (now, replica) = (self.now, &mut self.replicas[at]);
        for _ in 0..2 {
            for action in replica.desk.take_actions() {
                replica.phase = match action {
                    Action::Stop(_) | Action::Mark(..) => EndpointPhase::Draining,
                    Action::Serve(_) => EndpointPhase::Ready,
                    Action::Cut(_) => panic!("no deadline is configured"),
                };
            }
            let seen = Seen {
                phase: Some(replica.phase),
                in_flight: replica.in_flight,
                ..Seen::default()
            };
            replica.desk.look(now, |_| seen);
        }
        assert!(replica.desk.take_actions().is_empty(), "settled");
        let drains = replica.desk.drains(&self.engine);
        assert_eq!(drains, replica.phase == EndpointPhase::Draining, "what is said is done");
        self.check_drained(at);
    }

    /// Whoever calls it drained is right: nobody who lives has, or may get, anything there,
    /// unless something was said since.
    fn check_drained(&mut self, at: usize) {
        let replica = &self.replicas[at];
        let in_flight = replica.in_flight;
        let states = replica.desk.states(self.now, |_| Seen { in_flight, ..Seen::default() });
        let drained = states.get(&self.engine).is_some_and(|s| s.state == Stage::Drained);
        let version = replica.desk.word(&self.engine).map_or(0, |word| word.version);
        if drained && !replica.was_drained {
            for other in self.replicas.iter().filter(|other| other.alive) {
                let newer = other.desk.word(&self.engine).is_some_and(|w| w.version > version);
                let empty = other.in_flight == 0 && other.phase == EndpointPhase::Draining;
                assert!(newer || empty, "{} has something there", other.id);
            }
        }
        self.replicas[at].was_drained = drained;
    }

    fn quiet(&mut self) {
        for _ in 0..8 {
            for at in 0..REPLICAS {
                self.step(Step::Exchange { at, fate: Fate::Arrives });
            }
        }
    }

    /// Whether it drains, on which all agree. That it serves need not be known by those who
    /// never heard otherwise.
    fn agreed(&self) -> bool {
        let orders = self.replicas.iter().filter(|r| r.alive).map(|r| {
            let word = r.desk.word(&self.engine).filter(|word| word.stance.drains());
            word.map(|word| (word.version, word.by.clone()))
        });
        let mut orders: Vec<_> = orders.collect();
        orders.dedup();
        assert_eq!(orders.len(), 1, "all agree: {orders:?}");
        orders[0].is_some()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn all_agree_on_what_was_said_last(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in &steps {
            world.step(*step);
        }
        world.quiet();
        let mut drains = world.agreed();
        if let Some((last, _)) = world.last.filter(|_| !world.doubtful) {
            prop_assert_eq!(drains, last, "as it was said last");
        }
        // Whatever is still on its way does not undo it.
        let doubtful = world.doubtful;
        for which in 0..world.late.len() {
            world.step(Step::Deliver { which });
        }
        world.quiet();
        let before = std::mem::replace(&mut drains, world.agreed());
        prop_assert!(doubtful || before == drains, "a late word counted");
        // And an order that stands is fulfilled when the last request ends.
        if drains {
            for at in 0..REPLICAS {
                world.replicas[at].in_flight = 0;
            }
            world.quiet();
            for replica in world.replicas.iter().filter(|replica| replica.alive) {
                prop_assert!(replica.was_drained, "{} calls it drained", replica.id);
            }
        }
    }
}
