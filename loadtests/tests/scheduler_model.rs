//! The scheduler against the reference model: the same runs give the same figures.
//!
//! The reference is a discrete-event model in Python of the same replica, fitted to published
//! measurements. Its figures below were computed once, with the tie between equally loaded
//! replicas broken by order instead of by chance:
//!
//! ```text
//! import replica_model as m
//! m.K.update(m.FITTED); m.random.Random.choice = lambda s, l: l[0]
//! m.summ(m.simulate(m.wave(), 1)[0])                                        # W1; W2: npods 2
//! m.simulate(m.tenants(), 2, tcaps={'A': 4, 'B': 2})                        # T1
//! m.run_routing('warm', 'least-request'); m.run_routing('cold', 'least-request')
//! ```
//!
//! and the steps by planning and finishing one `Pod` step after step.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small figures of a model, checked against each other"
)]

use std::collections::BTreeMap;

use streamgate_loadtests::engine::StepModel;
use streamgate_loadtests::engine::clock::{Virtual, to_nanos};
use streamgate_loadtests::engine::scheduler::{Scheduler, Submission, Token};

#[derive(Debug, Clone, Copy, Default)]
struct Request {
    at: Virtual,
    prompt: usize,
    output: u32,
    tenant: char,
    group: Option<u64>,
    replica: usize,
    outcome: Outcome,
    first: Virtual,
    last: Virtual,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Outcome {
    #[default]
    Running,
    Done,
    Dropped,
    Rejected,
}

struct Replica {
    scheduler: Scheduler,
    step_end: Option<Virtual>,
    in_flight: usize,
}

/// Replicas behind a least-request router, in virtual time.
struct Simulation {
    requests: Vec<Request>,
    replicas: Vec<Replica>,
    client_cap: usize,
    caps: BTreeMap<char, usize>,
    in_flight: BTreeMap<char, usize>,
    model: StepModel,
}

impl Simulation {
    fn new(requests: Vec<Request>, replicas: usize) -> Self {
        let model = StepModel::default();
        let replicas = (0..replicas)
            .map(|_| Replica { scheduler: Scheduler::new(model), step_end: None, in_flight: 0 })
            .collect();
        let (caps, in_flight) = (BTreeMap::new(), BTreeMap::new());
        Self { requests, replicas, client_cap: 48, caps, in_flight, model }
    }

    fn run(mut self) -> Self {
        let mut arrived = 0;
        loop {
            let arrival = self.requests.get(arrived).map(|r| r.at);
            let engine = (0..self.replicas.len()).filter_map(|i| Some((self.due(i)?, i))).min();
            match (arrival, engine) {
                (Some(at), due) if due.is_none_or(|(t, _)| at <= t) => {
                    self.arrive(arrived, at);
                    arrived += 1;
                }
                (_, Some((now, replica))) => self.advance(replica, now),
                _ => return self,
            }
        }
    }

    fn due(&self, replica: usize) -> Option<Virtual> {
        let replica = &self.replicas[replica];
        replica.step_end.or_else(|| replica.scheduler.next_ready())
    }

    fn arrive(&mut self, id: usize, now: Virtual) {
        let request = &mut self.requests[id];
        let tenant = self.in_flight.entry(request.tenant).or_default();
        if *tenant >= *self.caps.get(&request.tenant).unwrap_or(&usize::MAX) {
            request.outcome = Outcome::Rejected;
            return;
        }
        if self.replicas.iter().map(|r| r.in_flight).sum::<usize>() >= self.client_cap {
            request.outcome = Outcome::Dropped;
            return;
        }
        *tenant += 1;
        let least = (0..self.replicas.len()).min_by_key(|i| self.replicas[*i].in_flight).unwrap();
        request.replica = least;
        self.replicas[least].in_flight += 1;
        self.replicas[least].scheduler.submit(Submission {
            id: id as u64,
            ready_at: now + to_nanos(self.model.before_engine),
            prompt_tokens: request.prompt,
            output_tokens: request.output,
            blocks: request.group.map(chain).unwrap_or_default(),
        });
    }

