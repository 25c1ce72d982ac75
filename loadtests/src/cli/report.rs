//! `report`, `recompute`, `request` and `manifest`: what can be done with a result folder.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args as ClapArgs, ValueEnum};
use streamgate_loadtests::manifest;
use streamgate_loadtests::plan::PhasePlan;
use streamgate_loadtests::report::{self, OnBroken};
use streamgate_loadtests::run::SCENARIO;
use streamgate_loadtests::scenario::Scenario;

use super::summary;

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Broken {
    /// Report them and use nothing.
    #[default]
    Refuse,
    /// Report them and use the rest.
    Skip,
}

impl From<Broken> for OnBroken {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Refuse => Self::Refuse,
            Broken::Skip => Self::Skip,
        }
    }
}

/// Write the report of a result folder anew.
#[derive(Debug, ClapArgs)]
pub(crate) struct ReportArgs {
    /// The result folder.
    folder: PathBuf,
    /// What to do about lines that cannot be read.
    #[arg(long, value_enum, default_value_t)]
    broken_lines: Broken,
}

/// Compute all figures from a file of records alone, as JSON.
#[derive(Debug, ClapArgs)]
pub(crate) struct RecomputeArgs {
    /// The records (gzip or plain).
    records: PathBuf,
    /// What to do about lines that cannot be read.
    #[arg(long, value_enum, default_value_t)]
    broken_lines: Broken,
}

/// Rebuild one request body, byte for byte.
#[derive(Debug, ClapArgs)]
pub(crate) struct RequestArgs {
    /// A result folder, or a scenario file.
    from: PathBuf,
    /// Phase.
    #[arg(long)]
    phase: String,
    /// Index in the phase.
    #[arg(long)]
    index: u64,
    /// Seed (default: the scenario's).
    #[arg(long)]
    seed: Option<u64>,
}

/// Write the SHA-256 manifest of a result folder, or check the folder against it.
#[derive(Debug, ClapArgs)]
pub(crate) struct ManifestArgs {
    /// The result folder.
    folder: PathBuf,
    /// Check instead of write; ends with 1 if anything differs.
    #[arg(long)]
    check: bool,
}

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let figures = report::write(&args.folder, args.broken_lines.into())?;
    summary::print(&figures, &args.folder);
    Ok(summary::code(&figures, false))
}

pub(crate) fn recompute(args: &RecomputeArgs) -> anyhow::Result<ExitCode> {
    let (records, figures) = report::recompute(&args.records, args.broken_lines.into())?;
    for broken in &records.broken {
        eprintln!("{}: {broken}", args.records.display());
    }
    std::io::stdout().write_all(figures.to_json()?.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn request(args: &RequestArgs) -> anyhow::Result<ExitCode> {
    let scenario = scenario(&args.from)?;
    let phase = scenario.phases.iter().find(|p| p.name == args.phase);
    let phase = phase.with_context(|| {
        let names: Vec<&str> = scenario.phases.iter().map(|p| p.name.as_str()).collect();
        format!("--phase {:?}: the phases are {}", args.phase, names.join(", "))
    })?;
    let plan = PhasePlan::of(phase, args.seed.unwrap_or(scenario.seed));
    let body = plan.body(&scenario, args.index);
    std::io::stdout().write_all(&body)?;
    Ok(ExitCode::SUCCESS)
}

fn scenario(from: &Path) -> anyhow::Result<Scenario> {
    if from.is_dir() {
        let path = from.join(SCENARIO);
        let text = std::fs::read(&path).with_context(|| format!("{}", path.display()))?;
        return serde_json::from_slice(&text).with_context(|| format!("{}", path.display()));
    }
    Ok(Scenario::read(from)?)
}

pub(crate) fn manifest(args: &ManifestArgs) -> anyhow::Result<ExitCode> {
    if !args.check {
        println!("{}", manifest::write(&args.folder)?.display());
        return Ok(ExitCode::SUCCESS);
    }
    let wrong = manifest::check(&args.folder)?;
    for line in &wrong {
        println!("{line}");
    }
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
