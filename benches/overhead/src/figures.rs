//! Figures out of blocks.

use crate::cases::Block;

/// The figures of one path in one round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Microseconds.
    pub p50: f64,
    pub p99: f64,
    /// Microseconds of the proxy for each request or event.
    pub cpu: f64,
    /// Requests or events a second.
    pub rate: f64,
}

impl From<Block> for Round {
    fn from(block: Block) -> Self {
        let units = block.units as f64;
        Self {
            p50: percentile(&block.delays, 50),
            p99: percentile(&block.delays, 99),
            cpu: block.cpu.as_secs_f64() * 1e6 / units,
            rate: units / block.wall.as_secs_f64(),
        }
    }
}

/// The nearest-rank percentile of sorted nanoseconds, in microseconds.
fn percentile(sorted: &[u64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map_or(f64::NAN, |nanos| *nanos as f64 / 1e3)
}

/// The middle of several rounds, with the span of its middle half.
#[derive(Clone, Copy, Debug)]
pub struct Middle {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

/// Medians do not follow the one round in which the machine did something else.
pub fn middle(values: impl IntoIterator<Item = f64>) -> Middle {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let at = |quarters| quarter(&sorted, quarters);
    Middle { median: at(2), low: at(1), high: at(3) }
}

/// The value `quarters` quarters up the sorted values, between the two next to that place.
fn quarter(sorted: &[f64], quarters: usize) -> f64 {
    let place = quarters * sorted.len().saturating_sub(1);
    let at = |n: usize| sorted.get(n).copied().unwrap_or(f64::NAN);
    let (low, high) = (at(place / 4), at(place.div_ceil(4)));
    low + (high - low) * (place % 4) as f64 / 4.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks() {
        let nanos: Vec<u64> = (1..=200).map(|n| n * 1_000).collect();
        assert_eq!((percentile(&nanos, 50), percentile(&nanos, 99)), (100.0, 198.0));
        assert_eq!(percentile(&nanos[..1], 99), 1.0);
        assert!(percentile(&[], 50).is_nan());
    }

    #[test]
    fn the_middle_half_lies_between_the_quartiles() {
        let Middle { median, low, high } = middle([5.0, 1.0, 2.0, 4.0, 3.0]);
        assert_eq!((low, median, high), (2.0, 3.0, 4.0));
        let Middle { median, low, high } = middle([1.0, 2.0]);
        assert_eq!((low, median, high), (1.25, 1.5, 1.75));
    }
}
