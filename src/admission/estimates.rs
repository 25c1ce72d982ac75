//! How long the slots of each tenant are held: the source of `Retry-After`.

use crate::core::hold::HoldTimes;
use crate::core::ids::TenantId;
use crate::core::retry_after::{Holders, RetryAfter};
use crate::core::sync::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Assumed of a tenant none of whose slots has come back yet.
const UNKNOWN_HOLD: Duration = Duration::from_secs(10);

/// One estimator a tenant. One per process.
#[derive(Debug, Default)]
pub struct HoldEstimates(Mutex<HashMap<TenantId, RetryAfter>>);

impl HoldEstimates {
    /// When the next of `cap` slots of `tenant` is expected to come free. Asked only when all are
    /// in use.
    pub fn wait(&self, tenant: &TenantId, cap: u32) -> Duration {
        let fresh = RetryAfter::new(UNKNOWN_HOLD);
        let estimates = lock(&self.0);
        let estimate = estimates.get(tenant).unwrap_or(&fresh);
        estimate.estimate(Instant::now(), cap, Holders { in_flight: cap, oldest: None })
    }
}

impl HoldTimes for HoldEstimates {
    fn record(&self, tenant: &TenantId, held: Duration, now: Instant) {
        let mut estimates = lock(&self.0);
        match estimates.get_mut(tenant) {
            Some(estimate) => estimate.record(held, now),
            None => {
                let mut estimate = RetryAfter::new(UNKNOWN_HOLD);
                estimate.record(held, now);
                estimates.insert(tenant.clone(), estimate);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_follows_the_holds_and_the_cap() {
        let estimates = HoldEstimates::default();
        let (a, b) = (TenantId::from("a"), TenantId::from("b"));
        for _ in 0..50 {
            estimates.record(&a, Duration::from_secs(20), Instant::now());
        }
        let near = |wait: Duration, seconds: f64| (wait.as_secs_f64() - seconds).abs() < 0.1;
        assert!(near(estimates.wait(&a, 1), 20.0));
        assert!(near(estimates.wait(&a, 4), 5.0));
        assert!(near(estimates.wait(&b, 1), UNKNOWN_HOLD.as_secs_f64()), "b knows nothing of a");
    }
}
