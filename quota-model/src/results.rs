//! The table of results: `RESULTS.md`.
//!
//! Rows are kept by name, so an exploration may be recorded in pieces.

use crate::cases::{Case, Expect};
use crate::explore::Found;
use std::collections::BTreeMap;
use std::path::Path;

const HEAD: &str = "# What was explored

Written by `cargo run --release -p streamgate-quota-model -- --record quota-model/RESULTS.md [NAMES…]`;
rows of configurations that were not run are kept. Breadth first, one thread, on two shared cores, so the
seconds only tell what to expect. *Exhausted*: every reachable state was seen. *Bounded*: no violation up to
the depth shown, where the search was stopped by its limit of time, states or memory. A violation ends the
search; its depth is the length of the shortest trace (`--trace` shows it).

";

/// Puts a row into the file.
///
/// # Errors
/// If the file cannot be read or written.
pub fn record(path: &Path, cases: &[Case], case: &Case, found: &Found) -> std::io::Result<()> {
    let old = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let mut rows = parse(&old);
    rows.insert(case.name.to_owned(), row(case, found));
    std::fs::write(path, render(cases, &rows))
}

/// Rows by name.
fn parse(text: &str) -> BTreeMap<String, String> {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let named = rows.filter_map(|line| Some((line.split('`').nth(1)?, line)));
    named.map(|(name, line)| (name.to_owned(), line.to_owned())).collect()
}

fn row(case: &Case, found: &Found) -> String {
    let verdict = match (&found.violation, found.exhausted) {
        (Some((property, _)), _) => format!("violates “{property}”"),
        (None, true) => "exhausted, holds".to_owned(),
        (None, false) => "bounded, holds".to_owned(),
    };
    format!(
        "| `{}` | {} | {} | {} | {:.0} | {verdict} |",
        case.name,
        case.about,
        found.states,
        found.violation.as_ref().map_or(found.depth, |(_, steps)| steps.len()),
        found.took.as_secs_f64()
    )
}

fn render(cases: &[Case], rows: &BTreeMap<String, String>) -> String {
    let sections = [
        ("The protocol", "must hold", section(cases, |c| c.expect == Expect::Holds && !c.broken)),
        ("Stated limits", "each must show", section(cases, |c| c.name.starts_with("limit-"))),
        ("One rule removed", "each necessary rule must be missed", section(cases, |c| c.broken)),
    ];
    let mut out = HEAD.to_owned();
    for (title, note, names) in sections {
        out += &format!("## {title} ({note})\n\n");
        out +=
            "| configuration | about | states | depth | s | found |\n|---|---|---|---|---|---|\n";
        for name in names {
            if let Some(row) = rows.get(name) {
                out += row;
                out.push('\n');
            }
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn section(cases: &[Case], which: impl Fn(&Case) -> bool) -> Vec<&'static str> {
    cases.iter().filter(|case| which(case)).map(|case| case.name).collect()
}