    fn advance(&mut self, replica: usize, now: Virtual) {
        let mut tokens = Vec::new();
        let scheduler = &mut self.replicas[replica].scheduler;
        scheduler.end_step(&mut tokens);
        let begun = scheduler.begin_step(now);
        for Token { id, last } in tokens {
            let request = &mut self.requests[id as usize];
            if request.first == 0 {
                request.first = now;
            }
            request.last = now;
            if last {
                request.outcome = Outcome::Done;
                self.replicas[replica].in_flight -= 1;
                *self.in_flight.get_mut(&request.tenant).unwrap() -= 1;
            }
        }
        self.replicas[replica].step_end = begun.map(|b| now + b.length);
    }
}

/// The three whole blocks of a routing prompt of 5,048 tokens.
fn chain(group: u64) -> Vec<u64> {
    (1..=3).map(|n| group * 10 + n).collect()
}

#[derive(Debug, PartialEq)]
struct Summary {
    done: usize,
    dropped: usize,
    rejected: usize,
    good: usize,
    ttft50: f64,
    ttft95: f64,
    tpot95: f64,
    e2e95: f64,
}

fn summary(requests: &[Request]) -> Summary {
    let done: Vec<&Request> = requests.iter().filter(|r| r.outcome == Outcome::Done).collect();
    let seconds = |ns: Virtual| ns as f64 / 1e9;
    let ttft = |r: &Request| seconds(r.first - r.at);
    let tpot = |r: &Request| seconds(r.last - r.first) / f64::from(r.output - 1);
    let e2e = |r: &Request| seconds(r.last - r.at);
    let good = |r: &&&Request| ttft(r) <= 2.0 && tpot(r) <= 0.150 && e2e(r) <= 30.0;
    let p = |share: f64, digits: i32, of: &dyn Fn(&Request) -> f64| {
        let factor = 10_f64.powi(digits);
        (percentile(done.iter().map(|r| of(r)).collect(), share) * factor).round() / factor
    };
    Summary {
        done: done.len(),
        dropped: requests.iter().filter(|r| r.outcome == Outcome::Dropped).count(),
        rejected: requests.iter().filter(|r| r.outcome == Outcome::Rejected).count(),
        good: done.iter().filter(good).count(),
        ttft50: p(0.5, 3, &ttft),
        ttft95: p(0.95, 3, &ttft),
        tpot95: p(0.95, 1, &|r| tpot(r) * 1e3),
        e2e95: p(0.95, 2, &e2e),
    }
}

fn percentile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() - 1) as f64 * share;
    let (low, high) = (at.floor() as usize, (at.floor() as usize + 1).min(values.len() - 1));
    values[low] + (values[high] - values[low]) * (at - at.floor())
}

/// 60 s at 0.2, 240 s at 1.6 and 90 s at 0.2 requests a second.
fn wave() -> Vec<Request> {
    let mut start = 0.0;
    let mut requests = Vec::new();
    for (length, rate) in [(60.0_f64, 0.2), (240.0, 1.6), (90.0, 0.2)] {
        for i in 0..(length * rate).round() as u32 {
            let at = to_nanos(start + f64::from(i) / rate);
            requests.push(Request { at, prompt: 517, output: 128, ..Request::default() });
        }
        start += length;
    }
    requests
}

/// 1.4 requests a second, tenants A and B in turn.
fn tenants() -> Vec<Request> {
    (0..210)
        .map(|i| {
            let (tenant, prompt, output) =
                if i % 2 == 0 { ('A', 517, 64) } else { ('B', 1477, 512) };
            let at = to_nanos(f64::from(i) / 1.4);
            Request { at, prompt, output, tenant, ..Request::default() }
        })
        .collect()
}

