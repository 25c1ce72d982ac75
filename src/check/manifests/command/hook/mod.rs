//! What a preStop command waits for, and for how long at most.
//!
//! What counts as a wait is what surely runs and is waited for. What may run ([`Hook::perhaps`])
//! counts against the grace period and proves nothing else, and a drain call must be one that
//! Streamgate takes. What cannot be told is said to be that.

mod client;
mod options;
mod order;
mod python;
#[cfg(test)]
mod tests;
mod walk;

pub(in crate::check::manifests) use order::{Drained, Part, What};

use super::shell::{MARKS, Script, Vars, Word};
use crate::check::manifests::objects::Container;
use crate::core::budget::{DrainCall, Hook};
use std::time::Duration;

/// What can be said of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) enum HookReading {
    /// It takes at most this long, and drains this.
    Bounded(Hook, Option<Drained>),
    /// It may wait for ever: why.
    Unbounded(String),
    /// It runs something that the manifests do not show: what.
    Unreadable(String),
    /// It is meant to drain something, and does not: why.
    Useless(String),
}

/// What the environment of a hook is known to hold.
#[derive(Clone, Copy)]
struct Env<'c> {
    /// Values that are not known are marks, alone or in a text.
    vars: &'c Vars,
    /// It may hold more: there is an `envFrom`.
    open: bool,
}

impl Env<'_> {
    /// Whether the variable is there. Kubernetes itself sets some, and so does every image.
    fn has(&self, name: &str) -> bool {
        let given = ["HOSTNAME", "HOME", "PATH", "PWD", "USER", "LANG"];
        let of_services = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"];
        self.open
            || self.vars.contains_key(name)
            || given.contains(&name)
            || of_services.iter().any(|end| name.ends_with(end))
    }

    /// An error if `text` holds a variable that nothing sets.
    fn check(&self, text: &str) -> Result<(), HookReading> {
        let names = text.split(MARKS.0).skip(1).filter_map(|rest| rest.split(MARKS.1).next());
        match names.into_iter().find(|name| !name.is_empty() && !self.has(name)) {
            Some(name) => Err(HookReading::Unreadable(format!("`${name}`, which no `env` sets"))),
            None => Ok(()),
        }
    }
}

/// What stands in `text` as if it were to be replaced, and is not: `$NAME`, `$(…)`, `{…}`.
fn literal(text: &str) -> Option<&str> {
    let at = text.find(['$', '{', '`'])?;
    let end = text[at..].find([' ', '/', ':', '"']).map_or(text.len(), |end| at + end);
    Some(&text[at..end])
}

/// Read the command of an `exec` hook.
pub(in crate::check::manifests) fn read(command: &[String], container: &Container) -> HookReading {
    // Kubernetes expands no `$(NAME)` in hooks.
    let words = command.iter().map(|text| Word::plain(text)).collect();
    let env = Env { vars: &container.marked, open: container.env_from };
    let within = walk::Within { env, depth: 0, limit: None, once: false, token: false };
    match walk::steps(&Script::of(words), within) {
        Ok(Steps { hook, drained }) => HookReading::Bounded(hook, drained),
        Err(reading) => reading,
    }
}

/// Read the path of an `httpGet` hook.
pub(in crate::check::manifests) fn read_get(path: &str) -> HookReading {
    let asked = order::Asked {
        method: "GET",
        authorized: false,
        // The kubelet waits as long as the grace period lasts: the deadline is the server's.
        gives_up: Some(Duration::MAX),
    };
    let env = Env { vars: &Vars::new(), open: false };
    match order::order(&Word::plain(path), env) {
        Ok(Some(order)) => match order.call(&asked) {
            Ok(call) => {
                let call = Some(DrainCall { gives_up: None, ..call });
                let hook = Hook { call, ..Hook::default() };
                HookReading::Bounded(hook, Some(order.drained))
            }
            Err(reading) => reading,
        },
        Ok(None) => HookReading::Unbounded(format!("`GET {path}` says nothing of a deadline")),
        Err(reading) => reading,
    }
}

/// What one or several commands do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Steps {
    hook: Hook,
    drained: Option<Drained>,
}

impl Steps {
    fn sure(sleeps: Duration) -> Self {
        Self { hook: Hook { sleeps, ..Hook::default() }, drained: None }
    }

    fn perhaps(perhaps: Duration) -> Self {
        Self { hook: Hook { perhaps, ..Hook::default() }, drained: None }
    }

    fn call(call: DrainCall, drained: Drained) -> Self {
        Self { hook: Hook { call: Some(call), ..Hook::default() }, drained: Some(drained) }
    }

    /// The same, if nobody knows that it happens: `why`.
    fn doubtful(self, why: &str) -> Result<Self, HookReading> {
        if self.hook.call.is_some() {
            return Err(HookReading::Unreadable(format!("the drain call stands {why}")));
        }
        Ok(Self::perhaps(self.hook.longest()))
    }

    /// The same, `again` times more.
    fn repeated(self, again: u32) -> Result<Self, HookReading> {
        if again > 0 && self.hook.call.is_some() {
            return Err(HookReading::Unreadable("the drain call stands in a loop".to_owned()));
        }
        let times = |span: Duration| span.saturating_mul(again.saturating_add(1));
        let (sleeps, perhaps) = (times(self.hook.sleeps), times(self.hook.perhaps));
        Ok(Self { hook: Hook { sleeps, perhaps, ..self.hook }, ..self })
    }

    /// First this, then `next`.
    fn then(self, next: Self) -> Result<Self, HookReading> {
        if self.hook.call.is_some() && next.hook.call.is_some() {
            return Err(HookReading::Unreadable("two drain calls".to_owned()));
        }
        let hook = Hook {
            sleeps: self.hook.sleeps.saturating_add(next.hook.sleeps),
            perhaps: self.hook.perhaps.saturating_add(next.hook.perhaps),
            call: self.hook.call.or(next.hook.call),
        };
        Ok(Self { hook, drained: self.drained.or(next.drained) })
    }

    /// The same, if somebody ends it after `limit`.
    fn cut(self, limit: Duration) -> Self {
        let sleeps = self.hook.sleeps.min(limit);
        let left = limit.saturating_sub(sleeps);
        let perhaps = self.hook.perhaps.min(left);
        let ends = |call: DrainCall| Some(call.gives_up.unwrap_or(left).min(left));
        let call = self.hook.call.map(|call| DrainCall { gives_up: ends(call), ..call });
        Self { hook: Hook { sleeps, perhaps, call }, ..self }
    }
}
