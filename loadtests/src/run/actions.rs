//! Things done at a time, and what came of them.

use std::time::Duration;

use tokio::task::JoinSet;

use super::autoscale;
use super::context::PhaseContext;
use crate::record::{ActionTaken, FAILED, Line};
use crate::scenario::{Action, ActionSpec};

/// The actions of a phase under way.
pub(super) struct Side {
    tasks: JoinSet<()>,
    phase: PhaseContext,
    start: u64,
}

impl Side {
    /// Ends what is under way. An action whose time has not come is recorded as failed: what ran
    /// was not the scenario (but for a stop by the user, which says so itself).
    pub(super) async fn stop(mut self) {
        let now = self.phase.context.clock.now();
        self.tasks.shutdown().await;
        if self.phase.context.stop.is_cancelled() {
            return;
        }
        for action in &self.phase.spec.actions {
            let due = self.start + action.at.micros();
            if due > now {
                let result = format!("{FAILED}the phase had ended before its time");
                note(&self.phase, due, format!("{:?}", action.what), result);
            }
        }
    }
}

/// Starts the clock of every action.
pub(super) fn start(phase: &PhaseContext, start: u64) -> Side {
    let mut tasks = JoinSet::new();
    for action in &phase.spec.actions {
        tasks.spawn(at_its_time(phase.clone(), action.clone(), start + action.at.micros()));
    }
    if let Some(spec) = phase.spec.autoscale {
        tasks.spawn(autoscale::run(phase.clone(), spec, start));
    }
    Side { tasks, phase: phase.clone(), start }
}

async fn at_its_time(phase: PhaseContext, action: ActionSpec, due: u64) {
    phase.context.clock.sleep_until(due).await;
    let result = act(&phase, &action.what, due).await;
    let result = result.unwrap_or_else(|e| format!("{FAILED}{e:#}"));
    note(&phase, due, format!("{:?}", action.what), result);
}

/// Records that something was done.
pub(super) fn note(phase: &PhaseContext, due: u64, what: String, result: String) {
    let context = &phase.context;
    context.write(Line::Action(ActionTaken {
        seed: context.seed,
        phase: phase.spec.name.clone(),
        due_us: due,
        done_us: context.clock.now(),
        what,
        result,
    }));
}

async fn act(phase: &PhaseContext, action: &Action, due: u64) -> anyhow::Result<String> {
    let context = &phase.context;
    let target = &context.target;
    let Some(fleet) = &context.fleet else { anyhow::bail!("there are no simulated engines") };
    match action {
        Action::DeletePod { engine, pre_stop, shutdown_timeout, silent } => {
            let running = fleet.engine(engine)?;
            fleet.retire(engine);
            target.engine_gone(engine, running.addr()).await?;
            context.clock.sleep_until(due + pre_stop.micros()).await;
            // A timeout that is over at once makes every stream fall silent.
            let silence = Duration::from_nanos(1);
            let timeout = if *silent { silence } else { shutdown_timeout.0 };
            running.begin_shutdown(timeout);
            Ok(format!("out of the endpoints, SIGTERM after {pre_stop}"))
        }
        Action::Kill { engine } => {
            let running = fleet.engine(engine)?;
            fleet.retire(engine);
            running.kill();
            target.engine_gone(engine, running.addr()).await?;
            Ok("killed".into())
        }
        Action::Drain { engine, wait } => {
            let addr = fleet.engine(engine)?.addr();
            target.drain_engine(engine, addr, wait.0).await
        }
        Action::ScaleUp { engines, startup } => {
            context.clock.sleep_until(due + startup.micros()).await;
            scale_up(phase, *engines).await
        }
        Action::ResetCache { engine } => {
            fleet.reset_cache(engine.as_deref())?;
            Ok("emptied".into())
        }
        Action::FreezeRedis { length } => target.freeze_store(length.0).await,
        Action::RollStreamgate {} => target.roll().await,
    }
}

/// Starts engines and makes them endpoints.
pub(super) async fn scale_up(phase: &PhaseContext, engines: usize) -> anyhow::Result<String> {
    let mut names = Vec::new();
    if let Some(fleet) = &phase.context.fleet {
        for _ in 0..engines {
            let (name, addr) = fleet.add().await?;
            phase.context.target.engine_ready(&name, addr).await?;
            names.push(name);
        }
    }
    Ok(format!("ready: {}", names.join(", ")))
}
