//! The spread of figures over the seeds of a run.

use std::collections::BTreeMap;

use serde::Serialize;

use super::group::Group;
use super::percentile::quantile;

/// Figures whose spread is told.
const SPREAD: [&str; 6] =
    ["good_percent", "refused", "ttft_p50", "ttft_p95", "tpot_p95_ms", "e2e_p95"];

/// One figure of one phase and tenant over all seeds that have it.
///
/// Each value is a figure of one seed; percentiles of different seeds are set side by side and
/// never pooled. The interval is that of the mean of such values, by Student's t.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Across {
    /// Phase.
    pub phase: String,
    /// Tenant; `None` for all.
    pub tenant: Option<String>,
    /// Name of the figure.
    pub figure: String,
    /// Seeds that have data.
    pub seeds: usize,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Half the width of the mean's 95 % confidence interval; `None` for a single value.
    pub half_width: Option<f64>,
}

/// The spread of every figure; nothing where there is one seed only.
pub(super) fn across(groups: &[Group]) -> Vec<Across> {
    let mut order: Vec<(&str, Option<&str>)> = Vec::new();
    let mut values: BTreeMap<(usize, &str), Vec<f64>> = BTreeMap::new();
    for group in groups {
        let key = (group.phase.as_str(), group.tenant.as_deref());
        let at = order.iter().position(|k| *k == key).unwrap_or_else(|| {
            order.push(key);
            order.len() - 1
        });
        for figure in SPREAD {
            values.entry((at, figure)).or_default().extend(group.figure(figure));
        }
    }
    if groups.iter().all(|g| g.seed == groups[0].seed) {
        return Vec::new();
    }
    let places = (0..order.len()).flat_map(|at| SPREAD.map(|figure| (at, figure)));
    let row = |(at, figure)| {
        let (phase, tenant) = order[at];
        spread(values.remove(&(at, figure))?).map(|s| Across {
            phase: phase.to_owned(),
            tenant: tenant.map(str::to_owned),
            figure: figure.to_owned(),
            ..s
        })
    };
    places.filter_map(row).collect()
}

fn spread(mut values: Vec<f64>) -> Option<Across> {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n as f64;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let half_width = (n > 1).then(|| student(n - 1) * (squares / (n - 1) as f64 / n as f64).sqrt());
    Some(Across {
        phase: String::new(),
        tenant: None,
        figure: String::new(),
        seeds: n,
        min: *values.first()?,
        median: quantile(&values, 0.5)?,
        max: *values.last()?,
        mean,
        half_width,
    })
}

/// The 97.5 % quantile of Student's t: a table up to 10 degrees of freedom, above it the first
/// terms of the Cornish-Fisher expansion (right to three digits there).
fn student(degrees: usize) -> f64 {
    const TABLE: [f64; 10] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    if let Some(t) = degrees.checked_sub(1).and_then(|at| TABLE.get(at)) {
        return *t;
    }
    let (z, n) = (1.959_963_985_f64, degrees as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / n + second / n.powi(2) + third / n.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean() {
        let s = spread(vec![3.0, 1.0, 2.0, 4.0, 5.0]).unwrap();
        assert_eq!((s.seeds, s.min, s.median, s.mean, s.max), (5, 1.0, 3.0, 3.0, 5.0));
        // s = 1.5811, / sqrt 5 = 0.7071, × 2.776.
        assert!((s.half_width.unwrap() - 1.963).abs() < 1e-3, "{s:?}");
        assert_eq!(spread(vec![7.0]).unwrap().half_width, None);
        assert_eq!(spread(vec![]), None);
    }

    #[test]
    fn quantiles_of_student() {
        for (degrees, t) in [(4, 2.776), (11, 2.201), (29, 2.045), (100, 1.984)] {
            assert!((student(degrees) - t).abs() < 1e-3, "{degrees}: {}", student(degrees));
        }
    }
}
