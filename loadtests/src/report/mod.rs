//! Reports: Markdown and one self-contained page, both made of the same figures.

mod html;
mod markdown;
mod number;
mod overview;
mod plots;
mod series;
mod svg;
mod tables;

pub use number::{Shown, shown};
pub use overview::overview;

use std::path::Path;

use anyhow::Context;

use crate::figures::Figures;
use crate::history::{self, Sample};
use crate::record::{BrokenLine, Records, read_records};
use crate::run::{HISTORY, RECORDS};

/// Name of the figures in a result folder: exactly what `recompute` prints.
pub const FIGURES: &str = "figures.json";
/// Name of the Markdown report.
pub const MARKDOWN: &str = "report.md";
/// Name of the page.
pub const HTML: &str = "report.html";

/// What a report is made of.
pub struct Material {
    /// Records.
    pub records: Records,
    /// Their figures.
    pub figures: Figures,
    /// Scraped series; none if there is no file.
    pub history: Vec<Sample>,
}

/// Broken lines, and the user did not ask to go on without them.
#[derive(Debug, thiserror::Error)]
#[error("{} of the records cannot be used (--broken-lines skip goes on without):\n  {}",
    lines(.0.len()), .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  "))]
pub struct BrokenLines(pub Vec<BrokenLine>);

fn lines(count: usize) -> String {
    if count == 1 { "1 line".into() } else { format!("{count} lines") }
}

/// What to do about broken lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnBroken {
    /// Use nothing.
    #[default]
    Refuse,
    /// Use the rest; the figures are then not valid, and say so.
    Skip,
}

/// Reads records and computes their figures.
///
/// # Errors
/// When the file cannot be opened, or has broken lines and `on_broken` refuses them.
pub fn recompute(path: &Path, on_broken: OnBroken) -> anyhow::Result<(Records, Figures)> {
    let records =
        read_records(path).map_err(|e| anyhow::anyhow!("cannot read {}: {e}", path.display()))?;
    if on_broken == OnBroken::Refuse && !records.broken.is_empty() {
        return Err(BrokenLines(records.broken).into());
    }
    let figures = Figures::of(&records);
    Ok((records, figures))
}

/// Writes `figures.json`, `report.md`, `report.html` and the manifest of a result folder.
///
/// # Errors
/// As [`recompute`], and when the folder cannot be written.
pub fn write(folder: &Path, on_broken: OnBroken) -> anyhow::Result<Figures> {
    let (records, figures) = recompute(&folder.join(RECORDS), on_broken)?;
    let history = history::read_history(&folder.join(HISTORY)).unwrap_or_default();
    let material = Material { records, figures, history };
    put(folder, FIGURES, &material.figures.to_json()?)?;
    put(folder, MARKDOWN, &markdown::render(&material))?;
    put(folder, HTML, &html::render(&material))?;
    crate::manifest::write(folder)
        .with_context(|| format!("cannot write the manifest of {}", folder.display()))?;
    Ok(material.figures)
}

fn put(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, text).with_context(|| {
        format!("cannot write {} (the records are whole: report again)", path.display())
    })
}
