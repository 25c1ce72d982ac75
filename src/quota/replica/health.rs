//! Whether the store answers: the circuit breaker.
//!
//! The breaker is open (the store is *away*) once nothing was answered for the operation timeout
//! although something was asked. While it is open nobody waits for the store: requests are served
//! by the policy at once, and only beats and joins are sent, as probes. Any answer closes it.

use super::params::Moment;
use crate::core::quota::StoreFault;
use std::time::Duration;

/// First and longest pause between two attempts after failures.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

#[derive(Debug)]
pub(super) struct Health {
    connected: bool,
    /// Since then nothing was answered.
    down_since: Option<Moment>,
    failures: u32,
    try_again: Moment,
    last: Option<StoreFault>,
    /// When something was answered last.
    alive_at: Moment,
}

impl Health {
    /// Not connected yet.
    pub fn new(now: Moment) -> Self {
        Self {
            connected: false,
            down_since: Some(now),
            failures: 0,
            try_again: now,
            last: None,
            alive_at: Moment::ZERO,
        }
    }

    /// Nobody should wait for an answer.
    pub fn away(&self, now: Moment, timeout: Duration) -> bool {
        self.away_at(timeout).is_some_and(|at| now >= at)
    }

    /// When the store counts as away if it stays silent.
    pub fn away_at(&self, timeout: Duration) -> Option<Moment> {
        self.down_since.map(|since| since + timeout)
    }

    /// Commands can be sent.
    pub fn connected(&self) -> bool {
        self.connected
    }

    /// Not before then.
    pub fn try_again(&self) -> Moment {
        self.try_again
    }

    /// Why the last operation failed, if one ever did.
    pub fn last(&self) -> Option<StoreFault> {
        self.last
    }

    pub fn connect(&mut self, now: Moment) {
        self.connected = true;
        self.try_again = now;
    }

    /// The connection is gone, or could not be made.
    pub fn disconnect(&mut self, fault: StoreFault, now: Moment) {
        self.connected = false;
        self.last = Some(fault);
        self.down_since.get_or_insert(now);
    }

    /// Something was answered. `true`: the store was failing before.
    pub fn answered(&mut self, now: Moment) -> bool {
        let was = self.down_since.take().is_some();
        (self.failures, self.try_again, self.alive_at) = (0, now, now);
        was
    }

    /// A command sent at `sent` was not answered, whatever was answered since then. `jitter` is from
    /// 0 to 1.
    pub fn failed(&mut self, fault: StoreFault, sent: Moment, now: Moment, jitter: f64) {
        self.last = Some(fault);
        self.down_since.get_or_insert(sent.max(self.alive_at));
        let pause = PAUSE.0.saturating_mul(1 << self.failures.min(8)).min(PAUSE.1);
        self.failures = self.failures.saturating_add(1);
        self.try_again = now + pause.mul_f64(0.5 + jitter / 2.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_call_that_times_out_opens_it_and_an_answer_closes_it() {
        let timeout = 50 * MS;
        let mut health = Health::new(Duration::ZERO);
        health.connect(Duration::ZERO);
        assert!(health.answered(10 * MS));
        assert!(!health.away(1000 * MS, timeout));
        health.failed(StoreFault::Timeout, 1000 * MS, 1050 * MS, 0.5);
        assert!(health.away(1050 * MS, timeout));
        assert!(health.answered(1060 * MS) && !health.answered(1061 * MS));
        assert!(!health.away(1060 * MS, timeout));
        assert_eq!(health.last(), Some(StoreFault::Timeout));
    }

    #[test]
    fn an_error_leaves_time_for_another_try() {
        let mut health = Health::new(Duration::ZERO);
        health.answered(Duration::ZERO);
        health.failed(StoreFault::ReadOnly, 100 * MS, 101 * MS, 0.0);
        assert!(!health.away(149 * MS, 50 * MS) && health.away(150 * MS, 50 * MS));
    }

    #[test]
    fn an_old_failure_does_not_undo_a_newer_answer() {
        let mut health = Health::new(Duration::ZERO);
        health.answered(100 * MS);
        health.failed(StoreFault::Timeout, 60 * MS, 110 * MS, 0.0);
        assert!(!health.away(110 * MS, 50 * MS) && health.away(150 * MS, 50 * MS));
    }

    #[test]
    fn pauses_grow_to_a_bound() {
        let mut health = Health::new(Duration::ZERO);
        let mut pauses = Vec::new();
        for _ in 0..40 {
            health.failed(StoreFault::Timeout, Duration::ZERO, Duration::ZERO, 1.0);
            pauses.push(health.try_again());
        }
        assert_eq!(pauses[..3], [10 * MS, 20 * MS, 40 * MS]);
        assert_eq!(pauses.last(), Some(&(250 * MS)));
    }
}
