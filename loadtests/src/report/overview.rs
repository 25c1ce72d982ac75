//! One page over many result folders: every published figure beside the measured one.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::number::decimals;
use super::tables::{Table, compared, verdict};
use super::{OnBroken, markdown, recompute, shown};
use crate::figures::{Compared, Figures, Verdict};
use crate::record::Header;
use crate::run::RECORDS;

/// Above so many rows a comparison is told by phase, one line each.
const LONG: usize = 40;

struct Ran {
    folder: String,
    header: Header,
    figures: Figures,
}

/// The page over all result folders in a folder, computed anew from their records.
///
/// # Errors
/// When records cannot be read, have broken lines, or have no header.
pub fn overview(results: &Path) -> anyhow::Result<String> {
    let mut all = Vec::new();
    for folder in folders(results)? {
        let path = results.join(&folder).join(RECORDS);
        if path.is_file() {
            let (records, figures) = recompute(&path, OnBroken::Refuse)?;
            let header = records.header.ok_or_else(|| anyhow::anyhow!("{folder}: no header"))?;
            all.push(Ran { folder, header, figures });
        }
    }
    let mut out = String::from(
        "# Results\n\nWritten by `streamgate-loadtests overview loadtests/results`, from the \
         records alone. Why figures deviate is told in [DEVIATIONS.md](DEVIATIONS.md).\n\n",
    );
    markdown::section(&mut out, "Runs", &runs(&all));
    let _ = writeln!(out, "{WORDS}");
    for ran in all.iter().filter(|r| !r.figures.compared.is_empty()) {
        let rows = &ran.figures.compared;
        if rows.len() <= LONG {
            markdown::section(&mut out, &ran.folder, &compared(&ran.figures));
        } else {
            markdown::section(&mut out, &ran.folder, &by_phase(rows));
            markdown::section(&mut out, &format!("{}: missed", ran.folder), &missed(&ran.figures));
        }
    }
    for ran in all.iter().filter(|r| !r.figures.across.is_empty()) {
        let title = format!("{}: spread over seeds", ran.folder);
        markdown::section(&mut out, &title, &super::tables::across(&ran.figures));
    }
    Ok(out)
}

const WORDS: &str = "*Missed* counts figures beyond the tolerance of the published value, also \
where the reference model of the replica misses it in the same way. Where a comparison is told by \
phase, a cell is `published → measured (reference model)`; ✗ marks a figure beyond the tolerance, \
† a published value that the reference model does not reach in any of 36 draws of order and \
router; figures without a mark of either kind that still differ are within the model's spread over \
such draws. Only warm least-request and the two policies at 50 % hot have tolerances.\n";

fn folders(results: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(results)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

fn runs(all: &[Ran]) -> Table {
    let row = |r: &Ran| {
        let f = &r.figures;
        let count = |v: Verdict| f.compared.iter().filter(|c| c.verdict == v).count().to_string();
        let seeds: Vec<String> = f.seeds.iter().map(ToString::to_string).collect();
        vec![
            format!("[{0}]({0}/report.md)", r.folder),
            f.time_scale.to_string(),
            seeds.join(", "),
            if f.validity.valid { "yes".into() } else { f.validity.reasons.join("; ") },
            shown(f.validity.lag_p99_virtual_ms, 1).to_string(),
            count(Verdict::Within),
            count(Verdict::ModelMisses),
            count(Verdict::Outside),
            count(Verdict::NotFitted),
            format!("`{}`", r.header.command),
        ]
    };
    Table {
        head: vec![
            "result",
            "times real",
            "seeds",
            "valid",
            "lag P99 ms (virtual)",
            "within",
            "missed, as the model",
            "missed, unexplained",
            "not fitted",
            "command",
        ],
        rows: all.iter().map(row).collect(),
    }
}

fn by_phase(rows: &[Compared]) -> Table {
    let names: BTreeSet<&str> = rows.iter().map(|r| r.expect.figure.as_str()).collect();
    let order =
        ["ttft_p95", "tpot_p95_ms", "hit_percent", "good", "requests_A", "requests_B", "failed"];
    let named: Vec<&'static str> = order.into_iter().filter(|n| names.contains(n)).collect();
    let mut phases: Vec<&str> = Vec::new();
    for row in rows {
        let phase = row.expect.phase.as_deref().unwrap_or("all");
        if !phases.contains(&phase) {
            phases.push(phase);
        }
    }
    let line = |phase: &&str| {
        let find = |figure: &&str| {
            rows.iter().find(|r| {
                r.expect.phase.as_deref().unwrap_or("all") == *phase && r.expect.figure == *figure
            })
        };
        let cells = named.iter().map(|f| find(f).map_or_else(|| "–".into(), cell));
        std::iter::once((*phase).to_owned()).chain(cells).collect()
    };
    let head = std::iter::once("phase").chain(named.iter().copied()).collect();
    Table { head, rows: phases.iter().map(line).collect() }
}

fn cell(row: &Compared) -> String {
    let digits = decimals(&row.expect.figure);
    let some = |v: Option<f64>| v.map_or_else(|| "–".into(), |v| format!("{v:.digits$}"));
    let missed = matches!(row.verdict, Verdict::Outside | Verdict::ModelMisses);
    let unreachable = row.expect.note.as_deref().is_some_and(|n| n.ends_with("lies outside"));
    format!(
        "{} → {} ({}){}{}",
        some(row.expect.published),
        some(row.median),
        some(row.expect.model),
        if missed { " ✗" } else { "" },
        if unreachable { " †" } else { "" }
    )
}

fn missed(figures: &Figures) -> Table {
    let beyond = |r: &&Compared| matches!(r.verdict, Verdict::Outside | Verdict::ModelMisses);
    let row = |r: &Compared| {
        let digits = decimals(&r.expect.figure);
        let some = |v: Option<f64>| v.map_or_else(|| "–".into(), |v| format!("{v:.digits$}"));
        vec![
            r.expect.phase.clone().unwrap_or_default(),
            r.expect.figure.clone(),
            some(r.expect.published),
            format!("± {}", r.expect.tolerance.unwrap_or_default()),
            some(r.median),
            some(r.expect.model),
            verdict(r),
            r.expect.note.clone().unwrap_or_default(),
        ]
    };
    Table {
        head: vec![
            "phase",
            "figure",
            "published",
            "tolerance",
            "measured",
            "reference model",
            "verdict",
            "note",
        ],
        rows: figures.compared.iter().filter(beyond).map(row).collect(),
    }
}