/// 96 requests of eight groups at 1.6 a second; the order of groups is the reference's for
/// seed 102.
fn routing() -> Vec<Request> {
    const GROUPS: &str = "654004424010302065107745216433211637777415702332213274651032323572566\
                          001524475550664634167513671";
    (0..)
        .zip(GROUPS.bytes())
        .map(|(i, digit)| Request {
            at: to_nanos(f64::from(i) / 1.6),
            prompt: 5048,
            output: 128,
            group: Some(u64::from(digit - b'0')),
            ..Request::default()
        })
        .collect()
}

fn hit_rate(simulation: &Simulation) -> f64 {
    let totals = simulation.replicas.iter().map(|r| r.scheduler.totals());
    let (hits, queries) = totals.fold((0, 0), |(h, q), t| (h + t.cache_hits, q + t.cache_queries));
    (hits as f64 / queries as f64 * 1000.0).round() / 10.0
}

fn by_replica(simulation: &Simulation) -> (usize, usize) {
    let second = simulation.requests.iter().filter(|r| r.replica == 1).count();
    (simulation.requests.len() - second, second)
}

fn waiting_peaks(simulation: &Simulation) -> Vec<usize> {
    simulation.replicas.iter().map(|r| r.scheduler.totals().waiting_peak).collect()
}

#[test]
fn steps_have_the_reference_lengths_and_tokens() {
    let mut scheduler = Scheduler::new(StepModel::default());
    let arrivals: [(f64, usize, u32, Option<u64>); 5] = [
        (0.0, 20_000, 3, None),
        (0.0, 517, 4, None),
        (1.0, 5048, 5, Some(1)),
        (9.0, 5048, 2, Some(1)),
        (9.0, 100, 1, None),
    ];
    for (id, (at, prompt_tokens, output_tokens, group)) in (0..).zip(arrivals) {
        let (ready_at, blocks) = (to_nanos(at), group.map(chain).unwrap_or_default());
        scheduler.submit(Submission { id, ready_at, prompt_tokens, output_tokens, blocks });
    }
    let (mut now, mut steps, mut tokens) = (0, Vec::new(), Vec::new());
    loop {
        match (scheduler.begin_step(now), scheduler.next_ready()) {
            (Some(begun), _) => {
                now += begun.length;
                scheduler.end_step(&mut tokens);
                steps.push((now, begun.tokens));
            }
            (None, Some(ready)) => now = ready,
            (None, None) => break,
        }
    }
    let reference: [(Virtual, usize); 10] = [
        (2_465_611_765, 8192),
        (4_931_223_529, 8192),
        (7_396_835_294, 8192),
        (7_745_148_787, 991),
        (7_798_882_987, 3),
        (7_851_417_187, 2),
        (7_903_920_247, 1),
        (7_956_423_367, 1),
        (9_186_788_235, 444),
        (9_239_291_175, 1),
    ];
    assert_eq!(steps.len(), reference.len(), "{steps:?}");
    for (step, reference) in steps.iter().zip(&reference) {
        assert_eq!(step.1, reference.1);
        assert!(step.0.abs_diff(reference.0) <= 10, "{step:?} against {reference:?}");
    }
    assert_eq!(tokens.len(), 3 + 4 + 5 + 2 + 1);
    assert_eq!(tokens.iter().filter(|t| t.last).count(), 5);
}

#[test]
fn one_replica_under_the_wave() {
    let run = Simulation::new(wave(), 1).run();
    let expected = Summary {
        done: 311,
        dropped: 103,
        rejected: 0,
        good: 28,
        ttft50: 39.489,
        ttft95: 39.983,
        tpot95: 61.1,
        e2e95: 47.74,
    };
    assert_eq!(summary(&run.requests), expected);
}

#[test]
fn two_replicas_under_the_wave() {
    let run = Simulation::new(wave(), 2).run();
    let expected = Summary {
        done: 414,
        dropped: 0,
        rejected: 0,
        good: 414,
        ttft50: 0.357,
        ttft95: 0.382,
        tpot95: 59.8,
        e2e95: 7.98,
    };
    assert_eq!(summary(&run.requests), expected);
}

