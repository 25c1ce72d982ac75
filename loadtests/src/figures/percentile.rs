//! Percentiles of raw values.

use serde::Serialize;

/// The `p` quantile (0 to 1) by linear interpolation between closest ranks: the value at
/// `(n − 1) · p` of the sorted values. `None` without values.
#[must_use]
pub fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = last as f64 * p.clamp(0.0, 1.0);
    let low = at as usize;
    let (a, b) = (sorted[low], sorted[(low + 1).min(last)]);
    Some(a + (b - a) * (at - low as f64))
}

/// A distribution, from raw values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of values.
    pub count: usize,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Distribution {
    /// `None` without values: there is no data, not a zero.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        Some(Self {
            count: values.len(),
            p50: quantile(&values, 0.5)?,
            p95: quantile(&values, 0.95)?,
            p99: quantile(&values, 0.99)?,
            max: *values.last()?,
        })
    }
}

/// `part / whole`; `None` when the whole is 0.
#[must_use]
pub fn rate(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The 95 % confidence interval of a rate (Wilson's score interval); `None` when the whole is 0.
#[must_use]
pub fn wilson(part: u64, whole: u64) -> Option<(f64, f64)> {
    const Z: f64 = 1.959_963_984_540_054;
    let p = rate(part, whole)?;
    let n = whole as f64;
    let (centre, spread) =
        (p + Z * Z / (2.0 * n), Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt());
    let scale = 1.0 + Z * Z / n;
    Some((((centre - spread) / scale).max(0.0), ((centre + spread) / scale).min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_linearly() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(quantile(&values, 0.95), Some(19.05));
        assert_eq!(quantile(&[1.0, 3.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[7.0], 0.95), Some(7.0));
        assert_eq!(quantile(&values, 1.0), Some(20.0));
        assert_eq!(quantile(&[], 0.95), None);
    }

    #[test]
    fn nothing_is_no_data() {
        assert_eq!(Distribution::of(vec![]), None);
        assert_eq!(rate(0, 0), None);
        assert_eq!(rate(0, 4), Some(0.0));
        assert_eq!(wilson(0, 0), None);
    }

    #[test]
    fn wilson_matches_a_known_interval() {
        let (low, high) = wilson(15, 105).unwrap();
        assert!((low - 0.0885).abs() < 5e-4 && (high - 0.2225).abs() < 5e-4, "{low} {high}");
        assert_eq!(wilson(105, 105).unwrap().1, 1.0);
    }
}
