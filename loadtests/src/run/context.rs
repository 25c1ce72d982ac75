//! What all parts of a run share.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::live::Live;
use crate::client::Client;
use crate::clock::RunClock;
use crate::plan::PhasePlan;
use crate::record::{Line, RecordSender};
use crate::scenario::{PhaseSpec, Scenario};
use crate::target::{Fleet, Target};

/// How a scenario is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Result folder.
    pub out: PathBuf,
    /// Seeds, one run each.
    pub seeds: Vec<u64>,
    /// The command line, for the records.
    pub command: String,
    /// Show progress on the error output.
    pub progress: bool,
    /// The `streamgate` program, for targets that need it.
    pub streamgate: Option<PathBuf>,
}

/// One seed's run.
pub(super) struct Context {
    pub(super) scenario: Scenario,
    pub(super) seed: u64,
    pub(super) clock: RunClock,
    pub(super) client: Client,
    pub(super) target: Arc<dyn Target>,
    pub(super) fleet: Option<Arc<Fleet>>,
    pub(super) records: RecordSender,
    pub(super) live: Live,
    pub(super) stop: CancellationToken,
}

impl Context {
    pub(super) fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// Writes a line of the records. When they can be written no more (a full disk), the run is
    /// stopped: it would measure what nobody could read.
    pub(super) fn write(&self, line: Line) {
        if !self.records.send(line) {
            self.stop.cancel();
        }
    }

    /// Prometheus endpoints of the target and of all engines: name and URL.
    pub(super) fn metrics(&self) -> Vec<(String, String)> {
        let engines = self.fleet.as_ref().map(|f| f.all()).unwrap_or_default();
        let engine = |(name, addr)| (format!("engine {name}"), format!("http://{addr}/metrics"));
        engines.into_iter().map(engine).chain(self.target.metrics()).collect()
    }
}

/// One phase of it.
#[derive(Clone)]
pub(super) struct PhaseContext {
    pub(super) context: Arc<Context>,
    pub(super) spec: Arc<PhaseSpec>,
    pub(super) plan: Arc<PhasePlan>,
}

impl PhaseContext {
    pub(super) fn new(context: &Arc<Context>, spec: &PhaseSpec) -> Self {
        let plan = Arc::new(PhasePlan::of(spec, context.seed));
        Self { context: Arc::clone(context), spec: Arc::new(spec.clone()), plan }
    }

    /// The phase's own seed, or the run's.
    pub(super) fn seed(&self) -> u64 {
        self.spec.seed.unwrap_or(self.context.seed)
    }
}
