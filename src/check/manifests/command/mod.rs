//! What a container runs: from `command` and `args`, through Kubernetes' own expansion and a
//! shell if there is one, to words.

mod engine;
mod expand;
mod hook;
mod image;
mod ingress;
mod shell;
mod span;

pub(super) use engine::{EngineCommand, Launch, Number, engine};
pub(super) use expand::kubernetes as expand;
pub(super) use hook::{
    Drained, HookReading, Part, What, read as read_hook, read_get as read_get_hook,
};
pub(super) use image::{Image, Version};
pub(super) use ingress::{IngressCommand, ingress};
use shell::{Runs, Script, Simple};
pub(super) use shell::{Vars, Word, mark};

use super::objects::Container;

/// The last part of a path: `/usr/bin/python3` → `python3`.
fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// The words that a container starts with, `command` before `args`.
fn words(container: &Container) -> Vec<Word> {
    let vars = &container.vars;
    container
        .command
        .iter()
        .chain(&container.args)
        .map(|text| expand::kubernetes(text, vars))
        .collect()
}

/// If `words` call a shell with a script (`sh -c …`), the script; the words after it are its
/// positional parameters.
fn script(words: &[Word], vars: &Vars) -> Option<Script> {
    let words = shell::unwrapped(words);
    let name = base(&words.first()?.text);
    if !matches!(name, "sh" | "bash" | "dash" | "ash" | "zsh" | "ksh") {
        return None;
    }
    let (mut runs, mut errexit, mut at) = (false, false, 1);
    while let Some(flag) = words.get(at).filter(|word| word.text.starts_with(['-', '+'])) {
        let letters = flag.text.get(1..).filter(|rest| !rest.starts_with('-')).unwrap_or_default();
        runs |= letters.contains('c');
        errexit |= letters.contains('e');
        at += 1;
        // `-o pipefail`
        if letters.contains(['o', 'O']) {
            errexit |= words.get(at).is_some_and(|word| word.text == "errexit");
            at += 1;
        }
    }
    let text = words.get(at).filter(|_| runs)?;
    // After the script comes `$0`.
    let positional = words.get(at + 2..).unwrap_or_default();
    let posix = matches!(name, "sh" | "dash" | "ash");
    Some(Script { errexit, ..shell::parse(&text.text, vars, positional, posix) })
}

/// Every simple command that `words` lead to: themselves, or those of their script, of the
/// scripts inside it, and so on.
fn commands(words: &[Word], vars: &Vars) -> Script {
    fn follow(words: &[Word], vars: &Vars, depth: usize) -> Option<Script> {
        // Nobody nests shells deeper than this.
        let outer = (depth < 8).then(|| script(words, vars)).flatten()?;
        let mut all = Script { loops: outer.loops, ..Script::default() };
        for command in outer.commands {
            match follow(&command.words, vars, depth + 1) {
                Some(inner) => {
                    all.loops |= inner.loops;
                    let runs = command.runs;
                    let placed = |inner| match runs {
                        Runs::Plainly => inner,
                        runs => Simple { runs, ..inner },
                    };
                    all.commands.extend(inner.commands.into_iter().map(placed));
                }
                None => all.commands.push(command),
            }
        }
        Some(all)
    }
    follow(words, vars, 0).unwrap_or_else(|| Script::of(words.to_vec()))
}
