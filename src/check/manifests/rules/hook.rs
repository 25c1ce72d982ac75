//! preStop hooks.

use super::{Behind, address, endpoint, replicas};
use crate::check::manifests::command::{Drained, HookReading, What, read_get_hook, read_hook};
use crate::check::manifests::objects::{Container, Handler, PreStop, Workload};
use crate::core::budget::Hook;
use std::time::Duration;

/// What is known of the hook of an engine. Everything that is not as it should be was reported.
pub(super) struct Reading {
    pub hook: Hook,
    pub proves: Proof,
}

/// What a hook proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// What it waits for.
    Waits,
    /// How long it takes at most: its call drains nothing, or not everything.
    Length,
    /// Nothing.
    Nothing,
}

/// The hook of an engine; one that does nothing if there is none.
pub(super) fn engine(workload: &Workload, container: &Container, behind: &Behind<'_>) -> Reading {
    let Some((hook, drained)) = read(container) else {
        return Reading { hook: Hook::default(), proves: Proof::Nothing };
    };
    let drains = match drained {
        None => true,
        Some(Drained { what: What::Replica, .. }) => {
            let why = "it drains a replica of Streamgate, and takes no engine out of service";
            useless(container, why);
            false
        }
        // Each of them says what it finds.
        Some(Drained { what: What::Endpoint(parts), at }) => [
            endpoint::check(workload, container, &parts, behind),
            address::check(workload, container, &at, behind),
            replicas::check(workload, container, behind),
        ]
        .iter()
        .all(|right| *right),
    };
    if drains {
        return Reading { hook, proves: Proof::Waits };
    }
    let perhaps = hook.longest().saturating_sub(hook.sleeps);
    Reading { hook: Hook { perhaps, call: None, ..hook }, proves: Proof::Length }
}

/// What a hook of the ingress waits before the drain. A hook that begins the drain itself waits
/// in it: its own deadline is `drain.deadline`.
pub(super) fn ingress(container: &Container) -> Duration {
    match &container.pre_stop {
        // Without `wait` the replica takes its own deadline.
        Some(PreStop::Handler(Handler::Http { path, .. })) if path == "/prestop" => Duration::ZERO,
        _ => match read(container) {
            Some((hook, Some(Drained { what: What::Replica, .. }))) => hook.waits(),
            Some((hook, _)) => hook.longest(),
            None => Duration::ZERO,
        },
    }
}

fn read(container: &Container) -> Option<(Hook, Option<Drained>)> {
    let (reading, key) = match &container.pre_stop {
        None => return Some((Hook::default(), None)),
        Some(PreStop::Sleep(sleeps)) => {
            return Some((Hook { sleeps: *sleeps, ..Hook::default() }, None));
        }
        Some(PreStop::Handler(Handler::Exec(command))) => {
            (read_hook(command, container), "lifecycle.preStop.exec.command")
        }
        Some(PreStop::Handler(Handler::Http { path, .. })) => {
            (read_get_hook(path), "lifecycle.preStop.httpGet.path")
        }
        Some(PreStop::Handler(Handler::Tcp | Handler::Other)) => {
            let what = "a handler of another kind".to_owned();
            (HookReading::Unreadable(what), "lifecycle.preStop")
        }
    };
    match reading {
        HookReading::Bounded(hook, drained) => return Some((hook, drained)),
        HookReading::Unbounded(why) => unbounded(container, key, &why),
        HookReading::Unreadable(what) => unreadable(container, &what),
        HookReading::Useless(why) => useless(container, &why),
    }
    None
}

fn unbounded(container: &Container, key: &str, why: &str) {
    container.scope.error(
        "hook-unbounded",
        &container.key(key),
        format!("the hook may wait until the container is killed: {why}"),
        "give it a deadline of its own, such as `wait=80s`, `--max-time 85` or `timeout 85`",
    );
}

fn unreadable(container: &Container, what: &str) {
    container.scope.error(
        "hook-unreadable",
        &container.key("lifecycle.preStop"),
        format!("what the hook waits for cannot be told, so nothing is proven: {what}"),
        "write its waits in the manifest, one after another, or bound it: `timeout 80 …`",
    );
}

fn useless(container: &Container, why: &str) {
    container.scope.error(
        "hook-drains-nothing",
        &container.key("lifecycle.preStop"),
        format!("the hook is meant to drain, and drains nothing: {why}"),
        match why.contains("as it stands") {
            true => "let a shell replace it: `sh -c`, double quotes, `$NAME`; Kubernetes replaces nothing in hooks",
            false => "write the call as docs/rolling-updates.md has it; its answer must be 200 or 504",
        },
    );
}

/// Report a container that is told to stop by another signal than SIGTERM. `whose`: what runs
/// in it.
pub(super) fn signal(container: &Container, whose: &str) {
    let Some(signal) = &container.stop_signal else { return };
    container.scope.error(
        "stop-signal",
        &container.key("lifecycle.stopSignal"),
        format!("{signal} is sent instead of SIGTERM, and only with SIGTERM {whose} is known to let its streams end"),
        "remove the key",
    );
}
