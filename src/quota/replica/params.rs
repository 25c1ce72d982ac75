//! The constants of the protocol (docs/quota-protocol.md, section 5), derived from a few settings.

use crate::config::{OnFence, WhenUnavailable};
use std::time::Duration;

/// A reading of a clock that never goes back and counts while the machine is suspended, as the
/// time since some fixed moment.
pub type Moment = Duration;

/// Shortest lease that leaves time for beats and for engines to abort.
pub const SHORTEST_LEASE: Duration = Duration::from_millis(1500);
/// Time an engine needs to notice a closed connection and to abort (vLLM: 40 to 160 ms).
const ABORT: Duration = Duration::from_millis(450);
/// Least allowance for the difference in rate of two clocks over a lease, and for rounding.
const LEAST_DRIFT: Duration = Duration::from_millis(50);

/// How long things last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long the store believes in a replica it hears nothing from.
    pub lease: Duration,
    /// How long a replica believes in itself after it asked for a lease; shorter by drift and
    /// abort, so that its streams are over at the engines when the store grants its slots again.
    pub own: Duration,
    /// Between two beats.
    pub beat: Duration,
    /// Silence of everybody after which the store calls its memory lost.
    pub stall: Duration,
    /// How long a scope stays under pressure after somebody went short.
    pub pressure: Duration,
}

impl Times {
    /// The times that belong to a lease.
    pub fn of(lease: Duration) -> Self {
        let lease = lease.max(SHORTEST_LEASE);
        let drift = LEAST_DRIFT.max(lease / 60);
        let beat = lease / 4;
        Self { lease, own: lease - drift - ABORT, beat, stall: lease * 2 / 3, pressure: beat * 2 }
    }
}

/// Slots that this replica may use while the store is away, granted in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floors {
    /// Of each cap, the most that all replicas together may hold as floors; 1 to 100.
    pub percent: u32,
    /// Slots of each tenant in each pool that one replica wishes to hold.
    pub per_replica: u32,
    /// Lease and beat of floors.
    pub times: Times,
}

impl Floors {
    /// The sum of floors that is allowed in a scope with this cap.
    pub fn sum(&self, cap: Option<u32>) -> u32 {
        /// Below the scripts' bound for a number of slots; a scope without a cap limits nothing.
        const UNLIMITED: u32 = 100_000_000;
        match cap {
            Some(cap) => {
                u32::try_from(u64::from(cap) * u64::from(self.percent) / 100).unwrap_or(UNLIMITED)
            }
            None => UNLIMITED,
        }
    }
}

/// What a replica goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    pub times: Times,
    /// Longest wait for one answer; the store counts as away after it.
    pub operation_timeout: Duration,
    pub when_unavailable: WhenUnavailable,
    pub on_fence: OnFence,
    /// Only with [`WhenUnavailable::Escrow`].
    pub floors: Option<Floors>,
}

impl Params {
    /// Longest wait of a request that the store answered without a decision: unused slots of
    /// others must come back, or the store must learn what is held. Both take a lease at most.
    pub fn patience(&self) -> Duration {
        self.times.lease + Duration::from_millis(500)
    }

    /// How long a request waits for others to give back what they did not report as unused,
    /// before "full" is believed: a hint and two round trips, in a fleet that answers.
    pub fn grace(&self) -> Duration {
        Duration::from_millis(25).min(self.operation_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_defaults_are_those_of_the_protocol() {
        let ms = Duration::from_millis;
        let expected = Times {
            lease: ms(3000),
            own: ms(2500),
            beat: ms(750),
            stall: ms(2000),
            pressure: ms(1500),
        };
        assert_eq!(Times::of(ms(3000)), expected);
    }

    proptest! {
        /// The rules of section 5, for every lease and timeout that the configuration accepts.
        #[test]
        fn every_lease_leaves_what_the_protocol_needs(
            lease_ms in 1500u64..=60_000,
            timeout_share in 0.0..=0.25f64,
        ) {
            let lease = Duration::from_millis(lease_ms);
            let timeout = lease.mul_f64(timeout_share);
            let times = Times::of(lease);
            let drift = Duration::from_millis(50).max(lease / 60);
            prop_assert!(times.lease >= times.own + drift + ABORT);
            prop_assert!(times.own >= 2 * (times.beat + times.beat / 10), "a beat may be lost");
            prop_assert!(times.stall > times.beat + times.beat / 10 + timeout);
            prop_assert!(times.beat + times.beat / 10 + times.stall < times.lease);
            prop_assert!(times.pressure > Duration::from_millis(500));
        }
    }

    #[test]
    fn floors_are_a_share_of_the_cap() {
        let times = Times::of(Duration::from_secs(60));
        let floors = Floors { percent: 25, per_replica: 1, times };
        assert_eq!((floors.sum(Some(10)), floors.sum(Some(3))), (2, 0));
        assert_eq!(floors.sum(Some(u32::MAX)), u32::MAX / 4);
    }
}
