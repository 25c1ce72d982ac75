//! What no protocol on an asynchronous store can promise (docs/quota.md, limits), each provoked, and
//! what the setting for it changes. Limit (b), split brain, needs two servers and is in
//! tests/quota/forms.rs.

use super::fleet::FleetSim;
use super::{MS, params};
use crate::config::{OnFence, WhenUnavailable};
use crate::quota::suite::path;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Two replicas, cap 1, of which the first holds the slot.
fn held(on_fence: OnFence) -> FleetSim {
    let mut fleet = FleetSim::new(params(WhenUnavailable::Escrow, on_fence), 2, 3);
    fleet.run(4 * SECOND);
    fleet.ask(0, path("a", 1, "p", None));
    fleet.run(60 * MS);
    assert_eq!(fleet.in_flight(|_| true), 1);
    fleet
}

/// The second replica asks again and again for `time`; the most that ran at once.
fn most(fleet: &mut FleetSim, time: Duration) -> usize {
    let end = fleet.now + time;
    let mut most = 0;
    while fleet.now < end {
        if fleet.replicas[1].running.is_empty() {
            fleet.ask(1, path("a", 1, "p", None));
        }
        fleet.run(10 * MS);
        most = most.max(fleet.in_flight(|_| true));
    }
    most
}

/// Limit (a).
#[test]
fn a_process_that_stands_still_longer_than_its_lease_needs_a_watchdog() {
    for watchdog in [false, true] {
        let mut fleet = held(OnFence::Cut);
        let (_, lot) = fleet.replicas[0].running[0];
        fleet.replicas[0].frozen = true;
        if watchdog {
            fleet.run(2500 * MS);
            fleet.kill(0);
        }
        let seen = most(&mut fleet, 4 * SECOND);
        assert_eq!(seen, if watchdog { 1 } else { 2 });
        // Awake again, it ends what it may not have, before anything else.
        fleet.replicas[0].frozen = false;
        fleet.step(MS);
        assert!(watchdog || !fleet.replicas[0].machine.is_valid(lot, fleet.time(0)));
        assert_eq!(fleet.in_flight(|_| true), 1);
    }
}

/// Limit (c): what the abort allowance covers, and what it does not.
#[test]
fn engines_that_notice_within_the_allowance_never_run_more_than_the_cap() {
    for (linger, expected) in [(450 * MS, 1), (1500 * MS, 2)] {
        let mut fleet = held(OnFence::Cut);
        fleet.linger = linger;
        fleet.replicas[0].cut_off = true;
        assert_eq!(most(&mut fleet, 6 * SECOND), expected, "{linger:?}");
    }
}

/// Limit (c), the setting: a replica that is cut off alone, with its streams kept.
#[test]
fn a_replica_that_is_cut_off_alone_keeps_its_streams_beside_the_cap() {
    for (on_fence, expected) in [(OnFence::Keep, 2), (OnFence::Cut, 1)] {
        let mut fleet = held(on_fence);
        fleet.replicas[0].cut_off = true;
        assert_eq!(most(&mut fleet, 6 * SECOND), expected, "{on_fence:?}");
    }
}

/// Limit (d).
#[test]
fn a_clock_that_is_stepped_ends_leases_that_their_holders_believe_in() {
    for (step, expected) in [(Duration::ZERO, 1), (1900 * MS, 1), (10 * SECOND, 1)] {
        let mut fleet = held(OnFence::Cut);
        fleet.stepped = step;
        // A step beyond `stall` is taken for a loss of memory: nothing new, for one lease.
        assert_eq!(most(&mut fleet, 2 * SECOND), expected, "{step:?}");
    }
    // One that is just not noticed ends the lease of a replica that missed two beats.
    let mut fleet = held(OnFence::Cut);
    fleet.replicas[0].cut_off = true;
    fleet.run(1500 * MS);
    fleet.stepped = 1400 * MS;
    assert_eq!(most(&mut fleet, 500 * MS), 2);
}