#[test]
fn two_tenants_with_caps() {
    let mut simulation = Simulation::new(tenants(), 2);
    simulation.caps = [('A', 4), ('B', 2)].into();
    let run = simulation.run();
    let of = |tenant| {
        let all = run.requests.iter().filter(|r| r.tenant == tenant).copied();
        summary(&all.collect::<Vec<_>>())
    };
    let a = Summary {
        done: 105,
        dropped: 0,
        rejected: 0,
        good: 105,
        ttft50: 0.359,
        ttft95: 0.382,
        tpot95: 57.2,
        e2e95: 3.99,
    };
    let b = Summary {
        done: 11,
        dropped: 0,
        rejected: 94,
        good: 11,
        ttft50: 0.618,
        ttft95: 0.662,
        tpot95: 55.4,
        e2e95: 28.94,
    };
    assert_eq!((of('A'), of('B')), (a, b));
}

#[test]
fn routing_with_warm_caches() {
    let mut simulation = Simulation::new(routing(), 2);
    for replica in &mut simulation.replicas {
        (0..8).for_each(|group| replica.scheduler.warm(&chain(group)));
    }
    let run = simulation.run();
    let expected = Summary {
        done: 96,
        dropped: 0,
        rejected: 0,
        good: 96,
        ttft50: 0.31,
        ttft95: 0.335,
        tpot95: 59.2,
        e2e95: 7.85,
    };
    assert_eq!(summary(&run.requests), expected);
    assert_eq!((hit_rate(&run), by_replica(&run)), (93.2, (52, 44)));
    assert_eq!(waiting_peaks(&run), [1, 1]);
}

#[test]
fn routing_with_cold_caches() {
    let run = Simulation::new(routing(), 2).run();
    let expected = Summary {
        done: 96,
        dropped: 0,
        rejected: 0,
        good: 63,
        ttft50: 1.405,
        ttft95: 5.547,
        tpot95: 103.8,
        e2e95: 15.21,
    };
    assert_eq!(summary(&run.requests), expected);
    assert_eq!((hit_rate(&run), by_replica(&run)), (77.7, (50, 46)));
    assert_eq!(waiting_peaks(&run), [5, 4]);
}

#[test]
fn an_abort_frees_its_place_for_the_next_step() {
    let mut scheduler = Scheduler::new(StepModel { max_running: 1, ..StepModel::default() });
    for id in 0..3 {
        scheduler.submit(Submission {
            id,
            ready_at: 0,
            prompt_tokens: 10,
            output_tokens: 5,
            blocks: Vec::new(),
        });
    }
    let mut tokens = Vec::new();
    assert!(scheduler.begin_step(0).is_some());
    assert!(scheduler.begin_step(0).is_none(), "one step at a time");
    assert!(scheduler.abort(0) && scheduler.abort(1));
    assert!(!scheduler.abort(0), "already gone");
    scheduler.end_step(&mut tokens);
    assert_eq!(tokens, [], "the aborted sequence gives no token");
    assert!(scheduler.begin_step(1).is_some());
    scheduler.end_step(&mut tokens);
    assert_eq!(tokens, [Token { id: 2, last: false }]);
    assert_eq!((scheduler.running(), scheduler.waiting()), (1, 0));
}

#[test]
fn a_wholly_cached_prompt_still_computes_its_last_block() {
    let mut scheduler = Scheduler::new(StepModel { block: 10, ..StepModel::default() });
    scheduler.warm(&[1, 2]);
    let (ready_at, output_tokens) = (0, 1);
    let blocks = vec![1, 2];
    scheduler.submit(Submission { id: 0, ready_at, prompt_tokens: 20, output_tokens, blocks });
    let begun = scheduler.begin_step(0).expect("there is work");
    assert_eq!((begun.tokens, begun.cached_tokens), (10, 10));
}
