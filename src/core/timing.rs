//! Latencies of one answer. Whether they are good enough is [`super::slo`]'s to say.
//!
//! TTFT: start of the request to first content. TPOT: (last content − first content) / (output
//! tokens − 1), a mean for each request. E2E: start of the request to the end of its answer.

use std::time::{Duration, Instant};

/// When the parts of one answer came. Times out of order give zero, never a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The request began.
    pub start: Instant,
    /// First event with content.
    pub first_content: Option<Instant>,
    /// Last event with content.
    pub last_content: Option<Instant>,
    /// The answer ended.
    pub end: Instant,
    /// Generated tokens as the engine reported them.
    pub output_tokens: Option<u64>,
}

impl Timing {
    /// Time to first token; `None` without content (an empty or a plain answer).
    pub fn ttft(&self) -> Option<Duration> {
        self.first_content.map(|first| first.saturating_duration_since(self.start))
    }

    /// Time per output token; `None` when the tokens are unknown or fewer than two, as there is no
    /// interval to measure. Of several choices (`n > 1`) it is the pace of all together.
    pub fn tpot(&self) -> Option<Duration> {
        let intervals = self.output_tokens?.checked_sub(1).filter(|count| *count > 0)?;
        let span = self.last_content?.saturating_duration_since(self.first_content?);
        Some(Duration::from_secs_f64(span.as_secs_f64() / intervals as f64))
    }

    /// End-to-end time.
    pub fn e2e(&self) -> Duration {
        self.end.saturating_duration_since(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(first_ms: u64, last_ms: u64, end_ms: u64, tokens: Option<u64>) -> Timing {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        Timing {
            start,
            first_content: Some(at(first_ms)),
            last_content: Some(at(last_ms)),
            end: at(end_ms),
            output_tokens: tokens,
        }
    }

    #[test]
    fn the_latencies_follow_their_definitions() {
        let timing = timing(300, 1_300, 1_400, Some(11));
        assert_eq!(timing.ttft(), Some(Duration::from_millis(300)));
        assert_eq!(timing.tpot(), Some(Duration::from_millis(100)));
        assert_eq!(timing.e2e(), Duration::from_millis(1_400));
    }

    #[test]
    fn there_is_no_tpot_without_an_interval() {
        for tokens in [None, Some(0), Some(1)] {
            assert_eq!(timing(1, 2, 3, tokens).tpot(), None, "{tokens:?}");
        }
        let silent = Timing { first_content: None, last_content: None, ..timing(0, 0, 5, Some(9)) };
        assert_eq!((silent.ttft(), silent.tpot()), (None, None));
    }

    #[test]
    fn times_out_of_order_are_zero() {
        let start = Instant::now() + Duration::from_secs(9);
        let odd = Timing { start, ..timing(3, 2, 1, Some(2)) };
        assert_eq!(odd.ttft(), Some(Duration::ZERO));
        assert_eq!(odd.tpot(), Some(Duration::ZERO));
        assert_eq!(odd.e2e(), Duration::ZERO);
    }
}
