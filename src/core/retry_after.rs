//! When a slot comes free, estimated from how long slots were held.
//!
//! Little's law (J. D. C. Little, *A Proof for the Queuing Formula L = λW*, Operations Research
//! 9(3), 1961): with `L` slots held for `W` each, slots come free at the rate `L / W`, so the next
//! one is `W / L` away. Where the age `a` of the oldest holder is known and below `W`, its own end
//! is the better guess: `W − a`. A burst that took all slots at once ends together, not evenly
//! spread.
//!
//! `W` is the typical hold: an exponentially weighted moving average of the *logarithm* of the
//! holds (S. W. Roberts, *Control Chart Tests Based on Geometric Moving Averages*, Technometrics
//! 1(3), 1959), with the gain of 1/8 that TCP uses for round-trip times (RFC 6298). On the
//! logarithm it follows the median of what is mostly a log-normal distribution, and one stream
//! that lasts a thousand times longer moves it by a factor of 2.4 for a moment instead of by a
//! hundred. A quantile estimator (P²) would need five markers and forgets nothing.

use std::time::{Duration, Instant};

/// Weight of a new hold.
const GAIN: f64 = 1.0 / 8.0;
/// Holds outside of these bounds count as the bound.
const HOLD_SECONDS: (f64, f64) = (0.001, 3600.0);
/// After this long without an end, what was measured says nothing about now.
const FORGET: Duration = Duration::from_secs(15 * 60);
/// Bounds of an estimate.
const ESTIMATE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The slots that are taken at the moment of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holders {
    /// Slots held now.
    pub in_flight: u32,
    /// Age of the oldest holder, if it is known here.
    pub oldest: Option<Duration>,
}

/// Estimates when a slot of one cap comes free. Feed it every hold that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryAfter {
    /// Assumed while nothing is known.
    default: Duration,
    /// Natural logarithm of the typical hold in seconds, and when it was last fed.
    typical: Option<(f64, Instant)>,
}

impl RetryAfter {
    /// `default` is the hold to assume while none was measured.
    pub const fn new(default: Duration) -> Self {
        Self { default, typical: None }
    }

    /// Notes that a slot was held for `hold` and came free at `now`.
    pub fn record(&mut self, hold: Duration, now: Instant) {
        let hold = hold.as_secs_f64().clamp(HOLD_SECONDS.0, HOLD_SECONDS.1).ln();
        let typical = match self.fresh(now) {
            Some(typical) => typical + GAIN * (hold - typical),
            None => hold,
        };
        self.typical = Some((typical, now));
    }

    /// How long a slot is typically held.
    pub fn typical_hold(&self, now: Instant) -> Duration {
        match self.fresh(now) {
            Some(typical) => Duration::from_secs_f64(typical.exp()),
            None => self.default,
        }
    }

    /// When the next slot comes free, from 1 to 60 seconds. `cap` stands in for the number of
    /// holders where that is not known (0).
    pub fn estimate(&self, now: Instant, cap: u32, holders: Holders) -> Duration {
        let hold = self.typical_hold(now);
        let held = if holders.in_flight == 0 { cap } else { holders.in_flight };
        let wait = match holders.oldest {
            Some(age) if age < hold => hold - age,
            _ => hold / held.max(1),
        };
        wait.clamp(ESTIMATE.0, ESTIMATE.1)
    }

