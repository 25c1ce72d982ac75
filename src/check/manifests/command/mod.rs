//! What a container runs: from `command` and `args`, through Kubernetes' own expansion and a
//! shell if there is one, to words.

mod arguments;
mod engine;
mod expand;
mod follow;
mod hook;
mod image;
mod ingress;
mod launch;
mod shell;
mod span;

pub(super) use arguments::Number;
pub(super) use engine::{EngineCommand, Server, engine};
pub(super) use expand::{MOST, kubernetes as expand};
use follow::{commands, script};
pub(super) use hook::{
    Drained, HookReading, Part, What, read as read_hook, read_get as read_get_hook,
};
pub(super) use image::{Image, Version};
pub(super) use ingress::{IngressCommand, ingress};
pub(super) use launch::Launch;
pub(super) use shell::{Vars, Word, mark};

use super::objects::Container;

/// The last part of a path: `/usr/bin/python3` → `python3`.
fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// The words that a container starts with, `command` before `args`.
fn words(container: &Container) -> Vec<Word> {
    let mut left = MOST;
    let expanded = |text: &String| {
        let word = expand::kubernetes(text, &container.vars);
        left = left.saturating_sub(word.text.len());
        let all =
            || Word { text: String::new(), unknown: Some("arguments of more than 6 MiB".into()) };
        if left > 0 { word } else { all() }
    };
    container.command.iter().chain(&container.args).map(expanded).collect()
}
