//! Measured beside published.

use serde::Serialize;

use super::group::Group;
use super::percentile::quantile;
use crate::record::Expect;

/// One row of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// What was expected.
    pub expect: Expect,
    /// Measured, by seed.
    pub measured: Vec<Option<f64>>,
    /// Median of the seeds that have data.
    pub median: Option<f64>,
    /// What to think of it.
    pub verdict: Verdict,
}

/// What to think of a measured figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within the tolerance of the published figure, or within the bound.
    Within,
    /// Outside of the published figure's tolerance, and so is the reference model, to which the
    /// measured figure is as near as the tolerance asks. Not a success: the study is missed, and
    /// the model's misfit is the reason.
    ModelMisses,
    /// Outside, and nothing explains it.
    Outside,
    /// The replica was not fitted to this figure; it is shown for comparison only.
    NotFitted,
    /// Nothing was measured.
    NoData,
}

impl Verdict {
    /// The words in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::ModelMisses => "MISSES THE STUDY, and so does the reference model",
            Self::Outside => "OUTSIDE, unexplained",
            Self::NotFitted => "not fitted",
            Self::NoData => "no data",
        }
    }
}

/// Compares the figures of a run with what was expected.
#[must_use]
pub fn compare(expect: &[Expect], groups: &[Group], seeds: &[u64]) -> Vec<Compared> {
    expect.iter().map(|e| row(e, groups, seeds)).collect()
}

fn row(expect: &Expect, groups: &[Group], seeds: &[u64]) -> Compared {
    let measured: Vec<Option<f64>> = seeds
        .iter()
        .map(|seed| {
            let group = groups.iter().find(|g| {
                g.seed == *seed
                    && expect.phase.as_ref().is_none_or(|p| *p == g.phase)
                    && g.tenant == expect.tenant
            });
            group.and_then(|g| g.figure(&expect.figure))
        })
        .collect();
    let mut values: Vec<f64> = measured.iter().flatten().copied().collect();
    values.sort_unstable_by(f64::total_cmp);
    let median = quantile(&values, 0.5);
    Compared { verdict: verdict(expect, median), expect: expect.clone(), measured, median }
}

/// Room for the rounding of binary fractions.
const EPSILON: f64 = 1e-9;

fn verdict(expect: &Expect, measured: Option<f64>) -> Verdict {
    let Some(value) = measured else { return Verdict::NoData };
    if expect.at_least.is_some() || expect.at_most.is_some() {
        let low = expect.at_least.is_none_or(|bound| value >= bound - EPSILON);
        let high = expect.at_most.is_none_or(|bound| value <= bound + EPSILON);
        return if low && high { Verdict::Within } else { Verdict::Outside };
    }
    let (Some(published), Some(tolerance)) = (expect.published, expect.tolerance) else {
        return Verdict::NotFitted;
    };
    let near = |a: f64, b: f64| (a - b).abs() <= tolerance + EPSILON;
    match expect.model {
        _ if near(value, published) => Verdict::Within,
        Some(model) if !near(model, published) && near(value, model) => Verdict::ModelMisses,
        _ => Verdict::Outside,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect(published: f64, tolerance: Option<f64>, model: f64) -> Expect {
        Expect {
            phase: None,
            tenant: None,
            figure: "good".into(),
            published: Some(published),
            tolerance,
            model: Some(model),
            at_least: None,
            at_most: None,
            note: None,
        }
    }

    #[test]
    fn verdicts() {
        let fitted = expect(105.0, Some(3.0), 103.0);
        assert_eq!(verdict(&fitted, Some(102.0)), Verdict::Within);
        assert_eq!(verdict(&fitted, Some(101.0)), Verdict::Outside);
        assert_eq!(verdict(&fitted, None), Verdict::NoData);
        let off = expect(37.5, Some(4.0), 49.7);
        assert_eq!(verdict(&off, Some(50.0)), Verdict::ModelMisses);
        assert_eq!(verdict(&off, Some(44.0)), Verdict::Outside);
        assert_eq!(verdict(&expect(40.0, None, 50.0), Some(1.0)), Verdict::NotFitted);
        let edge = expect(58.5, Some(0.6), 59.1);
        assert_eq!(verdict(&edge, Some(59.1)), Verdict::Within);
        assert_eq!(verdict(&edge, Some(59.2)), Verdict::Outside, "no credit for a model inside");
        let bound = Expect { at_least: Some(104.0), published: None, ..fitted };
        assert_eq!(verdict(&bound, Some(104.0)), Verdict::Within);
        assert_eq!(verdict(&bound, Some(103.0)), Verdict::Outside);
    }
}
