//! How many replicas a rollout takes at once.

use super::Subject;
use crate::check::manifests::objects::{Strategy, Workload};
use crate::core::budget::{Amount, Rollout};

pub(super) fn check(subject: &Subject<'_>) {
    let workload = subject.workload;
    match workload.replicas {
        Some(1) => {
            workload.scope.warning(
                "single-replica",
                &workload.key("spec.replicas"),
                "one replica: while it is replaced or evicted there may be none that takes new requests",
                "run at least two",
            );
            return;
        }
        None => return unwritten(workload),
        // Nothing runs.
        Some(0) => return,
        Some(_) => {}
    }
    let replicas = workload.replicas.unwrap_or(1);
    let key = &workload.strategy_key;
    match workload.strategy {
        Strategy::Recreate => workload.scope.error(
            "rollout-leaves-none",
            &format!("{key}.type"),
            format!("Recreate stops all {replicas} replicas before the first new one starts"),
            "use RollingUpdate",
        ),
        Strategy::OnDelete => {}
        Strategy::Rolling(rollout) => rolling(subject, workload, rollout, replicas),
    }
}

/// An autoscaler may decide how many there are: what takes all of them takes any number.
fn unwritten(workload: &Workload) {
    let (key, what) = match workload.strategy {
        Strategy::Recreate => ("type", "Recreate stops"),
        Strategy::Rolling(Rollout { unavailable: Amount::Percent(100..), .. }) => {
            ("rollingUpdate.maxUnavailable", "maxUnavailable: 100% may stop")
        }
        Strategy::Rolling(_) | Strategy::OnDelete => return,
    };
    workload.scope.warning(
        "rollout-leaves-none",
        &format!("{}.{key}", workload.strategy_key),
        format!("{what} all replicas, however many an autoscaler makes them (`replicas` is not written), before the first new one is there"),
        "use RollingUpdate, with a maxUnavailable that leaves some of them",
    );
}

fn rolling(subject: &Subject<'_>, workload: &Workload, rollout: Rollout, replicas: u32) {
    let key = format!("{}.rollingUpdate", workload.strategy_key);
    if rollout.is_stuck() {
        workload.scope.error(
            "rollout-stuck",
            &key,
            "neither maxSurge nor maxUnavailable allows a pod to be replaced; Kubernetes refuses this",
            "set maxSurge: 1, or maxUnavailable: 1 where no node has room for one more",
        );
        return;
    }
    if rollout.leaves_none(replicas) {
        workload.scope.error(
            "rollout-leaves-none",
            &format!("{key}.maxUnavailable"),
            format!("{} of {replicas} replicas may be away at once", rollout.away(replicas)),
            format!("write at most {}", replicas - 1),
        );
    }
    let devices: Vec<&str> = subject
        .containers
        .iter()
        .flat_map(|(container, _)| &container.devices)
        .map(String::as_str)
        .collect();
    let spare = rollout.spare(replicas);
    if let (Some(device), true) = (devices.first(), spare > 0) {
        workload.scope.note(
            "spare-device",
            &format!("{key}.maxSurge"),
            format!("a rollout needs room for {spare} more pod(s) with {device}, and a pod that goes keeps its own through the whole grace period"),
            "without a spare one set maxSurge: 0 and maxUnavailable: 1",
        );
    }
}
