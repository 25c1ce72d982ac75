//! Whether the ingress knows when its engines give up.

use super::front::PoolCut;
use crate::check::manifests::finding::Level;
use crate::check::manifests::objects::Container;
use crate::core::budget::{Disagreement, EngineBudget, Seconds};
use std::time::Duration;

/// Report every pool that counts on another `--shutdown-timeout` than the engine of `budget` has:
/// an error if it admits a stream that breaks by it.
pub(super) fn check(container: &Container, budget: &EngineBudget, cuts: &[PoolCut]) {
    for pool in cuts {
        let Some(kind) = pool.cut.disagreement(budget.shutdown_timeout) else { continue };
        let level = match kind.breaks(pool.total, budget.longest_stream()) {
            true => Level::Error,
            false => Level::Warning,
        };
        let timeout = Seconds(budget.shutdown_timeout);
        let remedy = format!(
            "set {}: {timeout} in {}, or change --shutdown-timeout to what it says",
            pool.key, pool.source
        );
        let problem = problem(kind, pool, budget.shutdown_timeout);
        container.scope.report(
            level,
            "engine-deadline",
            &container.key("args"),
            problem,
            match kind {
                Disagreement::Never => format!("set {}: {timeout} in {}", pool.key, pool.source),
                _ => remedy,
            },
        );
    }
}

fn problem(kind: Disagreement, pool: &PoolCut, timeout: Duration) -> String {
    let believed = Seconds(pool.cut.believed.unwrap_or_default());
    let cut = pool.cut.after_sigterm().unwrap_or_default();
    let (key, timeout, at) = (&pool.key, Seconds(timeout), Seconds(cut));
    match kind {
        Disagreement::Never => format!(
            "{key} is 0s, --shutdown-timeout {timeout}: what outlives it hangs, for vLLM falls silent and does not exit before its clients leave"
        ),
        Disagreement::TooLate => format!(
            "{key} {believed}, more than --shutdown-timeout {timeout}: what outlives it hangs until Streamgate cuts it, {at} after SIGTERM"
        ),
        Disagreement::Narrow => format!(
            "{key} {believed}, more than --shutdown-timeout {timeout}: of drain.cut_margin {} only {} are left",
            Seconds(pool.cut.margin),
            Seconds(timeout.0.saturating_sub(cut))
        ),
        Disagreement::TooEarly => format!(
            "{key} {believed}, less than --shutdown-timeout {timeout}: Streamgate cuts {at} after SIGTERM what vLLM would let end"
        ),
    }
}