    fn fresh(&self, now: Instant) -> Option<f64> {
        let (typical, fed) = self.typical?;
        (now.saturating_duration_since(fed) < FORGET).then_some(typical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn fed(holds: &[u64]) -> (RetryAfter, Instant) {
        let now = Instant::now();
        let mut estimator = RetryAfter::new(seconds(5));
        for hold in holds {
            estimator.record(seconds(*hold), now);
        }
        (estimator, now)
    }

    fn holders(in_flight: u32, oldest: Option<u64>) -> Holders {
        Holders { in_flight, oldest: oldest.map(seconds) }
    }

    #[test]
    fn without_data_the_default_hold_is_assumed() {
        let (estimator, now) = fed(&[]);
        assert_eq!(estimator.estimate(now, 1, holders(1, None)), seconds(5));
        assert_eq!(estimator.estimate(now, 5, holders(0, None)), seconds(1));
        assert_eq!(estimator.estimate(now, 0, holders(0, None)), seconds(5));
    }

    #[test]
    fn the_first_hold_replaces_the_default() {
        let (estimator, now) = fed(&[20]);
        let wait = estimator.estimate(now, 4, holders(4, None));
        assert!((wait.as_secs_f64() - 5.0).abs() < 1e-6, "{wait:?}");
    }

    #[test]
    fn an_old_holder_leaves_sooner_than_the_average_says() {
        let (estimator, now) = fed(&[20]);
        let wait = estimator.estimate(now, 1, holders(1, Some(18)));
        assert!((wait.as_secs_f64() - 2.0).abs() < 1e-6, "{wait:?}");
    }

    #[test]
    fn a_fresh_burst_leaves_together() {
        let (estimator, now) = fed(&[20]);
        let wait = estimator.estimate(now, 4, holders(4, Some(1)));
        assert!((wait.as_secs_f64() - 19.0).abs() < 1e-6, "{wait:?}");
    }

    #[test]
    fn a_holder_that_outlived_the_typical_hold_says_nothing() {
        let (estimator, now) = fed(&[20]);
        let wait = estimator.estimate(now, 4, holders(4, Some(300)));
        assert!((wait.as_secs_f64() - 5.0).abs() < 1e-6, "{wait:?}");
    }

    #[test]
    fn one_outlier_moves_it_little() {
        let (mut estimator, now) = fed(&[2; 40]);
        estimator.record(seconds(2000), now);
        let hold = estimator.typical_hold(now).as_secs_f64();
        assert!((2.0..5.0).contains(&hold), "{hold}");
    }

    #[test]
    fn it_follows_a_lasting_change() {
        let (mut estimator, now) = fed(&[2; 40]);
        for _ in 0..40 {
            estimator.record(seconds(30), now);
        }
        let hold = estimator.typical_hold(now).as_secs_f64();
        assert!((28.0..=30.0).contains(&hold), "{hold}");
    }

    #[test]
    fn old_data_is_forgotten() {
        let (mut estimator, now) = fed(&[50; 8]);
        assert!(estimator.typical_hold(now + seconds(899)) > seconds(49));
        assert_eq!(estimator.typical_hold(now + seconds(900)), seconds(5));
        estimator.record(seconds(3), now + seconds(901));
        let hold = estimator.typical_hold(now + seconds(901)).as_secs_f64();
        assert!((hold - 3.0).abs() < 1e-6, "{hold}");
    }

    proptest! {
        #[test]
        fn always_within_bounds(
            default in 0u64..10_000,
            holds in prop::collection::vec(0u64..u64::MAX, 0..50),
            cap in any::<u32>(),
            in_flight in any::<u32>(),
            oldest in prop::option::of(0u64..u64::MAX),
            later in 0u64..100_000,
        ) {
            let now = Instant::now();
            let mut estimator = RetryAfter::new(seconds(default));
            for hold in holds {
                estimator.record(Duration::from_millis(hold), now);
            }
            let wait = estimator.estimate(now + seconds(later), cap, holders(in_flight, oldest));
            prop_assert!((seconds(1)..=seconds(60)).contains(&wait), "{wait:?}");
        }

        #[test]
        fn more_holders_never_mean_a_longer_wait(hold in 1u64..600, held in 1u32..1000) {
            let (estimator, now) = fed(&[hold]);
            let fewer = estimator.estimate(now, 0, holders(held, None));
            let more = estimator.estimate(now, 0, holders(held + 1, None));
            prop_assert!(more <= fewer);
        }
    }
}
