//! The figures of one set of arrivals.

use std::collections::BTreeMap;

use serde::Serialize;

use super::percentile::{Distribution, rate};
use crate::record::{Arrival, Outcome, Slo};

/// Counts by a label.
pub type Counts = BTreeMap<String, u64>;

/// Figures of the arrivals of one seed, phase and tenant. Planned, dropped, refused, broken,
/// failed and good stand together; `planned` is the denominator of every rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Seed.
    pub seed: u64,
    /// Phase.
    pub phase: String,
    /// Tenant; `None` for all.
    pub tenant: Option<String>,
    /// Arrivals whose time came, sent or not, less those that a stop of the run cut off.
    pub planned: u64,
    /// Never sent for the client's own bound.
    pub dropped: u64,
    /// Answered by a status other than 200.
    pub refused: u64,
    /// Answered 200, not complete.
    pub broken: u64,
    /// Not answered.
    pub failed: u64,
    /// Complete streams.
    pub complete: u64,
    /// Complete within all bounds.
    pub good: u64,
    /// Good of planned.
    pub good_rate: Option<f64>,
    /// Cut off by a stop of the run.
    pub interrupted: u64,
    /// Reasons of all that is neither complete nor dropped.
    pub reasons: Counts,
    /// Seconds to the first content, complete streams.
    pub ttft: Option<Distribution>,
    /// Seconds per output token, complete streams.
    pub tpot: Option<Distribution>,
    /// Seconds from start to end, complete streams.
    pub e2e: Option<Distribution>,
    /// Smallest and largest seconds from start to end of the broken.
    pub broken_e2e: Option<(f64, f64)>,
    /// Real milliseconds that the generator itself was late.
    pub lag_ms: Option<Distribution>,
    /// Output tokens of complete streams.
    pub output_tokens: u64,
    /// Requests by replica, where known.
    pub targets: Counts,
    /// Requests by way of choice, where known.
    pub selections: Counts,
    /// Requests by match percent, where known.
    pub match_percent: BTreeMap<u32, u64>,
    /// Replica of each prefix group's requests: `group → replica → requests`.
    pub group_targets: BTreeMap<u32, Counts>,
    /// Prompt tokens found in a cache, of all looked up.
    pub hit_rate: Option<f64>,
    /// Smallest and largest delay that refusals named, in seconds.
    pub retry_after_s: Option<(f64, f64)>,
}

impl Group {
    /// Computes the figures. `hits` is what the engines counted: found and looked up; without it
    /// the hit rate comes from what answers told.
    #[must_use]
    pub fn of(
        (seed, phase, tenant): (u64, &str, Option<&str>),
        arrivals: &[&Arrival],
        slo: &Slo,
        hits: Option<(u64, u64)>,
    ) -> Self {
        let of = |o: Outcome| arrivals.iter().filter(|a| a.outcome == o).count() as u64;
        let interrupted = of(Outcome::Interrupted);
        let planned = arrivals.len() as u64 - interrupted;
        let good = arrivals.iter().filter(|a| a.good(slo)).count() as u64;
        let complete: Vec<&Arrival> =
            arrivals.iter().copied().filter(|a| a.outcome == Outcome::Complete).collect();
        let spread = |f: fn(&Arrival) -> Option<f64>| {
            Distribution::of(complete.iter().filter_map(|a| f(a)).collect())
        };
        let (found, asked) = hits.unwrap_or_else(|| cached(&complete));
        Self {
            seed,
            phase: phase.to_owned(),
            tenant: tenant.map(str::to_owned),
            planned,
            dropped: of(Outcome::DroppedArrival),
            refused: of(Outcome::Refused),
            broken: of(Outcome::Broken),
            failed: of(Outcome::Failed),
            complete: complete.len() as u64,
            good,
            good_rate: rate(good, planned),
            interrupted,
            reasons: reasons(arrivals),
            ttft: spread(Arrival::ttft),
            tpot: spread(Arrival::tpot),
            e2e: spread(Arrival::e2e),
            broken_e2e: range(
                arrivals.iter().filter(|a| a.outcome == Outcome::Broken).filter_map(|a| a.e2e()),
            ),
            lag_ms: Distribution::of(lags(arrivals)),
            output_tokens: complete.iter().filter_map(|a| a.output_tokens).map(u64::from).sum(),
            targets: count(arrivals.iter().filter_map(|a| a.target.clone())),
            selections: count(arrivals.iter().filter_map(|a| a.selection.clone())),
            match_percent: count(arrivals.iter().filter_map(|a| a.match_percent)),
            group_targets: group_targets(arrivals),
            hit_rate: rate(found, asked),
            retry_after_s: range(arrivals.iter().filter_map(|a| a.retry_after_s)),
        }
    }

