//! Whether the drain that an engine's hook asks for reaches every replica of Streamgate that sends
//! to the engine. A replica that counts for itself (`quota.store: memory`) knows of no other: it
//! answers as soon as its own streams are over, and the others go on sending.

use super::Behind;
use super::address::is_loopback;
use super::front::{Front, host};
use crate::check::manifests::objects::{Container, Kind, Strategy, Workload};
use crate::config::Pool;
use crate::core::ids::EndpointId;

const CODE: &str = "hook-drains-one-replica";
const REMEDY: &str = "set quota.store: redis (k8s/components/redis), or run one replica (`replicas: 1`), or leave the call out and rely on --shutdown-timeout and a preStop sleep";

/// Report a drain that does not; whether it does.
pub(super) fn check(engine: &Workload, container: &Container, behind: &Behind<'_>) -> bool {
    let mut fronts: Vec<&Front<'_>> = Vec::new();
    for (front, _, pool) in behind.pools(engine).0 {
        if !is_beside(engine, front, pool) && !fronts.iter().any(|one| std::ptr::eq(*one, front)) {
            fronts.push(front);
        }
    }
    let Some((first, others)) = fronts.split_first() else { return true };
    let store = first.store();
    if store.is_some() && others.iter().all(|other| other.store() == store) {
        return true;
    }
    let key = container.key("lifecycle.preStop");
    let others = match (count(&fronts), store) {
        (Some(0 | 1), _) => {
            moment(container, &fronts);
            return true;
        }
        (Some(2), None) => "2 send to this engine: the other one goes on sending".to_owned(),
        (Some(all), None) => {
            format!("{all} send to this engine: the other {} go on sending", all - 1)
        }
        (_, Some(_)) => "not all that send to this engine have the same Redis and quota.redis.key_prefix: the others go on sending".to_owned(),
        (None, None) if first.workload.is_none() => {
            let problem = "the call waits for the streams of the replica that takes it (quota.store: memory); if more than one sends to this engine, the streams of the others still run at SIGTERM";
            container.scope.warning(CODE, &key, problem, REMEDY);
            return true;
        }
        (None, None) => "how many send to this engine cannot be told (an autoscaler sets `replicas`, or may: it is not written): the others go on sending".to_owned(),
    };
    let waits = match store {
        None => format!("one replica of Streamgate (quota.store: memory in {})", first.source),
        Some(_) => "those replicas of Streamgate that share a Redis".to_owned(),
    };
    let problem = format!(
        "the call waits for the streams of {waits}, and {others}, and what they send still runs at SIGTERM"
    );
    container.scope.error(CODE, &key, problem, REMEDY);
    false
}

/// Whether a pool is that of a Streamgate in the engine's own pod, which sends to no other pod.
pub(super) fn is_beside(engine: &Workload, front: &Front<'_>, pool: &Pool) -> bool {
    let own = |address: &EndpointId| is_loopback(host(address.as_str()));
    let beside = front.workload.is_some_and(|workload| std::ptr::eq(workload, engine));
    beside && pool.discovery.is_none() && pool.endpoints.iter().all(own)
}

/// How many replicas there are; `None`: not known.
fn count(fronts: &[&Front<'_>]) -> Option<u32> {
    fronts.iter().try_fold(0_u32, |all, front| Some(all.saturating_add(front.workload?.pods()?)))
}

/// While a single replica of a Deployment is replaced there are two of it: the one that goes still
/// has its streams. That only matters to an engine that goes at the same moment.
fn moment(container: &Container, fronts: &[&Front<'_>]) {
    let rolls = |front: &&&Front<'_>| {
        front.workload.is_some_and(|workload| {
            workload.kind == Kind::Deployment && matches!(workload.strategy, Strategy::Rolling(_))
        })
    };
    let Some(front) = fronts.iter().find(rolls) else { return };
    let object = front.workload.and_then(|workload| workload.scope.place().object.as_deref());
    container.scope.warning(
        CODE,
        &container.key("lifecycle.preStop"),
        format!(
            "while the replica of {} is replaced there are two of it, and the call waits for the streams of one (quota.store: memory)",
            object.unwrap_or_default()
        ),
        "roll Streamgate and its engines one after the other, or set quota.store: redis (k8s/components/redis)",
    );
}
