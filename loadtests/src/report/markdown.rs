//! The report as Markdown.

use std::fmt::Write;

use super::Material;
use super::tables::{self, Table};
use crate::clock::seconds;
use crate::figures::{Figures, Verdict};

/// The whole text.
pub(super) fn render(material: &Material) -> String {
    let figures = &material.figures;
    let mut out = String::new();
    heading(&mut out, material);
    validity(&mut out, figures);
    section(&mut out, "Measured beside published", &tables::compared(figures));
    section(&mut out, "What became of the planned requests", &tables::counts(figures));
    section(&mut out, "Spread over the seeds", &tables::across(figures));
    section(&mut out, "Times of complete streams", &tables::times(figures));
    section(&mut out, "Evidence", &tables::evidence(figures));
    section(&mut out, "Prefix groups", &tables::mapping(figures));
    section(&mut out, "Counted by engines and router", &counted(material));
    section(&mut out, "Actions", &actions(material));
    definitions(&mut out, figures);
    out
}

fn heading(out: &mut String, material: &Material) {
    let figures = &material.figures;
    let _ = writeln!(out, "# {}\n", figures.scenario);
    let Some(header) = &material.records.header else { return };
    let seeds: Vec<String> = figures.seeds.iter().map(ToString::to_string).collect();
    let _ = writeln!(out, "{}\n", header.about);
    let _ = writeln!(out, "- Target: {}", header.target);
    let _ = writeln!(out, "- Command: `{}`", header.command);
    let _ = writeln!(
        out,
        "- Seeds: {}; {} times real speed; started {}; version {}\n",
        seeds.join(", "),
        figures.time_scale,
        header.started,
        header.version
    );
}

fn validity(out: &mut String, figures: &Figures) {
    let validity = &figures.validity;
    if validity.valid {
        let _ = writeln!(
            out,
            "**Valid run.** The generator itself was late by {:.1} ms of virtual time at P99 \
             (bound {:.1} ms).\n",
            validity.lag_p99_virtual_ms.unwrap_or(0.0),
            validity.lag_bound_virtual_ms
        );
    } else {
        let _ = writeln!(out, "**NOT A VALID RUN**: {}.\n", validity.reasons.join("; "));
    }
    for line in missed(figures) {
        let _ = writeln!(out, "**{line}**\n");
    }
}

/// How many figures miss what was published or asked for, in a line each.
pub(super) fn missed(figures: &Figures) -> Vec<String> {
    let count = |v| figures.compared.iter().filter(|c| c.verdict == v).count();
    let (outside, model) = (count(Verdict::Outside), count(Verdict::ModelMisses));
    let mut lines = Vec::new();
    if outside > 0 {
        lines.push(format!("{outside} figures are outside of what was expected, unexplained."));
    }
    if model > 0 {
        lines.push(format!(
            "{model} figures miss the study's value by more than the tolerance; the reference \
             model misses it too, and they agree with the model."
        ));
    }
    lines
}

/// A table under a title; nothing if it is empty.
pub(super) fn section(out: &mut String, title: &str, table: &Table) {
    if table.rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "## {title}\n");
    let _ = writeln!(out, "| {} |", table.head.join(" | "));
    let _ = writeln!(out, "|{}", "---|".repeat(table.head.len()));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(|c| c.replace('|', "\\|")).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
}

fn definitions(out: &mut String, figures: &Figures) {
    let slo = &figures.slo;
    let _ = writeln!(
        out,
        "## Definitions\n\n\
         Complete: HTTP 200, content, the terminal event, and usage with the configured number of \
         output tokens; nothing is retried. TTFT: start of the POST to the first content. TPOT: \
         (last − first content) / (output tokens − 1). E2E: start of the POST to the end of the \
         stream. Good: complete, TTFT ≤ {} s, TPOT ≤ {} ms and E2E ≤ {} s. Good rate: good of \
         planned, dropped arrivals included. Percentiles: linear interpolation over the complete \
         streams of one seed and phase, never merged. All times are virtual (real × scale) unless \
         marked real. Warm-up requests are in no figure. Every figure can be recomputed from the \
         records alone: `streamgate-loadtests recompute records.jsonl.gz`.",
        seconds(slo.ttft_us),
        slo.tpot_us as f64 / 1e3,
        seconds(slo.e2e_us),
    );
}

/// What engines and router counted.
pub(super) fn counted(material: &Material) -> Table {
    let row = |e: &crate::record::Evidence| {
        let counts: Vec<String> = e.counts.iter().map(|(k, n)| format!("{k} {n}")).collect();
        vec![e.seed.to_string(), e.phase.clone(), e.source.clone(), counts.join(", ")]
    };
    let with_counts = material.records.evidence.iter().filter(|e| !e.counts.is_empty());
    Table { head: vec!["seed", "phase", "source", "counts"], rows: with_counts.map(row).collect() }
}

/// What was done at a time.
pub(super) fn actions(material: &Material) -> Table {
    let row = |a: &crate::record::ActionTaken| {
        vec![
            a.seed.to_string(),
            a.phase.clone(),
            format!("{:.2}", seconds(a.due_us)),
            format!("{:.2}", seconds(a.done_us)),
            a.what.clone(),
            a.result.clone(),
        ]
    };
    Table {
        head: vec!["seed", "phase", "due s", "done s", "action", "result"],
        rows: material.records.actions.iter().map(row).collect(),
    }
}
