//! How many retries a pool may have, so that they cannot multiply the load of a pool that fails
//! as a whole.
//!
//! Over the last ten seconds: retries ≤ `percent` % of requests + 10 × `min_per_second`. The idea
//! and its three numbers are those of Finagle's `RetryBudget` (time to live, minimum retries per
//! second, percentage), which Linkerd took over; here the window is counted in one-second buckets
//! instead of expiring single tokens, so the memory is constant.

use std::time::Instant;

/// Buckets of one second.
const WINDOW: usize = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Second since the budget's start.
    second: u64,
    requests: u64,
    retries: u64,
}

/// The budget of one pool.
#[derive(Clone, Debug)]
pub struct RetryBudget {
    percent: u64,
    min_per_second: u64,
    start: Instant,
    buckets: [Bucket; WINDOW],
}

impl RetryBudget {
    /// A budget that starts at `start`.
    pub fn new(percent: u32, min_per_second: u32, start: Instant) -> Self {
        Self {
            percent: u64::from(percent),
            min_per_second: u64::from(min_per_second),
            start,
            buckets: [Bucket::default(); WINDOW],
        }
    }

    /// A reload: other numbers, the same history.
    pub fn set(&mut self, percent: u32, min_per_second: u32) {
        (self.percent, self.min_per_second) = (u64::from(percent), u64::from(min_per_second));
    }

    /// A request (not a retry) came.
    pub fn request(&mut self, now: Instant) {
        self.bucket(now).requests += 1;
    }

    /// Take one retry, if there is one.
    pub fn try_retry(&mut self, now: Instant) -> bool {
        let oldest = self.second(now).saturating_sub(WINDOW as u64 - 1);
        let recent = self.buckets.iter().filter(|bucket| bucket.second >= oldest);
        let (requests, retries) = recent.fold((0, 0), |(requests, retries), bucket| {
            (requests + bucket.requests, retries + bucket.retries)
        });
        // In hundredths of a retry, so that the percentage is exact.
        let allowed = requests * self.percent + self.min_per_second * WINDOW as u64 * 100;
        let granted = (retries + 1) * 100 <= allowed;
        if granted {
            self.bucket(now).retries += 1;
        }
        granted
    }

    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_secs()
    }

    fn bucket(&mut self, now: Instant) -> &mut Bucket {
        let second = self.second(now);
        let index = usize::try_from(second % WINDOW as u64).unwrap_or(0);
        let bucket = &mut self.buckets[index];
        if bucket.second != second {
            *bucket = Bucket { second, ..Bucket::default() };
        }
        bucket
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn granted(budget: &mut RetryBudget, tries: u32, now: Instant) -> u32 {
        (0..tries).map(|_| u32::from(budget.try_retry(now))).sum()
    }

    #[test]
    fn a_fifth_of_the_requests_may_be_retried() {
        let now = Instant::now();
        let mut budget = RetryBudget::new(20, 0, now);
        assert_eq!(granted(&mut budget, 5, now), 0);
        (0..104).for_each(|_| budget.request(now));
        assert_eq!(granted(&mut budget, 50, now), 20);
    }

    #[test]
    fn a_quiet_pool_has_its_constant() {
        let now = Instant::now();
        let mut budget = RetryBudget::new(0, 2, now);
        assert_eq!(granted(&mut budget, 50, now), 20);
        assert_eq!(granted(&mut budget, 50, now + Duration::from_secs(9)), 0);
        assert_eq!(granted(&mut budget, 50, now + Duration::from_secs(10)), 20);
    }

    #[test]
    fn zero_is_never() {
        let now = Instant::now();
        let mut budget = RetryBudget::new(0, 0, now);
        budget.request(now);
        assert!(!budget.try_retry(now));
        budget.set(100, 0);
        assert!(budget.try_retry(now));
    }

    proptest! {
        #[test]
        fn no_window_of_ten_seconds_exceeds_the_budget(
            percent in 0..100_u32,
            constant in 0..3_u32,
            steps in prop::collection::vec((0..3_000_u64, 0..20_u64, 0..10_u32), 1..60),
        ) {
            let start = Instant::now();
            let mut budget = RetryBudget::new(percent, constant, start);
            let (mut now, mut log) = (0_u64, Vec::new());
            for (pause, requests, tries) in steps {
                now += pause;
                let at = start + Duration::from_millis(now);
                (0..requests).for_each(|_| budget.request(at));
                let retries = u64::from(granted(&mut budget, tries, at));
                log.push((now / 1000, requests, retries));
                let recent = log.iter().filter(|(second, ..)| now / 1000 - second < 10);
                let (requests, retries) =
                    recent.fold((0, 0), |sum, (_, a, b)| (sum.0 + a, sum.1 + b));
                // A request that left the window may have paid for a retry that is still in it.
                let paid = log.iter().filter(|(second, ..)| now / 1000 - second < 20);
                let paid: u64 = paid.map(|(_, requests, _)| requests).sum();
                prop_assert!(requests <= paid);
                prop_assert!(
                    retries * 100 <= paid * u64::from(percent) + u64::from(constant) * 1000
                );
            }
        }
    }
}
