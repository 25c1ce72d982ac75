//! A fleet: machines, the pure store semantics, a network that delays and loses, engines that count.

use super::MS;
use super::wire::{self, Names, Settings};
use crate::core::quota::{FullScope, SlotPath, StoreError, StoreFault};
use crate::quota::replica::{
    Asked, Call, Event, Hint, Lot, Machine, Moment, Notice, Params, Ticket,
};
use crate::quota::suite::path;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;
use streamgate_quota_model::store as model;

/// How the network treats a message.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Longest way of one message.
    pub delay: Duration,
    /// Chance that a command or an answer is lost.
    pub loss: f64,
    /// Chance that a hint is lost.
    pub deaf: f64,
}

pub const CALM: Network = Network { delay: Duration::from_millis(1), loss: 0.0, deaf: 0.0 };

struct Message {
    replica: usize,
    /// Of the process that sent it.
    process: u64,
    call: Call,
    sent: Moment,
    /// When the store executes it; `None`: lost.
    arrives: Option<Moment>,
    /// When the answer is there; `None`: lost.
    returns: Option<Moment>,
    answer: Option<crate::quota::replica::Answer>,
    given_up: bool,
}

/// A request that waits: what was true when it came.
struct Waiting {
    path: SlotPath,
    since: Moment,
    /// It stays until there is a slot.
    queues: bool,
}

pub struct Replica {
    pub machine: Machine,
    /// How far its clock is ahead of the simulation's.
    clock: Duration,
    process: u64,
    waiting: HashMap<Ticket, Waiting>,
    pub running: Vec<(SlotPath, Lot)>,
    /// Nothing reaches it, nothing leaves it.
    pub cut_off: bool,
    /// It stands still (SIGSTOP): its requests run on at the engines.
    pub frozen: bool,
}

pub struct FleetSim {
    pub now: Moment,
    pub replicas: Vec<Replica>,
    pub store: model::Store,
    pub ident: u16,
    pub network: Network,
    /// The store executes nothing.
    pub frozen: bool,
    /// The store executes, but nothing of it is heard.
    pub mute: bool,
    /// Rules of the store.
    pub rules: model::StoreRules,
    /// What the store's clock was set forward by.
    pub stepped: Duration,
    /// How long engines go on with requests whose connection was closed.
    pub linger: Duration,
    /// Requests that nobody waits for any more, until when.
    lingering: Vec<(SlotPath, Moment)>,
    params: Params,
    settings: Settings,
    names: Names,
    messages: VecDeque<Message>,
    pub random: StdRng,
    processes: u64,
    /// When each scope last had no room, by its cap in force.
    full_at: BTreeMap<&'static str, Moment>,
    pub seen: BTreeMap<&'static str, u64>,
}

impl FleetSim {
    pub fn new(params: Params, replicas: usize, seed: u64) -> Self {
        let floor = params.floors.map_or(Duration::ZERO, |floors| floors.times.lease);
        let mut fleet = Self {
            now: Duration::from_secs(1000),
            replicas: Vec::new(),
            store: model::Store::Absent,
            ident: 1,
            network: CALM,
            frozen: false,
            mute: false,
            rules: model::StoreRules::default(),
            stepped: Duration::ZERO,
            linger: Duration::ZERO,
            lingering: Vec::new(),
            settings: Settings {
                lease: params.times.lease,
                floor_lease: floor,
                stall: params.times.stall,
                pressure: params.times.pressure,
            },
            params,
            names: Names::default(),
            messages: VecDeque::new(),
            random: StdRng::seed_from_u64(seed),
            processes: 0,
            full_at: BTreeMap::new(),
            seen: BTreeMap::new(),
        };
        for _ in 0..replicas {
            let replica = fleet.start();
            fleet.replicas.push(replica);
        }
        fleet
    }

    fn start(&mut self) -> Replica {
        /// Nobody's clock is anybody else's.
        const APART: Duration = Duration::from_millis(24 * 3_600_000 + 1);
        self.processes += 1;
        let clock = APART * u32::try_from(self.processes).unwrap();
        let mut machine = Machine::new(self.params, self.random.random(), self.now + clock);
        machine.connected(self.now + clock);
        Replica {
            machine,
            clock,
            process: self.processes,
            waiting: HashMap::new(),
            running: Vec::new(),
            cut_off: false,
            frozen: false,
        }
    }

