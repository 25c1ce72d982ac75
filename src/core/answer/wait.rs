//! Spreads the times at which refused clients come back.
//!
//! Client libraries wait exactly as long as they are told and add nothing of their own, so equal
//! answers would bring all of them back in the same instant.

use std::time::Duration;

/// The longest wait that is named, in milliseconds: client libraries give up on much longer ones.
const MAX_MS: u64 = 60_000;
const MIN_MS: u64 = 1_000;
/// The least width of the spread: wide enough for whole seconds to differ.
const MIN_SPREAD_MS: u64 = 2_000;

/// When to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    ms: u64,
}

impl Wait {
    /// For `retry-after-ms`: 1,000 to 60,000.
    pub fn millis(self) -> u64 {
        self.ms
    }

    /// For `retry-after`: 1 to 60, never earlier than [`Wait::millis`].
    pub fn seconds(self) -> u64 {
        self.ms.div_ceil(1000)
    }
}

/// A wait from the estimate upward, by half of it but at least two seconds. An estimate too close
/// to the maximum to leave room is lowered by up to three seconds: a herd at the sixtieth second
/// is worse than a retry slightly too early.
pub(super) fn spread(estimate: Duration, jitter: f64) -> Wait {
    let ms = u64::try_from(estimate.as_millis()).unwrap_or(u64::MAX);
    let from = ms.clamp(MIN_MS, MAX_MS - 3_000);
    let to = (from + (from / 2).max(MIN_SPREAD_MS)).min(MAX_MS);
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.5 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share from 0 to 1 of at most 60,000"
    )]
    let ms = from + ((to - from) as f64 * jitter) as u64;
    Wait { ms }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn is_bounded_consistent_and_never_early(ms in 0u64..200_000, jitter in any::<f64>()) {
            let wait = spread(Duration::from_millis(ms), jitter);
            prop_assert!((1_000..=60_000).contains(&wait.millis()));
            prop_assert!((1..=60).contains(&wait.seconds()));
            prop_assert!(wait.seconds() * 1000 >= wait.millis());
            prop_assert!(wait.seconds() * 1000 - wait.millis() < 1000);
            prop_assert!(wait.millis() >= ms.min(57_000));
        }

        #[test]
        fn answers_differ_whatever_the_estimate(ms in 0u64..200_000) {
            let waits = (0..100).map(|i| spread(Duration::from_millis(ms), f64::from(i) / 100.0));
            let waits: Vec<Wait> = waits.collect();
            let seconds: BTreeSet<u64> = waits.iter().map(|w| w.seconds()).collect();
            let millis: BTreeSet<u64> = waits.iter().map(|w| w.millis()).collect();
            prop_assert!(seconds.len() >= 2, "{seconds:?}");
            prop_assert_eq!(millis.len(), 100);
        }
    }

    #[test]
    fn the_longest_estimate_does_not_overflow() {
        assert_eq!(spread(Duration::MAX, 1.0).seconds(), 60);
        assert_eq!(spread(Duration::ZERO, 0.0).millis(), 1_000);
    }
}
