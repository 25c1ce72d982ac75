//! Running a scenario: phases one after the other, every planned request recorded.

mod actions;
mod autoscale;
mod closed;
mod context;
mod earlier;
mod live;
mod open;
mod prepare;
mod progress;
mod request;
mod setup;

pub use context::Options;
pub use live::{Live, Snapshot};

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use crate::clock::RunClock;
use crate::history::{Recorder, Scraper};
use crate::record::{FORMAT, Header, Line, RecordWriter, Slo, Trailer};
use crate::scenario::Scenario;
use context::{Context, PhaseContext};
use earlier::Earlier;
use setup::Setup;

/// Name of the records in a result folder.
pub const RECORDS: &str = "records.jsonl.gz";
/// Name of the scraped series in a result folder.
pub const HISTORY: &str = "history.jsonl.gz";
/// Name of the scenario, as it was run.
pub const SCENARIO: &str = "scenario.json";

/// What a run left behind.
#[derive(Debug)]
pub struct Ran {
    /// The records.
    pub records: PathBuf,
    /// The scraped series.
    pub history: PathBuf,
    /// It was stopped before its end.
    pub interrupted: bool,
}

/// Runs a scenario with each seed and writes records, history and the scenario into a folder.
///
/// `stop` ends it early and cleanly: what was measured is kept, what was not is recorded as
/// interrupted.
///
/// # Errors
/// When the folder cannot be written or the target cannot be started. A request that fails is
/// no error but a record. If nothing was measured, the folder holds what it held before.
pub async fn run(
    scenario: &Scenario,
    options: &Options,
    stop: CancellationToken,
) -> anyhow::Result<Ran> {
    std::fs::create_dir_all(&options.out)?;
    let earlier = Earlier::put_aside(&options.out, &[SCENARIO, RECORDS, HISTORY])?;
    let json = serde_json::to_vec_pretty(scenario)?;
    std::fs::write(options.out.join(SCENARIO), json)?;
    let (records, history) = (options.out.join(RECORDS), options.out.join(HISTORY));
    let writer = RecordWriter::create(&records)?;
    let series = Recorder::create(&history)?;
    let clock = RunClock::new(Instant::now(), scenario.time_scale);
    let mut run = Runs {
        scenario,
        options,
        clock,
        writer: &writer,
        series: &series,
        stop,
        live: Live::new(),
    };
    let outcome = run.all().await;
    let end = Trailer {
        end_us: clock.now(),
        arrivals: run.live.recorded(),
        interrupted: run.stop.is_cancelled(),
    };
    let (interrupted, measured) = (end.interrupted, end.arrivals > 0);
    writer.sender().send(Line::End(end));
    drop(run);
    let written = writer.finish().with_context(|| {
        format!(
            "{}: the run was stopped; free some space or give another --out (what was written is \
             kept: report --broken-lines skip)",
            records.display()
        )
    });
    written?;
    series
        .finish()
        .with_context(|| format!("{}: the records are whole (report --help)", history.display()))?;
    if outcome.is_err() && !measured {
        earlier.put_back()?;
    } else {
        earlier.discard()?;
    }
    outcome?;
    Ok(Ran { records, history, interrupted })
}

struct Runs<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    clock: RunClock,
    writer: &'a RecordWriter,
    series: &'a Recorder,
    stop: CancellationToken,
    live: Live,
}

impl Runs<'_> {
    async fn all(&mut self) -> anyhow::Result<()> {
        let progress = progress::Progress::start(&self.live, self.options.progress);
        let mut outcome = Ok(());
        for (nth, seed) in self.options.seeds.iter().enumerate() {
            if self.stop.is_cancelled() {
                break;
            }
            outcome = self.seed(*seed, nth == 0).await;
            if outcome.is_err() {
                break;
            }
        }
        progress.finish().await;
        outcome
    }

    async fn seed(&self, seed: u64, first: bool) -> anyhow::Result<()> {
        let setup = Setup::start(self.scenario, self.options).await?;
        if first {
            self.header(&setup.target.describe());
        }
        let context = Context {
            scenario: self.scenario.clone(),
            seed,
            clock: self.clock,
            client: setup::client(self.scenario, &self.clock),
            target: setup.target.clone(),
            fleet: setup.fleet.clone(),
            records: self.writer.sender(),
            live: self.live.clone(),
            stop: self.stop.clone(),
        }
        .shared();
        let every = self.scenario.history.interval;
        let endpoints = context.clone();
        let endpoints = Box::new(move || endpoints.metrics());
        let scraper = Scraper::start(self.series.sender(), self.clock, every, endpoints);
        let mut outcome = Ok(());
        for phase in &self.scenario.phases {
            if self.stop.is_cancelled() {
                break;
            }
            outcome = phase_of(&context, phase).await;
            if outcome.is_err() {
                break;
            }
        }
        scraper.stop().await;
        setup.stop().await;
        outcome
    }

    fn header(&self, target: &str) {
        let slo = &self.scenario.slo;
        self.writer.sender().send(Line::Run(Header {
            format: FORMAT,
            scenario: self.scenario.name.clone(),
            about: self.scenario.about.clone(),
            seeds: self.options.seeds.clone(),
            time_scale: self.scenario.time_scale,
            slo: Slo {
                ttft_us: slo.ttft.micros(),
                tpot_us: slo.tpot.micros(),
                e2e_us: slo.e2e.micros(),
            },
            lag_bound_us: self.scenario.lag_bound.micros(),
            target: target.to_owned(),
            expect: self.scenario.expect.clone(),
            started: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            command: self.options.command.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }));
    }
}

async fn phase_of(
    context: &std::sync::Arc<Context>,
    phase: &crate::scenario::PhaseSpec,
) -> anyhow::Result<()> {
    let phase = PhaseContext::new(context, phase);
    phase.context.target.begin_phase(&phase.spec, phase.seed()).await?;
    context.live.phase(&phase.spec.name, phase.plan.schedule.len() as u64);
    prepare::prepare(&phase).await?;
    let start = context.clock.now();
    let side = actions::start(&phase, start);
    if phase.spec.open.is_some() {
        open::run(&phase, start).await;
    } else {
        closed::run(&phase, start).await;
    }
    side.stop().await;
    let fleet = context.fleet.as_deref();
    let name = &phase.spec.name;
    for evidence in crate::target::evidence(&*context.target, fleet, context.seed, name).await {
        context.write(Line::Evidence(evidence));
    }
    context.client.close_idle();
    Ok(())
}
