//! A line in the log for something that may happen a thousand times a second.

use super::sync::lock;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Lets one occasion through in each period and counts the others.
#[derive(Debug)]
pub struct Seldom {
    period: Duration,
    last: Mutex<Option<Last>>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    at: Instant,
    /// Occasions since then that were not let through.
    silent: u64,
}

impl Seldom {
    /// At most once in `period`; the first occasion passes.
    pub const fn new(period: Duration) -> Self {
        Self { period, last: Mutex::new(None) }
    }

    /// Whether this occasion at `now` passes: `Some` with the number of those before it that did
    /// not.
    pub fn pass(&self, now: Instant) -> Option<u64> {
        let mut last = lock(&self.last);
        match last.as_mut() {
            Some(last) if now.saturating_duration_since(last.at) < self.period => {
                last.silent += 1;
                None
            }
            _ => {
                let silent = last.map_or(0, |last| last.silent);
                *last = Some(Last { at: now, silent: 0 });
                Some(silent)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_each_period_passes_and_the_others_are_counted() {
        let seldom = Seldom::new(Duration::from_secs(5));
        let start = Instant::now();
        let at = |seconds| seldom.pass(start + Duration::from_secs(seconds));
        assert_eq!([0, 1, 4, 5, 6, 20].map(at), [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
