//! The state of engines and router before a phase.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::try_join_all;

use super::context::PhaseContext;
use super::request;
use crate::target::{Ask, Fleet, Route, Routed};

/// Real time for the engines to come to rest after a warm-up.
const REST: Duration = Duration::from_secs(60);

/// Brings about what the phase says, then counts afresh.
///
/// # Errors
/// A warm-up request did not complete, or the target refused to be prepared.
pub(super) async fn prepare(phase: &PhaseContext) -> anyhow::Result<()> {
    let (context, wanted) = (&phase.context, &phase.spec.prepare);
    let Some(fleet) = &context.fleet else { return foreign(phase).await };
    if wanted.reset {
        fleet.reset_cache(None)?;
        context.target.reset_index().await?;
    }
    let engines = fleet.serving();
    let warm: Vec<u32> = if wanted.warm { vec![0] } else { Vec::new() };
    try_join_all(engines.iter().map(|(name, addr)| {
        let groups = wanted.cached.get(name).unwrap_or(&warm);
        direct(phase, name, *addr, groups)
    }))
    .await?;
    let index = wanted.index.as_ref().unwrap_or(&wanted.cached);
    if !index.is_empty() && !context.target.set_index(index) {
        learn(phase, &engines, index).await?;
    }
    rest(fleet).await?;
    fleet.reset_stats();
    Ok(())
}

/// All that can be done to engines that are not ours: one request.
async fn foreign(phase: &PhaseContext) -> anyhow::Result<()> {
    let request = phase.plan.request(0);
    if !phase.spec.prepare.warm {
        return Ok(());
    }
    let ask = Ask { tenant: &request.spec.tenant, group: request.group };
    match phase.context.target.route(&ask) {
        Routed::To(route) => {
            let to = route.addr;
            request::warm_up(phase, ("target", to), ask.group.unwrap_or(0), route).await
        }
        Routed::Refused { reason, .. } => anyhow::bail!("a warm-up was refused: {reason}"),
    }
}

async fn rest(fleet: &Fleet) -> anyhow::Result<()> {
    anyhow::ensure!(fleet.idle(REST).await, "the engines did not come to rest in {REST:?}");
    Ok(())
}

/// Sends the groups to an engine, past the target.
async fn direct(
    phase: &PhaseContext,
    name: &str,
    addr: SocketAddr,
    groups: &[u32],
) -> anyhow::Result<()> {
    let each = groups.iter().map(|g| request::warm_up(phase, (name, addr), *g, Route::to(addr)));
    try_join_all(each).await.map(drop)
}

/// Lets a target learn by requests which engine has which group: one engine at a time.
async fn learn(
    phase: &PhaseContext,
    engines: &[(String, SocketAddr)],
    index: &BTreeMap<String, Vec<u32>>,
) -> anyhow::Result<()> {
    let target = &phase.context.target;
    let tenant = phase.plan.request(0).spec.tenant.clone();
    for (name, addr) in engines {
        let groups = index.get(name).map(Vec::as_slice).unwrap_or_default();
        if groups.is_empty() {
            continue;
        }
        target.only(Some(name)).await?;
        for group in groups {
            match target.route(&Ask { tenant: &tenant, group: Some(*group) }) {
                Routed::To(route) => request::warm_up(phase, (name, *addr), *group, route).await?,
                Routed::Refused { reason, .. } => anyhow::bail!("a warm-up was refused: {reason}"),
            }
        }
    }
    target.only(None).await
}
