//! What a run or a report says on the terminal.

use std::path::Path;
use std::process::ExitCode;

use streamgate_loadtests::figures::{Figures, Verdict};
use streamgate_loadtests::report::{HTML, MARKDOWN, shown};

/// Ends a run that is not valid.
const INVALID: u8 = 3;
/// Ends a run with a figure outside of what was expected, if that was asked for.
const OUTSIDE: u8 = 4;

/// Prints the figures in short.
pub(crate) fn print(figures: &Figures, folder: &Path) {
    for g in &figures.groups {
        println!(
            "{} {} (seed {}): planned {} | dropped {} | refused {} | broken {} | failed {} | good {} | \
             TTFT P95 {} s | TPOT P95 {} ms",
            g.phase,
            g.tenant.as_deref().unwrap_or("all"),
            g.seed,
            g.planned,
            g.dropped,
            g.refused,
            g.broken,
            g.failed,
            g.good,
            shown(g.ttft.map(|d| d.p95), 3),
            shown(g.tpot.map(|d| d.p95 * 1e3), 1),
        );
    }
    for row in &figures.compared {
        let e = &row.expect;
        let some = |v: Option<f64>| v.map_or_else(|| "–".to_owned(), |v| format!("{v:.3}"));
        println!(
            "  {} {} {}: published {} model {} measured {}: {}",
            e.phase.as_deref().unwrap_or(""),
            e.tenant.as_deref().unwrap_or("all"),
            e.figure,
            some(e.published),
            some(e.model),
            shown(row.median, 3),
            row.verdict.as_str()
        );
    }
    if !figures.validity.valid {
        println!("NOT A VALID RUN: {}", figures.validity.reasons.join("; "));
    }
    println!("{}", folder.join(MARKDOWN).display());
    println!("{}", folder.join(HTML).display());
}

/// The exit code that figures deserve.
pub(crate) fn code(figures: &Figures, strict: bool) -> ExitCode {
    if !figures.validity.valid {
        return ExitCode::from(INVALID);
    }
    let outside = figures.compared.iter().any(|c| c.verdict == Verdict::Outside);
    if strict && outside { ExitCode::from(OUTSIDE) } else { ExitCode::SUCCESS }
}
