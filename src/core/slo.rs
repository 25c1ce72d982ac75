//! What counts as a good request.

use super::outcome::Outcome;
use std::time::Duration;

/// The service level a request is judged by: complete, and within every limit that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    /// Start of the request to its first content.
    pub ttft: Duration,
    /// `(last content − first content) / (output tokens − 1)`, the mean of one request.
    pub tpot: Duration,
    /// Start of the request to its end.
    pub e2e: Duration,
}

impl Default for Slo {
    fn default() -> Self {
        Self {
            ttft: Duration::from_secs(2),
            tpot: Duration::from_millis(150),
            e2e: Duration::from_secs(30),
        }
    }
}

/// What was measured of one request. A latency that does not exist (no content, a single token,
/// a plain answer) is `None` and is not held against the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    pub ttft: Option<Duration>,
    pub tpot: Option<Duration>,
    pub e2e: Option<Duration>,
}

impl Slo {
    /// Whether the request was good. Everything but [`Outcome::Complete`] is not, refusals
    /// included: the good rate is taken over all planned arrivals.
    pub fn good(&self, outcome: Outcome, latencies: &Latencies) -> bool {
        let within = |value: Option<Duration>, limit| value.is_none_or(|value| value <= limit);
        outcome == Outcome::Complete
            && within(latencies.ttft, self.ttft)
            && within(latencies.tpot, self.tpot)
            && within(latencies.e2e, self.e2e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLO: Slo = Slo {
        ttft: Duration::from_secs(2),
        tpot: Duration::from_millis(150),
        e2e: Duration::from_secs(30),
    };

    fn measured(ttft: u64, tpot: u64, e2e: u64) -> Latencies {
        let ms = |value| Some(Duration::from_millis(value));
        Latencies { ttft: ms(ttft), tpot: ms(tpot), e2e: ms(e2e) }
    }

    #[test]
    fn all_three_limits_are_inclusive_and_all_count() {
        assert!(SLO.good(Outcome::Complete, &measured(2_000, 150, 30_000)));
        assert!(!SLO.good(Outcome::Complete, &measured(2_001, 150, 30_000)));
        assert!(!SLO.good(Outcome::Complete, &measured(2_000, 151, 30_000)));
        assert!(!SLO.good(Outcome::Complete, &measured(2_000, 150, 30_001)));
    }

    #[test]
    fn only_a_complete_request_is_good() {
        for outcome in Outcome::ALL {
            let good = SLO.good(outcome, &measured(1, 1, 1));
            assert_eq!(good, outcome == Outcome::Complete, "{outcome}");
        }
    }

    #[test]
    fn what_does_not_exist_is_not_held_against_a_request() {
        assert!(SLO.good(Outcome::Complete, &Latencies::default()));
        let slow = Latencies { e2e: Some(Duration::from_secs(31)), ..Latencies::default() };
        assert!(!SLO.good(Outcome::Complete, &slow));
    }
}
