//! Queues at the cap: what they cost in questions, and that nobody is left out. Counted in the
//! simulation's own time, so nothing depends on the machine.

use super::fleet::FleetSim;
use super::{MS, params};
use crate::config::{OnFence, WhenUnavailable};
use crate::core::quota::SlotPath;
use crate::quota::suite::path;
use rand::Rng;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Replicas whose clients ask again as soon as they were served.
struct Crowd {
    fleet: FleetSim,
    path: SlotPath,
    hold: Duration,
    /// When each running request ends, in the order in which they began, by replica.
    ends: Vec<Vec<Duration>>,
    /// Clients in line behind whoever waits for the store.
    line: Vec<usize>,
    served: Vec<u64>,
    longest: Vec<Duration>,
    begun: Vec<Duration>,
}

impl Crowd {
    fn new(cap: u32, clients: &[usize], hold: Duration) -> Self {
        let replicas = clients.len();
        let params = params(WhenUnavailable::Escrow, OnFence::Keep);
        let mut fleet = FleetSim::new(params, replicas, 11);
        fleet.run(params.times.lease + SECOND);
        let now = fleet.now;
        Self {
            fleet,
            path: path("a", cap, "p", None),
            hold,
            ends: vec![Vec::new(); replicas],
            line: clients.to_vec(),
            served: vec![0; replicas],
            longest: vec![Duration::ZERO; replicas],
            begun: vec![now; replicas],
        }
    }

    fn step(&mut self) {
        for at in 0..self.line.len() {
            while let Some(nth) = self.ends[at].iter().position(|end| *end <= self.fleet.now) {
                self.ends[at].swap_remove(nth);
                self.fleet.end(at, nth);
                self.line[at] += 1;
                self.note(at);
            }
            if self.line[at] > 0 && self.fleet.waiting_at(at) == 0 {
                self.line[at] -= 1;
                self.fleet.queue(at, self.path.clone(), None);
                self.note(at);
            }
        }
        self.fleet.step(MS);
        for at in 0..self.line.len() {
            self.note(at);
        }
        assert!(self.fleet.in_flight(|_| true) <= self.path.tenant_cap as usize);
    }

