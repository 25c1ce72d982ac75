//! PodDisruptionBudgets: they guard against evictions, not against rollouts.

use super::Subject;
use crate::check::manifests::objects::{DisruptionBudget, Objects};

pub(super) fn check(subjects: &[Subject<'_>], objects: &Objects) {
    let guards = |budget: &DisruptionBudget, subject: &Subject<'_>| {
        budget.id.namespace == subject.workload.id.namespace
            && budget.selector.matches(&subject.workload.labels)
    };
    let mut unguarded = Vec::new();
    for subject in subjects {
        let mut any = false;
        for budget in objects.budgets.iter().filter(|budget| guards(budget, subject)) {
            any = true;
            blocks(budget, subject);
        }
        if !any {
            unguarded.push(subject);
        }
    }
    for budget in &objects.budgets {
        let matches = objects.workloads.iter().any(|workload| {
            budget.id.namespace == workload.id.namespace
                && budget.selector.matches(&workload.labels)
        });
        let meant =
            unguarded.iter().any(|subject| subject.workload.id.namespace == budget.id.namespace);
        if !matches && meant {
            let problem = "it matches the pods of no workload here, so it guards nothing";
            let remedy = "copy the labels of the pod template (spec.template.metadata.labels)";
            budget.scope.error("pdb-matches-nothing", &budget.selector_key, problem, remedy);
        }
    }
    for subject in unguarded {
        subject.workload.scope.warning(
            "pdb-missing",
            "",
            "no PodDisruptionBudget matches its pods: a drained node may evict all of them at once",
            "add one with maxUnavailable: 1",
        );
    }
}

fn blocks(budget: &DisruptionBudget, subject: &Subject<'_>) {
    let (Some((allows, key)), Some(replicas)) = (&budget.allows, subject.workload.replicas) else {
        return;
    };
    if allows.blocks(replicas) {
        let name = subject.workload.scope.place().object.as_deref().unwrap_or_default().to_owned();
        budget.scope.error(
            "pdb-blocks",
            key,
            format!("with {replicas} replica(s) of {name} it never allows an eviction: nodes cannot be drained"),
            "write maxUnavailable: 1 instead",
        );
    }
}
