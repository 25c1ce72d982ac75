//! Starting and stopping what a scenario is run against.

use std::sync::Arc;

use super::context::Options;
use crate::client::{Client, Limits};
use crate::clock::RunClock;
use crate::record::Slo;
use crate::scenario::{Scenario, TargetSpec};
use crate::target::{Direct, Fleet, Streamgate, Target, Url};

pub(super) struct Setup {
    pub(super) target: Arc<dyn Target>,
    pub(super) fleet: Option<Arc<Fleet>>,
}

impl Setup {
    pub(super) async fn start(scenario: &Scenario, options: &Options) -> anyhow::Result<Self> {
        let fleet = match &scenario.engines {
            Some(spec) => {
                Some(Arc::new(Fleet::start(spec, &scenario.model, scenario.time_scale).await?))
            }
            None => None,
        };
        let engines = fleet.as_ref().map(|f| f.serving()).unwrap_or_default();
        let target: Arc<dyn Target> = match &scenario.target {
            TargetSpec::Direct(spec) => Arc::new(Direct::new(spec, &engines)?),
            TargetSpec::Url(spec) => Arc::new(Url::new(spec).await?),
            TargetSpec::Streamgate(spec) => {
                let (program, out) = (options.streamgate.as_deref(), &options.out);
                Arc::new(Streamgate::start(scenario, spec, program, out, engines).await?)
            }
        };
        Ok(Self { target, fleet })
    }

    pub(super) async fn stop(&self) {
        self.target.stop().await;
    }
}

/// The client of a scenario.
pub(super) fn client(scenario: &Scenario, clock: &RunClock) -> Client {
    let spec = &scenario.client;
    let total = spec.total_timeout.0;
    Client::new(Limits {
        connect: spec.connect_timeout.0,
        silence: clock.real_duration(spec.read_timeout.0),
        total: (!total.is_zero()).then(|| clock.real_duration(total)),
    })
}

impl super::context::Context {
    /// The bounds of a good request.
    pub(super) fn slo(&self) -> Slo {
        let slo = &self.scenario.slo;
        Slo { ttft_us: slo.ttft.micros(), tpot_us: slo.tpot.micros(), e2e_us: slo.e2e.micros() }
    }
}