    /// Requests that began.
    fn note(&mut self, at: usize) {
        let now = self.fleet.now;
        while self.ends[at].len() < self.fleet.replicas[at].running.len() {
            let hold = self.hold.mul_f64(self.fleet.random.random_range(0.8..1.2));
            self.ends[at].push(now + hold);
            self.served[at] += 1;
            self.longest[at] = self.longest[at].max(now - self.begun[at]);
            self.begun[at] = now;
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.fleet.now + time;
        while self.fleet.now < end {
            self.step();
        }
        for at in 0..self.line.len() {
            self.longest[at] = self.longest[at].max(end - self.begun[at]);
        }
    }

    fn served(&self) -> u64 {
        self.served.iter().sum()
    }
}

/// SETs a request, after the queues are there.
fn cost(cap: u32, clients: &[usize], hold: Duration, time: Duration) -> f64 {
    let mut crowd = Crowd::new(cap, clients, hold);
    crowd.run(SECOND);
    let (sets, served) = (crowd.fleet.count("set"), crowd.served());
    crowd.run(time);
    let sets = u32::try_from(crowd.fleet.count("set") - sets).unwrap();
    let served = u32::try_from(crowd.served() - served).unwrap();
    let most = time.as_secs_f64() * f64::from(cap) / hold.as_secs_f64();
    let used = f64::from(served) / most;
    let cost = f64::from(sets) / f64::from(served);
    println!(
        "cap {cap}, clients {clients:?}, {hold:?}: SETs a request {cost:.2}, {:.0} % of the cap \
         used, served {:?}, longest wait {:?}",
        100.0 * used,
        crowd.served,
        crowd.longest
    );
    assert!(used > 0.9, "{used}");
    // Whoever has had a turn waits for the turns of all others, each of two seconds and a request
    // at most, and for what runs.
    let turns = u32::try_from(clients.len()).unwrap() - 1;
    let bound = turns * (2 * SECOND + hold.mul_f64(1.2)) + hold.mul_f64(1.2);
    for longest in &crowd.longest {
        assert!(*longest < bound, "{:?}", crowd.longest);
    }
    cost
}

#[test]
fn a_queue_at_the_cap_costs_less_than_a_question_a_request() {
    for hold in [20 * MS, 100 * MS] {
        for (cap, clients) in [(1, 4), (4, 8), (16, 24)] {
            for replicas in [2, 3] {
                let cost = cost(cap, &vec![clients; replicas], hold, 20 * SECOND);
                assert!(cost <= 1.0, "{cost}");
            }
        }
    }
}

/// Where requests are long, what waits costs by its time: a look now and then, and the turns.
#[test]
fn long_requests_cost_a_bounded_number_of_questions_a_second() {
    for (cap, hold) in [(1, 500 * MS), (1, 3 * SECOND), (4, 3 * SECOND)] {
        let cost = cost(cap, &[6, 6, 6], hold, 100 * SECOND);
        let a_second = cost * f64::from(cap) / hold.as_secs_f64();
        assert!(a_second < 8.0, "{a_second} a second");
    }
}

/// Nobody else waits, so offers are rare; but somebody who comes is let in.
#[test]
fn a_newcomer_elsewhere_is_let_in_although_offers_had_become_rare() {
    for (cap, hold) in [(1, 20 * MS), (1, 500 * MS), (4, 100 * MS)] {
        let mut crowd = Crowd::new(cap, &[8, 0, 0], hold);
        crowd.run(30 * SECOND);
        (crowd.line[2], crowd.begun[2]) = (1, crowd.fleet.now);
        crowd.longest[2] = Duration::ZERO;
        crowd.run(20 * SECOND);
        println!("cap {cap}, {hold:?}: let in after {:?}", crowd.longest[2]);
        assert!(crowd.longest[2] < 10 * SECOND, "{:?}", crowd.longest);
    }
}

/// A slot that is given back elsewhere is found at once, and by a look if no hint is heard.
#[test]
fn a_slot_that_comes_free_elsewhere_is_found_by_who_queues() {
    for (deaf, within) in [(0.0, 10 * MS), (1.0, 1400 * MS)] {
        let mut crowd = Crowd::new(2, &[0, 0], SECOND);
        for _ in 0..2 {
            crowd.fleet.ask(0, crowd.path.clone());
            crowd.fleet.run(60 * MS);
        }
        crowd.fleet.queue(1, crowd.path.clone(), None);
        crowd.fleet.run(10 * SECOND);
        assert_eq!((crowd.fleet.waiting(), crowd.fleet.replicas[0].running.len()), (1, 2));
        crowd.fleet.network.deaf = deaf;
        crowd.fleet.end(0, 0);
        crowd.fleet.run(within);
        assert_eq!(crowd.fleet.waiting(), 0, "deaf {deaf}");
    }
}

/// Two tenants whose pool is full, on one replica: neither keeps the other out.
#[test]
fn tenants_of_one_pool_take_turns() {
    let params = params(WhenUnavailable::Escrow, OnFence::Keep);
    let mut fleet = FleetSim::new(params, 1, 11);
    fleet.run(params.times.lease + SECOND);
    let paths = ["a", "b"].map(|tenant| path(tenant, 4, "p", Some(1)));
    let mut served = [0; 2];
    for _ in 0..200 {
        for path in &paths {
            let waits = fleet.waits(path);
            if !waits {
                fleet.queue(0, path.clone(), None);
            }
        }
        fleet.run(20 * MS);
        if let Some((path, _)) = fleet.replicas[0].running.first() {
            served[usize::from(path.tenant.as_str() == "b")] += 1;
            fleet.end(0, 0);
        }
    }
    println!("tenants of one pool: served {served:?}, {} SETs", fleet.count("set"));
    assert!(served.iter().all(|count| *count > 40), "{served:?}");
}
