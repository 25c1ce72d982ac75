//! A network that does everything at once.

use crate::relay::Mode;
use crate::rig::{Fleet, Load, MS, Plan, SECOND, Status};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Cases 5, 6, 8, 23: delays, stalls, lost replies, resets and refused connections in any order,
/// to each replica on its own, under bursts. Never above the cap; afterwards all is as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_network_does() {
    let seed = std::env::var("FLEET_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| rand::rng().random());
    println!("FLEET_SEED={seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let plan = Plan::new(5).timeout(200 * MS).quota("on_fence: cut");
    let fleet = Fleet::start(plan).await;
    let load = Load::start(fleet.addresses(), 24, 8);
    let end = Instant::now() + 15 * SECOND;
    while Instant::now() < end {
        let relay = &fleet.relays[dice.random_range(0..3)];
        if dice.random_bool(0.3) {
            relay.reset();
        }
        relay.set(mode(&mut dice));
        sleep(Duration::from_millis(dice.random_range(20..400))).await;
    }
    for relay in &fleet.relays {
        relay.set(Mode::default());
        relay.reset();
    }
    for gate in &fleet.gates {
        gate.calm().await;
    }
    let healed = Instant::now();
    sleep(2 * SECOND).await;
    let tally = load.stop().await;
    println!("{:?}", tally.kinds());
    tally.assert_only(&["complete", "broken", "429 tenant_in_flight", "503 quota_unavailable"]);
    fleet.assert_exact("a network of faults");
    let after = tally.between(healed, healed + 2 * SECOND);
    assert!(after.count("complete") > 20, "{:?}", after.kinds());
    fleet.all_back().await;
}

fn mode(dice: &mut StdRng) -> Mode {
    let calm = Mode::default();
    match dice.random_range(0..6) {
        0 => Mode { stalled: true, ..calm },
        1 => Mode { deaf: true, ..calm },
        2 => Mode { closed: true, ..calm },
        3 => Mode { delay: Duration::from_millis(dice.random_range(1..120)), ..calm },
        _ => calm,
    }
}
