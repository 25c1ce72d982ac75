//! Random histories: whatever the network and the store do, no cap is exceeded, nobody is refused
//! without cause, and afterwards nothing is left. The fleet itself checks that no command disagrees
//! with the store's books, which would be taken for damage and cost everybody a learning period.

use super::fleet::{CALM, FleetSim, Network, some_path};
use super::{MS, params, with_floors};
use crate::config::{OnFence, WhenUnavailable};
use crate::quota::replica::Params;
use proptest::prelude::*;
use rand::Rng;
use std::time::Duration;
use streamgate_quota_model::store as model;

const REPLICAS: usize = 3;
/// Of tenant `a`, tenant `b`, pool `p`.
type Caps = (u32, u32, u32);
const SMALL: Caps = (4, 3, 5);
const LARGE: Caps = (40, 30, 50);

#[derive(Clone, Copy, Debug)]
struct Story {
    seed: u64,
    caps: Caps,
    /// Chance of a request for each replica and millisecond.
    load: f64,
    /// Chance of an end for each replica with requests and millisecond.
    ends: f64,
    /// Chance that a request queues.
    queues: f64,
    network: Network,
    /// Chances in a million for each millisecond.
    flush: u32,
    restart: u32,
    kill: u32,
    freeze: u32,
    cut: u32,
}

fn stories() -> impl Strategy<Value = Story> {
    let network =
        (1u64..40, prop_oneof![Just(0.0), 0.0..0.3f64], prop_oneof![Just(0.0), Just(1.0)]);
    let rate = || prop_oneof![Just(0u32), 50..250u32];
    let caps = prop_oneof![Just(SMALL), Just(LARGE)];
    let queues = prop_oneof![Just(0.0), Just(0.3), Just(1.0)];
    let who = (any::<u64>(), caps, 0.002..0.05f64, prop_oneof![Just(0.02), Just(0.001)], queues);
    (who, network, rate(), rate(), rate(), rate(), rate()).prop_map(
        |(
            (seed, caps, load, ends, queues),
            (delay, loss, deaf),
            flush,
            restart,
            kill,
            freeze,
            cut,
        )| {
            Story {
                seed,
                caps,
                load,
                ends,
                queues,
                network: Network { delay: Duration::from_millis(delay), loss, deaf },
                flush,
                restart,
                kill,
                freeze,
                cut,
            }
        },
    )
}

fn check_caps(fleet: &FleetSim, caps: Caps) {
    let of = |tenant: &str| fleet.in_flight(|path| path.tenant.as_str() == tenant);
    let pool = fleet.in_flight(|path| path.pool.as_str() == "p");
    let (a, b) = (of("a"), of("b"));
    assert!(a <= caps.0 as usize, "{a} of tenant a");
    assert!(b <= caps.1 as usize, "{b} of tenant b");
    assert!(pool <= caps.2 as usize, "{pool} in pool p");
}

fn happen(fleet: &mut FleetSim, story: &Story, thaw: &mut Option<Duration>) {
    let mut luck = |chance: u32| chance > 0 && fleet.random.random_range(0..1_000_000) < chance;
    let (flush, restart, kill) = (luck(story.flush), luck(story.restart), luck(story.kill));
    let (freeze, cut) = (luck(story.freeze), luck(story.cut));
    let who = fleet.random.random_range(0..REPLICAS);
    if flush {
        fleet.store = model::Store::Absent;
    }
    if restart {
        fleet.ident += 1;
    }
    if kill {
        fleet.kill(who);
    }
    if thaw.is_some_and(|at| fleet.now >= at) {
        *thaw = None;
        fleet.frozen = false;
        fleet.replicas.iter_mut().for_each(|replica| replica.cut_off = false);
    } else if thaw.is_none() && (freeze || cut) {
        *thaw = Some(fleet.now + fleet.random.random_range(10..5000) * MS);
        fleet.frozen = freeze;
        fleet.replicas[who].cut_off = !freeze;
    }
}

fn traffic(fleet: &mut FleetSim, story: &Story) {
    for at in 0..REPLICAS {
        if fleet.random.random_bool(story.load) {
            let path = some_path(&mut fleet.random, story.caps);
            if fleet.random.random_bool(story.queues) {
                fleet.queue(at, path, None);
            } else {
                fleet.ask(at, path);
            }
        }
        let running = fleet.replicas[at].running.len();
        if running > 0 && fleet.random.random_bool(story.ends) {
            let nth = fleet.random.random_range(0..running);
            fleet.end(at, nth);
        }
        if fleet.random.random_bool(0.001) {
            fleet.give_up(at);
        }
    }
}

