//! The tables of a report, as rows of text.

use super::number::{decimals, shown};
use crate::figures::{Across, Compared, Figures, Group, Verdict, wilson};

/// A table.
pub(super) struct Table {
    pub(super) head: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

/// Planned, dropped, refused, broken, failed and good, always together.
pub(super) fn counts(figures: &Figures) -> Table {
    let head = vec![
        "seed",
        "phase",
        "tenant",
        "planned",
        "dropped",
        "refused",
        "broken",
        "failed",
        "complete",
        "good",
        "good rate (95 % interval)",
    ];
    let row = |g: &Group| {
        let interval = wilson(g.good, g.planned)
            .map(|(low, high)| format!(" ({:.1}–{:.1})", low * 100.0, high * 100.0));
        let rate = g.good_rate.map(|r| r * 100.0);
        let rate = match rate {
            Some(rate) => format!("{rate:.1} %{}", interval.unwrap_or_default()),
            None => "no data".into(),
        };
        let numbers = [g.planned, g.dropped, g.refused, g.broken, g.failed, g.complete, g.good];
        let mut row = name(g);
        row.extend(numbers.map(|n| n.to_string()));
        row.push(rate);
        row
    };
    Table { head, rows: figures.groups.iter().map(row).collect() }
}

/// Times of complete streams.
pub(super) fn times(figures: &Figures) -> Table {
    let head = vec![
        "seed",
        "phase",
        "tenant",
        "TTFT P50 s",
        "TTFT P95 s",
        "TTFT P99 s",
        "TPOT P95 ms",
        "E2E P95 s",
        "token hit rate %",
        "lag P99 ms (real)",
    ];
    let row = |g: &Group| {
        let mut row = name(g);
        row.push(shown(g.ttft.map(|d| d.p50), 3).to_string());
        row.push(shown(g.ttft.map(|d| d.p95), 3).to_string());
        row.push(shown(g.ttft.map(|d| d.p99), 3).to_string());
        row.push(shown(g.tpot.map(|d| d.p95 * 1e3), 1).to_string());
        row.push(shown(g.e2e.map(|d| d.p95), 2).to_string());
        row.push(shown(g.hit_rate.map(|r| r * 100.0), 1).to_string());
        row.push(shown(g.lag_ms.map(|d| d.p99), 2).to_string());
        row
    };
    Table { head, rows: figures.groups.iter().map(row).collect() }
}

/// Where requests went, and what ended those that did not complete.
pub(super) fn evidence(figures: &Figures) -> Table {
    let head =
        vec!["seed", "phase", "tenant", "requests by replica", "selections", "match %", "reasons"];
    let row = |g: &Group| {
        let mut row = name(g);
        row.push(pairs(&g.targets));
        row.push(pairs(&g.selections));
        row.push(pairs(&g.match_percent));
        row.push(pairs(&g.reasons));
        row
    };
    Table { head, rows: figures.groups.iter().map(row).collect() }
}

/// Which replica served which prefix group.
pub(super) fn mapping(figures: &Figures) -> Table {
    let with_groups =
        figures.groups.iter().filter(|g| g.tenant.is_none() && !g.group_targets.is_empty());
    let row = |g: &Group| {
        let each =
            g.group_targets.iter().map(|(group, targets)| format!("{group}: {}", pairs(targets)));
        vec![g.seed.to_string(), g.phase.clone(), each.collect::<Vec<_>>().join("; ")]
    };
    Table {
        head: vec!["seed", "phase", "requests of each prefix group by replica"],
        rows: with_groups.map(row).collect(),
    }
}

/// The spread over seeds.
pub(super) fn across(figures: &Figures) -> Table {
    let head = vec![
        "phase",
        "tenant",
        "figure",
        "seeds",
        "smallest",
        "median",
        "largest",
        "mean (95 % interval)",
    ];
    let row = |a: &Across| {
        let digits = decimals(&a.figure).max(1);
        let number = |v: f64| format!("{v:.digits$}");
        let interval = a.half_width.map_or_else(String::new, |h| format!(" ± {}", number(h)));
        vec![
            a.phase.clone(),
            a.tenant.clone().unwrap_or_else(|| "all".into()),
            a.figure.clone(),
            a.seeds.to_string(),
            number(a.min),
            number(a.median),
            number(a.max),
            format!("{}{interval}", number(a.mean)),
        ]
    };
    Table { head, rows: figures.across.iter().map(row).collect() }
}

/// Measured beside published.
pub(super) fn compared(figures: &Figures) -> Table {
    let head = vec![
        "phase",
        "tenant",
        "figure",
        "published",
        "tolerance",
        "reference model",
        "measured",
        "verdict",
        "note",
    ];
    Table { head, rows: figures.compared.iter().map(compared_row).collect() }
}

fn compared_row(row: &Compared) -> Vec<String> {
    let e = &row.expect;
    let digits = decimals(&e.figure);
    let some = |v: Option<f64>| v.map_or_else(|| "–".into(), |v| format!("{v:.digits$}"));
    let bound = match (e.at_least, e.at_most) {
        (Some(low), Some(high)) => format!("{low} to {high}"),
        (Some(low), None) => format!("≥ {low}"),
        (None, Some(high)) => format!("≤ {high}"),
        (None, None) => e.tolerance.map_or_else(|| "–".into(), |t| format!("± {t}")),
    };
    let all: Vec<String> = row.measured.iter().map(|m| shown(*m, digits).to_string()).collect();
    let measured = match all.as_slice() {
        [one] => one.clone(),
        _ => format!("{} (median {})", all.join(" / "), shown(row.median, digits)),
    };
    vec![
        e.phase.clone().unwrap_or_else(|| "all".into()),
        e.tenant.clone().unwrap_or_else(|| "all".into()),
        e.figure.clone(),
        some(e.published),
        bound,
        some(e.model),
        measured,
        verdict(row),
        e.note.clone().unwrap_or_default(),
    ]
}

/// The verdict, with the distance where a tolerance is missed.
pub(super) fn verdict(row: &Compared) -> String {
    let word = row.verdict.as_str();
    let missed = matches!(row.verdict, Verdict::Outside | Verdict::ModelMisses);
    match (row.median, row.expect.published, row.expect.tolerance) {
        (Some(measured), Some(published), Some(tolerance)) if missed => {
            let digits = decimals(&row.expect.figure).max(1);
            let beyond = (measured - published).abs() - tolerance;
            format!("{word} (beyond the tolerance by {beyond:.digits$})")
        }
        _ => word.to_owned(),
    }
}

fn name(g: &Group) -> Vec<String> {
    vec![g.seed.to_string(), g.phase.clone(), g.tenant.clone().unwrap_or_else(|| "all".into())]
}

fn pairs<K: std::fmt::Display>(counts: &std::collections::BTreeMap<K, u64>) -> String {
    let each: Vec<String> = counts.iter().map(|(k, n)| format!("{k} {n}")).collect();
    if each.is_empty() { "–".into() } else { each.join(", ") }
}