    /// A process more.
    pub fn add(&mut self) {
        let replica = self.start();
        self.replicas.push(replica);
    }

    /// `kill -9`, and a new process in its place.
    pub fn kill(&mut self, replica: usize) {
        let gone = std::mem::take(&mut self.replicas[replica].running);
        self.close(gone.into_iter().map(|(path, _)| path));
        self.replicas[replica] = self.start();
    }

    /// What a replica's clock shows.
    pub fn time(&self, replica: usize) -> Moment {
        self.now + self.replicas[replica].clock
    }

    pub fn note(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    pub fn count(&self, what: &str) -> u64 {
        self.seen.get(what).copied().unwrap_or(0)
    }

    /// Requests at the engines.
    pub fn in_flight(&self, is: impl Fn(&SlotPath) -> bool) -> usize {
        let all = self.replicas.iter().flat_map(|replica| &replica.running);
        let lingering = self.lingering.iter().filter(|(_, until)| *until > self.now);
        all.map(|(path, _)| path).chain(lingering.map(|(path, _)| path)).filter(|p| is(p)).count()
    }

    pub fn waiting(&self) -> usize {
        self.replicas.iter().map(|replica| replica.waiting.len()).sum()
    }

    /// A request arrives. `true`: it runs at once.
    pub fn ask(&mut self, replica: usize, path: SlotPath) -> bool {
        let (now, time) = (self.now, self.time(replica));
        let asked = self.replicas[replica].machine.ask(&path, time);
        self.events(replica);
        match asked {
            Asked::Granted(lot) => {
                self.begin(replica, path, lot);
                self.note("granted at once");
            }
            Asked::Waits(ticket) => {
                let waiting = Waiting { path, since: now, queues: false };
                self.replicas[replica].waiting.insert(ticket, waiting);
                return false;
            }
            Asked::Full(_) => panic!("nobody who asks is answered by what was said before"),
            Asked::Failed(_) => {
                self.note("failed at once");
                return false;
            }
        }
        true
    }

    /// A request arrives and stays until there is a slot; `told`: the level it waits for.
    pub fn queue(&mut self, replica: usize, path: SlotPath, told: Option<FullScope>) {
        let (now, time) = (self.now, self.time(replica));
        let asked = self.replicas[replica].machine.wait(&path, told, time);
        self.events(replica);
        match asked {
            Asked::Granted(lot) => {
                self.begin(replica, path, lot);
                self.note("granted at once");
            }
            Asked::Waits(ticket) => {
                let waiting = Waiting { path, since: now, queues: true };
                self.replicas[replica].waiting.insert(ticket, waiting);
            }
            Asked::Full(scope) => {
                assert_ne!(Some(scope), told);
                self.note("told at once");
                self.queue(replica, path, Some(scope));
            }
            Asked::Failed(_) => self.note("failed at once"),
        }
    }

    /// Connections of requests are closed; engines notice after a while.
    fn close(&mut self, paths: impl Iterator<Item = SlotPath>) {
        let until = self.now + self.linger;
        self.lingering.extend(paths.map(|path| (path, until)));
    }

    fn begin(&mut self, replica: usize, path: SlotPath, lot: Lot) {
        let time = self.time(replica);
        let Replica { machine, running, .. } = &mut self.replicas[replica];
        assert!(machine.is_valid(lot, time), "a slot is valid when it is granted");
        running.push((path, lot));
    }

    /// A running request ends.
    pub fn end(&mut self, replica: usize, nth: usize) {
        let time = self.time(replica);
        let Replica { machine, running, .. } = &mut self.replicas[replica];
        let (_, lot) = running.swap_remove(nth);
        machine.release(lot, time);
        self.events(replica);
    }

    /// A waiting request gives up.
    pub fn give_up(&mut self, replica: usize) {
        let time = self.time(replica);
        let Replica { machine, waiting, .. } = &mut self.replicas[replica];
        if let Some(ticket) = waiting.keys().min_by_key(|ticket| ticket.number).copied() {
            waiting.remove(&ticket);
            assert!(machine.forget(ticket, time));
        }
    }

    pub fn step(&mut self, by: Duration) {
        self.now += by;
        let awake = |fleet: &Self| {
            let awake = fleet.replicas.iter().enumerate().filter(|(_, replica)| !replica.frozen);
            awake.map(|(at, _)| at).collect::<Vec<_>>()
        };
        for at in awake(self) {
            let time = self.time(at);
            self.replicas[at].machine.watch(time);
            self.events(at);
        }
        self.carry();
        for at in awake(self) {
            self.poll(at);
        }
    }

    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step(MS.min(end - self.now));
        }
    }

    fn poll(&mut self, at: usize) {
        let time = self.time(at);
        let calls = self.replicas[at].machine.poll(time);
        self.events(at);
        let Replica { process, cut_off, .. } = self.replicas[at];
        for call in calls {
            let Network { delay, loss, .. } = self.network;
            let way = |random: &mut StdRng| delay.mul_f64(random.random());
            let lost = cut_off || self.random.random_bool(loss);
            let arrives = self.now + way(&mut self.random);
            let returns = arrives + way(&mut self.random);
            let silent = self.random.random_bool(loss) || self.mute;
            self.messages.push_back(Message {
                replica: at,
                process,
                call,
                sent: self.now,
                arrives: (!lost).then_some(arrives),
                returns: (!lost && !silent).then_some(returns),
                answer: None,
                given_up: false,
            });
        }
    }

    /// Executes and answers what is due; gives up what took too long. A command that was given up
    /// may still be executed.
    fn carry(&mut self) {
        let timeout = self.params.operation_timeout;
        let mut messages = std::mem::take(&mut self.messages);
        for message in &mut messages {
            let due = message.arrives.is_some_and(|at| at <= self.now) && !self.frozen;
            if due && message.answer.is_none() {
                message.answer = Some(self.execute(&message.call));
            }
        }
        messages.retain_mut(|message| {
            let (at, now) = (message.replica, self.now);
            let alive = self.replicas[at].process == message.process;
            if !message.given_up && alive && !self.replicas[at].frozen {
                let returned = message.returns.is_some_and(|at| at <= now);
                let late = now >= message.sent + timeout;
                let answer = message.answer.clone().filter(|_| returned && !late);
                if answer.is_some() || late {
                    let answer = answer.ok_or(StoreFault::Timeout);
                    let time = self.time(at);
                    self.replicas[at].machine.answered(&message.call.token, answer, time);
                    self.events(at);
                    message.given_up = true;
                }
            }
            (alive && !message.given_up) || (message.answer.is_none() && message.arrives.is_some())
        });
        messages.append(&mut self.messages);
        self.messages = messages;
    }

    pub fn server(&self) -> model::Server {
        let now = i32::try_from((self.now + self.stepped).as_millis()).unwrap();
        model::Server { now, ident: self.ident }
    }

    fn execute(&mut self, call: &Call) -> crate::quota::replica::Answer {
        let server = self.server();
        if matches!(call.command, crate::quota::replica::Command::Set(_)) {
            self.note("set");
        }
        let Some(command) = self.names.command(&call.command, &self.settings) else {
            let stall = i32::try_from(self.settings.stall.as_millis()).unwrap();
            return wire::look(&self.store, server, stall);
        };
        let before = self.store.clone();
        let outcome = model::exec(&self.rules, &mut self.store, server, &command);
        let damaged = |store: &model::Store| store.domain().is_some_and(|d| d.founder == 0);
        if damaged(&self.store) && !damaged(&before) {
            let broken = self.rules.naive_drop_unknown;
            assert!(broken, "{command:?} disagrees with the books: {before:?}");
            self.note("damage");
        }
        for hint in &outcome.hints {
            self.publish(&wire::hint(*hint));
        }
        for (id, name) in wire::SCOPES.into_iter().enumerate() {
            let domain = self.store.domain();
            let scope = domain.and_then(|domain| domain.scope(u8::try_from(id).unwrap()));
            if scope.is_some_and(|s| s.cap != model::UNLIMITED && s.total >= s.cap) {
                self.full_at.insert(name, self.now);
            }
        }
        self.names.answer(&outcome.reply)
    }

    fn publish(&mut self, hint: &Hint) {
        for at in 0..self.replicas.len() {
            let Replica { cut_off, frozen, .. } = self.replicas[at];
            if !self.random.random_bool(self.network.deaf) && !cut_off && !frozen {
                let time = self.time(at);
                self.replicas[at].machine.hint(hint, time);
                self.events(at);
            }
        }
    }

    fn events(&mut self, at: usize) {
        for event in self.replicas[at].machine.take_events() {
            match event {
                Event::Granted(ticket, lot) => {
                    let waiting = self.replicas[at].waiting.remove(&ticket).expect("it waits");
                    self.begin(at, waiting.path, lot);
                    self.note("granted");
                }
                Event::Refused(ticket, scope) => self.refused(at, ticket, scope),
                Event::Failed(ticket, error) => {
                    self.replicas[at].waiting.remove(&ticket).expect("it waits");
                    self.note(match error {
                        StoreError::Learning => "failed, learning",
                        StoreError::Timeout => "failed, timeout",
                        StoreError::Unreachable(_) => "failed, unreachable",
                    });
                }
                Event::Room(_) => {}
                Event::Notice(Notice::Fenced { class, cut, running }) => {
                    if cut {
                        let running = std::mem::take(&mut self.replicas[at].running);
                        let (gone, left): (Vec<_>, _) =
                            running.into_iter().partition(|(_, lot)| lot.class == class);
                        self.replicas[at].running = left;
                        self.close(gone.into_iter().map(|(path, _)| path));
                    }
                    self.note(if running > 0 { "fenced with requests" } else { "fenced" });
                }
                Event::Notice(Notice::Joined { .. }) => self.note("joined"),
                Event::Notice(Notice::MemoryLost { .. }) => self.note("memory lost"),
                Event::Notice(Notice::Away(_)) => self.note("away"),
                Event::Notice(Notice::Back) => self.note("back"),
            }
        }
    }

    /// Property 2: since it asked, there was a moment without room where it is said to be full.
    fn refused(&mut self, at: usize, ticket: Ticket, scope: FullScope) {
        let waiting = self.replicas[at].waiting.remove(&ticket).expect("it waits");
        let name = match scope {
            FullScope::Tenant => format!("t:{}", waiting.path.tenant),
            FullScope::Pool => format!("p:{}", waiting.path.pool),
        };
        let full_at = self.full_at.get(name.as_str()).copied().unwrap_or_default();
        assert!(full_at >= waiting.since, "{name} was not full since the request came");
        if waiting.queues {
            self.note("told");
            self.queue(at, waiting.path, Some(scope));
            return;
        }
        self.note(match scope {
            FullScope::Tenant => "refused, tenant",
            FullScope::Pool => "refused, pool",
        });
    }

    /// A request of the path waits somewhere.
    pub fn waits(&self, path: &SlotPath) -> bool {
        let mut all = self.replicas.iter().flat_map(|replica| replica.waiting.values());
        all.any(|waiting| waiting.path == *path)
    }

    /// Requests of a replica that wait.
    pub fn waiting_at(&self, replica: usize) -> usize {
        self.replicas[replica].waiting.len()
    }

    /// After it nothing is left of whoever was killed.
    pub fn longest_lease(&self) -> Duration {
        self.settings.lease.max(self.settings.floor_lease)
    }

    /// What the living hold in the store, over all scopes.
    pub fn claimed(&self) -> i32 {
        let now = self.server().now;
        let Some(domain) = self.store.domain() else { return 0 };
        let rows = domain.scopes.iter().flat_map(|scope| &scope.rows);
        let live = |inc| domain.lease(inc).is_some_and(|lease| lease.end > now);
        rows.filter(|row| live(row.inc)).map(|row| row.n).sum()
    }

    /// Everything the store holds, over all scopes, with what the dead left.
    pub fn stored(&self) -> i32 {
        let domain = self.store.domain();
        domain.map_or(0, |domain| domain.scopes.iter().map(|scope| scope.total).sum())
    }
}

/// Paths of the test: tenants `a`, `b`; pools `p` (with a cap) and `q` (without).
pub fn some_path(random: &mut StdRng, caps: (u32, u32, u32)) -> SlotPath {
    let (tenant, cap) = if random.random() { ("a", caps.0) } else { ("b", caps.1) };
    let (pool, pool_cap) = if random.random() { ("p", Some(caps.2)) } else { ("q", None) };
    path(tenant, cap, pool, pool_cap)
}