fn tell(params: Params, story: &Story) -> FleetSim {
    let mut fleet = FleetSim::new(params, REPLICAS, story.seed);
    fleet.network = story.network;
    let mut thaw = None;
    for _ in 0..15_000 {
        happen(&mut fleet, story, &mut thaw);
        traffic(&mut fleet, story);
        fleet.step(MS);
        check_caps(&fleet, story.caps);
    }
    fleet
}

/// The network and the store behave, all requests end: everything is zero soon.
fn quiesce(fleet: &mut FleetSim) {
    fleet.network = CALM;
    fleet.frozen = false;
    fleet.replicas.iter_mut().for_each(|replica| replica.cut_off = false);
    fleet.run(Duration::from_secs(5));
    let mut left = 20_000;
    while left > 0 && (fleet.waiting() > 0 || fleet.in_flight(|_| true) > 0) {
        left -= 1;
        for at in 0..fleet.replicas.len() {
            while !fleet.replicas[at].running.is_empty() {
                fleet.end(at, 0);
            }
        }
        fleet.step(MS);
    }
    assert_eq!(fleet.waiting(), 0, "somebody was never answered");
    let left = |fleet: &FleetSim| fleet.stored();
    fleet.run(Duration::from_secs(1));
    // Rows of the dead are there until somebody needs room; joins collect them.
    if left(fleet) > 0 {
        fleet.run(fleet.longest_lease());
        fleet.add();
        fleet.run(100 * MS);
    }
    assert_eq!(left(fleet), 0, "{:?}", fleet.store);
    assert!(fleet.replicas.iter().all(|replica| replica.machine.is_empty()));
}

/// A few of these long histories, or as many as `PROPTEST_CASES` says.
fn cases() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let config = ProptestConfig::default();
    if asked { config } else { ProptestConfig { cases: 20, ..config } }
}

/// Nobody wants to hold anything any more, floors neither.
fn end(mut fleet: FleetSim) {
    fleet.replicas.iter_mut().for_each(|replica| replica.machine.leave());
    quiesce(&mut fleet);
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_cap_is_exceeded_and_nothing_is_left(story in stories()) {
        let params = params(WhenUnavailable::Escrow, OnFence::Cut);
        quiesce(&mut tell(params, &story));
    }

    #[test]
    fn nor_with_floors(story in stories()) {
        end(tell(with_floors(50, 1), &story));
    }
}

/// What the random histories must have met, or they prove little.
#[test]
fn the_histories_meet_what_they_are_about() {
    let params = params(WhenUnavailable::Escrow, OnFence::Cut);
    let network = Network { delay: 20 * MS, loss: 0.05, deaf: 0.0 };
    let calm = Story {
        seed: 1,
        caps: SMALL,
        load: 0.03,
        ends: 0.02,
        queues: 0.0,
        network: CALM,
        flush: 0,
        restart: 0,
        kill: 0,
        freeze: 0,
        cut: 0,
    };
    let light = Story { caps: LARGE, load: 0.01, ..calm };
    let queue = Story { queues: 0.5, ..calm };
    let rough = Story { network, flush: 40, restart: 40, kill: 80, freeze: 80, cut: 80, ..calm };
    let long = Story { ends: 0.001, freeze: 160, cut: 160, ..rough };
    let cut_off = Story { cut: 400, kill: 0, flush: 0, restart: 0, ..long };
    let mut seen = std::collections::BTreeMap::new();
    for seed in 1..=4 {
        for story in [calm, light, queue, rough, long, cut_off].map(|story| Story { seed, ..story })
        {
            for (what, count) in tell(params, &story).seen {
                *seen.entry(what).or_insert(0) += count;
            }
        }
    }
    for (what, least) in [
        ("granted at once", 50),
        ("granted", 50),
        ("refused, tenant", 50),
        ("refused, pool", 5),
        ("told", 5),
        ("told at once", 5),
        ("failed, timeout", 10),
        ("failed at once", 10),
        ("fenced with requests", 1),
        ("memory lost", 10),
        ("away", 5),
        ("back", 5),
    ] {
        let count = seen.get(what).copied().unwrap_or(0);
        assert!(count >= least, "{what}: {count} of {least}; {seen:?}");
    }
}
