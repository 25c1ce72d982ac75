//! A small horizontal autoscaler, as the studies had one.

use tokio::task::JoinSet;

use super::actions::{note, scale_up};
use super::context::PhaseContext;
use crate::record::FAILED;
use crate::scenario::AutoscaleSpec;

/// Decides every interval until it is dropped; engines it asked for come after their start-up
/// time. It never takes an engine away: the published runs end before it would.
pub(super) async fn run(phase: PhaseContext, spec: AutoscaleSpec, start: u64) {
    let Some(fleet) = phase.context.fleet.clone() else { return };
    let mut wanted = fleet.serving().len().max(spec.min);
    let mut starting = JoinSet::new();
    for round in 1_u64.. {
        let due = start + round * spec.interval.micros();
        phase.context.clock.sleep_until(due).await;
        let next = decide(wanted, &fleet.running(), &spec);
        if next > wanted {
            note(&phase, due, "autoscaler".into(), format!("wants {next}, had {wanted}"));
            starting.spawn(late(phase.clone(), next - wanted, due + spec.startup.micros()));
            wanted = next;
        }
    }
}

async fn late(phase: PhaseContext, engines: usize, due: u64) {
    phase.context.clock.sleep_until(due).await;
    let result = scale_up(&phase, engines).await.unwrap_or_else(|e| format!("{FAILED}{e:#}"));
    note(&phase, due, "autoscaler".into(), result);
}

/// `ceil(wanted × mean running per ready engine / target)` within the bounds; never fewer than
/// before.
fn decide(wanted: usize, running: &[usize], spec: &AutoscaleSpec) -> usize {
    if running.is_empty() {
        return wanted;
    }
    let mean = running.iter().sum::<usize>() as f64 / running.len() as f64;
    let asked = (wanted as f64 * mean / spec.target_running).ceil() as usize;
    asked.clamp(spec.min, spec.max).max(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Span;

    #[test]
    fn it_doubles_while_the_ready_engines_are_full() {
        let spec = AutoscaleSpec {
            target_running: 4.0,
            min: 1,
            max: 4,
            interval: Span::ms(15_000),
            startup: Span::ms(400_000),
        };
        assert_eq!(decide(1, &[2], &spec), 1);
        assert_eq!(decide(1, &[8], &spec), 2);
        assert_eq!(decide(2, &[8], &spec), 4);
        assert_eq!(decide(4, &[8], &spec), 4);
        assert_eq!(decide(4, &[0], &spec), 4);
        assert_eq!(decide(2, &[], &spec), 2);
    }
}
