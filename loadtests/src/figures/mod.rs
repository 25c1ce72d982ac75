//! All figures of a run, computed from its records and from nothing else.

mod across;
mod expect;
mod group;
mod percentile;

pub use across::Across;
pub use expect::{Compared, Verdict, compare};
pub use group::{Counts, FIGURES, Group};
pub use percentile::{Distribution, quantile, rate, wilson};

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::record::{Arrival, FAILED, Records, Slo};

/// The figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Name of the scenario.
    pub scenario: String,
    /// Times faster than real.
    pub time_scale: f64,
    /// Seeds that have arrivals, in the order run.
    pub seeds: Vec<u64>,
    /// The bounds of a good request.
    pub slo: Slo,
    /// Whether the figures may be used, and why not.
    pub validity: Validity,
    /// By seed and phase: all tenants first, then each where there are several.
    pub groups: Vec<Group>,
    /// The spread over seeds, where there are several.
    pub across: Vec<Across>,
    /// Measured beside published.
    pub compared: Vec<Compared>,
}

/// Whether the figures of a run may be used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Validity {
    /// No reason against it.
    pub valid: bool,
    /// Virtual milliseconds that the generator itself was late, P99.
    pub lag_p99_virtual_ms: Option<f64>,
    /// Largest P99 allowed.
    pub lag_bound_virtual_ms: f64,
    /// Stopped by the user: the figures are of a part.
    pub interrupted: bool,
    /// Lines that could not be used.
    pub broken_lines: usize,
    /// What speaks against the run.
    pub reasons: Vec<String>,
}

impl Figures {
    /// Computes everything.
    #[must_use]
    pub fn of(records: &Records) -> Self {
        let header = records.header.as_ref();
        let slo = header.map(|h| h.slo).unwrap_or_default();
        let time_scale = header.map_or(1.0, |h| h.time_scale);
        let counted: Vec<&Arrival> = records.arrivals.iter().filter(|a| !a.warm_up).collect();
        let seeds = seeds(records, &counted);
        let groups = groups(records, &counted, &seeds, &slo);
        let expect = header.map(|h| h.expect.as_slice()).unwrap_or_default();
        Self {
            scenario: header.map(|h| h.scenario.clone()).unwrap_or_default(),
            time_scale,
            validity: validity(records, &counted, time_scale),
            across: across::across(&groups),
            compared: compare(expect, &groups, &seeds),
            seeds,
            slo,
            groups,
        }
    }

    /// The figures as JSON: what `recompute` prints and a report stores.
    ///
    /// # Errors
    /// Never for finite figures.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

fn seeds(records: &Records, counted: &[&Arrival]) -> Vec<u64> {
    let with_data: BTreeSet<u64> = counted.iter().map(|a| a.seed).collect();
    match &records.header {
        Some(header) => header.seeds.iter().copied().filter(|s| with_data.contains(s)).collect(),
        None => with_data.into_iter().collect(),
    }
}

fn groups(records: &Records, counted: &[&Arrival], seeds: &[u64], slo: &Slo) -> Vec<Group> {
    let mut by_phase: BTreeMap<(u64, &str), Vec<&Arrival>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for arrival in counted {
        by_phase.entry((arrival.seed, &arrival.phase)).or_default().push(arrival);
    }
    for arrival in &records.arrivals {
        if !order.contains(&arrival.phase.as_str()) {
            order.push(&arrival.phase);
        }
    }
    let mut groups = Vec::new();
    for seed in seeds {
        for phase in &order {
            let Some(arrivals) = by_phase.get(&(*seed, *phase)) else { continue };
            let hits = cache_hits(records, *seed, phase);
            groups.push(Group::of((*seed, phase, None), arrivals, slo, hits));
            let tenants: BTreeSet<&str> = arrivals.iter().map(|a| a.tenant.as_str()).collect();
            if tenants.len() > 1 {
                groups.extend(tenants.into_iter().map(|tenant| {
                    let own: Vec<&Arrival> =
                        arrivals.iter().copied().filter(|a| a.tenant == tenant).collect();
                    Group::of((*seed, phase, Some(tenant)), &own, slo, None)
                }));
            }
        }
    }
    groups
}

fn cache_hits(records: &Records, seed: u64, phase: &str) -> Option<(u64, u64)> {
    let of_phase = records.evidence.iter().filter(|e| e.seed == seed && e.phase == phase);
    let told = of_phase
        .filter_map(|e| Some((*e.counts.get("prefix_hits")?, *e.counts.get("prefix_queries")?)));
    told.fold(None, |sum, (hits, queries)| {
        let (h, q) = sum.unwrap_or((0, 0));
        Some((h + hits, q + queries))
    })
}

fn validity(records: &Records, counted: &[&Arrival], time_scale: f64) -> Validity {
    let bound = records.header.as_ref().map_or(0.0, |h| h.lag_bound_us as f64 / 1e3);
    let lags = counted.iter().filter_map(|a| a.lag_us);
    let lag = Distribution::of(lags.map(|us| us as f64 * time_scale / 1e3).collect());
    let interrupted = records.trailer.as_ref().is_some_and(|t| t.interrupted);
    let mut reasons = Vec::new();
    if let Some(lag) = lag.filter(|l| l.p99 > bound) {
        reasons.push(format!(
            "the generator itself was late: P99 {:.1} ms of virtual time, bound {bound:.1} ms",
            lag.p99
        ));
    }
    if records.header.is_none() {
        reasons.push("the header line is missing or broken: default bounds were used".into());
    }
    match &records.trailer {
        None => reasons.push("the last line is missing: the file was cut".into()),
        Some(trailer) if trailer.arrivals != records.arrivals.len() as u64 => {
            let (had, wrote) = (records.arrivals.len(), trailer.arrivals);
            reasons.push(format!("{had} arrivals can be read of {wrote} written"));
        }
        Some(_) => {}
    }
    if !records.broken.is_empty() {
        reasons.push(format!("{} lines could not be read", records.broken.len()));
    }
    for action in records.actions.iter().filter(|a| a.result.starts_with(FAILED)) {
        reasons.push(format!("{} was not done: {}", action.what, action.result));
    }
    if interrupted {
        reasons.push("stopped by the user: the figures are of a part".into());
    }
    Validity {
        valid: reasons.is_empty(),
        lag_p99_virtual_ms: lag.map(|l| l.p99),
        lag_bound_virtual_ms: bound,
        interrupted,
        broken_lines: records.broken.len(),
        reasons,
    }
}
