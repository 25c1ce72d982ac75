//! The plots of a report.

use plotters::style::RGBColor;

use super::Material;
use super::series::{arrival_rate, cdf, in_flight, ttft};
use super::svg::{Axes, Named, chart, stacked};
use crate::clock::seconds;
use crate::figures::Group;
use crate::history;
use crate::record::{Arrival, Outcome};

/// A plot.
pub(super) struct Plot {
    pub(super) svg: String,
    pub(super) caption: String,
}

const PARTS: [(&str, RGBColor); 6] = [
    ("good", RGBColor(46, 160, 67)),
    ("not good", RGBColor(212, 167, 44)),
    ("refused", RGBColor(84, 147, 210)),
    ("dropped", RGBColor(140, 149, 159)),
    ("broken", RGBColor(207, 34, 46)),
    ("failed", RGBColor(130, 20, 90)),
];

/// All plots that have something to show.
pub(super) fn all(material: &Material) -> Vec<Plot> {
    let arrivals: Vec<&Arrival> = material.records.arrivals.iter().filter(|a| !a.warm_up).collect();
    let plots = [
        outcomes(material),
        timeline(&arrivals),
        queue(material),
        first_tokens(material, &arrivals),
        distribution(&arrivals, "TTFT, s", Arrival::ttft),
        distribution(&arrivals, "TPOT, s", Arrival::tpot),
        distribution(&arrivals, "E2E, s", Arrival::e2e),
        published(material),
        seeds(material),
    ];
    plots.into_iter().filter(|p| !p.svg.is_empty()).collect()
}

fn outcomes(material: &Material) -> Plot {
    let groups = &material.figures.groups;
    let split = |g: &&Group| {
        let several = groups.iter().any(|o| o.phase == g.phase && o.tenant.is_some());
        g.tenant.is_some() || !several
    };
    let row = |g: &Group| {
        let name = format!("{} {} (seed {})", g.phase, g.tenant.as_deref().unwrap_or(""), g.seed);
        let late = g.complete - g.good;
        let parts = [g.good, late, g.refused, g.dropped, g.broken, g.failed];
        (name, parts.iter().map(|n| *n as f64).collect())
    };
    let rows: Vec<(String, Vec<f64>)> = groups.iter().filter(split).map(row).collect();
    Plot { svg: stacked(&rows, &PARTS), caption: "Outcomes of the planned requests".into() }
}

fn timeline(arrivals: &[&Arrival]) -> Plot {
    let line = |name: &str, points| Named { name: name.into(), points, dots: false };
    let series = [
        line("arrivals a second × 10", scaled(arrival_rate(arrivals, 5.0), 10.0)),
        line("in flight", in_flight(arrivals)),
    ];
    let axes = Axes { x: "virtual seconds", y: "", mark: None };
    Plot { svg: chart(&series, &axes), caption: "Arrivals and requests in flight".into() }
}

fn scaled(points: Vec<(f64, f64)>, by: f64) -> Vec<(f64, f64)> {
    points.into_iter().map(|(x, y)| (x, y * by)).collect()
}

fn queue(material: &Material) -> Plot {
    let mut series = Vec::new();
    for (metric, word) in
        [("vllm:num_requests_waiting", "waiting"), ("streamgate_queued", "queued")]
    {
        for (source, points) in history::series(&material.history, metric) {
            series.push(Named { name: format!("{word}, {source}"), points, dots: false });
        }
    }
    let axes = Axes { x: "virtual seconds", y: "requests", mark: None };
    let caption = "Requests waiting, as scraped (at the times of the scrapes)".into();
    Plot { svg: chart(&series, &axes), caption }
}

fn first_tokens(material: &Material, arrivals: &[&Arrival]) -> Plot {
    let bound = seconds(material.figures.slo.ttft_us);
    let series: Vec<Named> = by_tenant(arrivals)
        .into_iter()
        .map(|(name, own)| Named { name, points: ttft(&own), dots: true })
        .collect();
    let axes = Axes { x: "virtual seconds", y: "TTFT, s", mark: Some(bound) };
    Plot {
        svg: chart(&series, &axes),
        caption: "Time to first token; the line is the bound".into(),
    }
}

fn by_tenant<'a>(arrivals: &[&'a Arrival]) -> Vec<(String, Vec<&'a Arrival>)> {
    let mut tenants: Vec<(String, Vec<&Arrival>)> = Vec::new();
    for arrival in arrivals {
        match tenants.iter_mut().find(|(name, _)| *name == arrival.tenant) {
            Some((_, own)) => own.push(arrival),
            None => tenants.push((arrival.tenant.clone(), vec![arrival])),
        }
    }
    tenants
}

fn distribution(
    arrivals: &[&Arrival],
    what: &'static str,
    value: fn(&Arrival) -> Option<f64>,
) -> Plot {
    let mut phases: Vec<(String, Vec<f64>)> = Vec::new();
    for arrival in arrivals.iter().filter(|a| a.outcome == Outcome::Complete) {
        let name = format!("{} {}", arrival.phase, arrival.tenant);
        let Some(value) = value(arrival) else { continue };
        match phases.iter_mut().find(|(n, _)| *n == name) {
            Some((_, values)) => values.push(value),
            None => phases.push((name, vec![value])),
        }
    }
    // More than a dozen lines tell nothing.
    let named = |(name, values)| Named { name, points: cdf(values), dots: false };
    let series: Vec<Named> = phases.into_iter().take(12).map(named).collect();
    let axes = Axes { x: what, y: "share of complete streams", mark: None };
    Plot { svg: chart(&series, &axes), caption: format!("Distribution of {what} (all seeds)") }
}

/// Measured over published, row by row.
fn published(material: &Material) -> Plot {
    let ratio = |(i, row): (usize, &crate::figures::Compared)| {
        let base = row.expect.published.filter(|p| *p != 0.0)?;
        Some((i as f64 + 1.0, row.median? / base))
    };
    let model = |(i, row): (usize, &crate::figures::Compared)| {
        let base = row.expect.published.filter(|p| *p != 0.0)?;
        Some((i as f64 + 1.0, row.expect.model? / base))
    };
    let rows = || material.figures.compared.iter().enumerate();
    let series = [
        Named { name: "measured".into(), points: rows().filter_map(ratio).collect(), dots: true },
        Named {
            name: "reference model".into(),
            points: rows().filter_map(model).collect(),
            dots: true,
        },
    ];
    let axes = Axes { x: "row of the comparison", y: "of published", mark: Some(1.0) };
    Plot { svg: chart(&series, &axes), caption: "Figures relative to the published ones".into() }
}

/// The spread of the good rate over seeds.
fn seeds(material: &Material) -> Plot {
    let figures = &material.figures;
    if figures.seeds.len() < 2 {
        return Plot { svg: String::new(), caption: String::new() };
    }
    let mut series: Vec<Named> = Vec::new();
    for group in &figures.groups {
        let name = format!("{} {}", group.phase, group.tenant.as_deref().unwrap_or("all"));
        let nth = figures.seeds.iter().position(|s| *s == group.seed).unwrap_or(0);
        let Some(rate) = group.good_rate else { continue };
        let point = (nth as f64 + 1.0, rate * 100.0);
        match series.iter_mut().find(|s| s.name == name) {
            Some(named) => named.points.push(point),
            None => series.push(Named { name, points: vec![point], dots: true }),
        }
    }
    series.truncate(12);
    let axes = Axes { x: "seed, in the order run", y: "good, %", mark: None };
    Plot { svg: chart(&series, &axes), caption: "Good rate of each seed".into() }
}
