//! preStop hooks.

use super::{Behind, address, endpoint};
use crate::check::manifests::command::{Drained, HookReading, What, read_get_hook, read_hook};
use crate::check::manifests::objects::{Container, Handler, PreStop, Workload};
use crate::core::budget::Hook;
use std::time::Duration;

/// What the hook of an engine is; nothing at all if there is none. `None`: it cannot be told, or
/// drains nothing, and that is reported.
pub(super) fn engine(
    workload: &Workload,
    container: &Container,
    behind: &Behind<'_>,
) -> Option<Hook> {
    let (hook, drained) = read(container)?;
    let Some(Drained { what, at }) = drained else { return Some(hook) };
    let What::Endpoint(parts) = what else {
        useless(container, "it drains a replica of Streamgate, and takes no engine out of service");
        return None;
    };
    endpoint::check(workload, container, &parts, behind);
    address::check(workload, container, &at, behind);
    Some(hook)
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
        "write the call as docs/rolling-updates.md has it; its answer must be 200 or 504",
    );
}
