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
            p50: quantile(&block.delays, 0.50),
            p99: quantile(&block.delays, 0.99),
            cpu: block.cpu.as_secs_f64() * 1e6 / units,
            rate: units / block.wall.as_secs_f64(),
        }
    }
}

/// The nearest-rank quantile of sorted nanoseconds, in microseconds.
fn quantile(sorted: &[u64], q: f64) -> f64 {
    let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
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
    let at = |q: f64| {
        let place = q * (sorted.len() as f64 - 1.0);
        let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        low + (high - low) * place.fract()
    };
    Middle { median: at(0.5), low: at(0.25), high: at(0.75) }
}
