//! preStop hooks.

use crate::check::manifests::command::{HookReading, read_hook};
use crate::check::manifests::objects::{Container, Handler, PreStop};
use crate::core::budget::{DrainCall, Hook};
use std::time::Duration;

/// What the hook is; nothing at all if there is none. `None`: it cannot be told, and that is
/// reported.
pub(super) fn read(container: &Container) -> Option<Hook> {
    match &container.pre_stop {
        None => Some(Hook::default()),
        Some(PreStop::Sleep(sleeps)) => Some(Hook { sleeps: *sleeps, call: None }),
        Some(PreStop::Handler(Handler::Exec(command))) => exec(container, command),
        Some(PreStop::Handler(Handler::Http { path, .. })) => http(container, path),
        Some(PreStop::Handler(Handler::Tcp | Handler::Other)) => {
            unreadable(container, "a handler of another kind");
            None
        }
    }
}

fn exec(container: &Container, command: &[String]) -> Option<Hook> {
    match read_hook(command, &container.vars) {
        HookReading::Bounded(hook) => Some(hook),
        HookReading::Unbounded(why) => {
            unbounded(container, "lifecycle.preStop.exec.command", &why);
            None
        }
        HookReading::Unreadable(what) => {
            unreadable(container, &what);
            None
        }
    }
}

/// The kubelet waits for the answer as long as the grace period lasts.
fn http(container: &Container, path: &str) -> Option<Hook> {
    let wait = path.split_once("wait=").map(|(_, rest)| rest.split('&').next().unwrap_or(rest));
    match wait.map(humantime::parse_duration) {
        Some(Ok(wait)) => {
            Some(Hook { sleeps: Duration::ZERO, call: Some(DrainCall { wait, gives_up: None }) })
        }
        Some(Err(_)) => {
            unreadable(container, &format!("`GET {path}`"));
            None
        }
        None => {
            let why = format!("`GET {path}` says nothing of a deadline");
            unbounded(container, "lifecycle.preStop.httpGet.path", &why);
            None
        }
    }
}

fn unbounded(container: &Container, key: &str, why: &str) {
    container.scope.error(
        "hook-unbounded",
        &container.key(key),
        format!("the hook may wait until the container is killed: {why}"),
        "give it a deadline of its own, such as `wait=80s`, `--max-time` or `timeout 80`",
    );
}

fn unreadable(container: &Container, what: &str) {
    container.scope.error(
        "hook-unreadable",
        &container.key("lifecycle.preStop"),
        format!("how long the hook takes cannot be told, so nothing is proven: {what}"),
        "write its waits in the manifest, or bound it: `timeout 80 …`",
    );
}