    /// A figure by its name, as scenarios use it for expectations. `None`: no data, or no such
    /// figure (see [`FIGURES`]).
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<f64> {
        FIGURES.iter().find(|(n, _)| *n == name).and_then(|(_, get)| get(self))
    }
}

type Get = fn(&Group) -> Option<f64>;

/// Figures that expectations may name. Times in seconds but for `tpot_…_ms`; rates in percent.
pub const FIGURES: &[(&str, Get)] = &[
    ("planned", |g| Some(g.planned as f64)),
    ("dropped", |g| Some(g.dropped as f64)),
    ("refused", |g| Some(g.refused as f64)),
    ("broken", |g| Some(g.broken as f64)),
    ("failed", |g| Some(g.failed as f64)),
    ("complete", |g| Some(g.complete as f64)),
    ("good", |g| Some(g.good as f64)),
    ("good_percent", |g| g.good_rate.map(|r| r * 100.0)),
    ("ttft_p50", |g| g.ttft.map(|d| d.p50)),
    ("ttft_p95", |g| g.ttft.map(|d| d.p95)),
    ("tpot_p95_ms", |g| g.tpot.map(|d| d.p95 * 1e3)),
    ("e2e_p95", |g| g.e2e.map(|d| d.p95)),
    ("broken_e2e_min", |g| g.broken_e2e.map(|(low, _)| low)),
    ("broken_e2e_max", |g| g.broken_e2e.map(|(_, high)| high)),
    ("hit_percent", |g| g.hit_rate.map(|r| r * 100.0)),
    ("requests_A", |g| Some(g.targets.get("A").copied().unwrap_or(0) as f64)),
    ("requests_B", |g| Some(g.targets.get("B").copied().unwrap_or(0) as f64)),
];

fn count<K: Ord>(keys: impl Iterator<Item = K>) -> BTreeMap<K, u64> {
    let mut counts = BTreeMap::new();
    for key in keys {
        *counts.entry(key).or_insert(0) += 1;
    }
    counts
}

fn reasons(arrivals: &[&Arrival]) -> Counts {
    let told = |a: &&&Arrival| !matches!(a.outcome, Outcome::Complete | Outcome::DroppedArrival);
    count(arrivals.iter().filter(told).map(|a| {
        let reason = a.reason.as_deref().unwrap_or("unknown");
        format!("{}: {reason}", a.outcome.as_str())
    }))
}

fn cached(complete: &[&Arrival]) -> (u64, u64) {
    let told = complete.iter().filter_map(|a| Some((a.cached_tokens?, a.prompt_tokens?)));
    told.fold((0, 0), |(found, asked), (c, p)| (found + u64::from(c), asked + u64::from(p)))
}

fn lags(arrivals: &[&Arrival]) -> Vec<f64> {
    arrivals.iter().filter_map(|a| a.lag_us).map(|us| us as f64 / 1e3).collect()
}

fn group_targets(arrivals: &[&Arrival]) -> BTreeMap<u32, Counts> {
    let mut map: BTreeMap<u32, Counts> = BTreeMap::new();
    for (group, target) in arrivals.iter().filter_map(|a| Some((a.group?, a.target.clone()?))) {
        *map.entry(group).or_default().entry(target).or_insert(0) += 1;
    }
    map
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, v| {
        let (low, high) = range.unwrap_or((v, v));
        Some((f64::min(low, v), f64::max(high, v)))
    })
}
