//! Enough of a POSIX shell to see the commands of a script: quotes, escapes, comments,
//! continuation lines, operators, redirections, here-documents, assignments and the plain forms of
//! parameter expansion. What only running it could tell (`$(…)`, unset variables) leaves a word
//! *unknown* instead of wrong.

mod expansion;
mod parser;
mod structure;
#[cfg(test)]
mod tests;

pub(super) use parser::parse;

use std::collections::BTreeMap;

/// Variables by name; `None`: there is one, but its value is not in the manifests.
pub(in crate::check::manifests) type Vars = BTreeMap<String, Option<String>>;

/// One word after expansion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::check::manifests) struct Word {
    /// What is not known stands in it as a [`mark`].
    pub text: String,
    /// What a part of it depends on.
    pub unknown: Option<String>,
}

/// Before and after the name of a variable whose value is not known, or nothing for the output of
/// a command: characters that no manifest has, so that a `$` in a text is one.
pub(in crate::check::manifests) const MARKS: (char, char) = ('\u{E000}', '\u{E001}');

/// What stands for the unknown value of the variable `name`, or of anything.
pub(in crate::check::manifests) fn mark(name: &str) -> String {
    format!("{}{name}{}", MARKS.0, MARKS.1)
}

/// A text with its marks as a script would write them.
pub(in crate::check::manifests::command) fn shown(text: &str) -> String {
    let mut shown = text.replace(&mark(""), "$(…)");
    shown = shown.replace(MARKS.0, "$");
    shown.replace(MARKS.1, "")
}

/// The longest argument that Linux hands to a process; a longer one cannot be meant.
pub(in crate::check::manifests::command) const LONGEST_ARGUMENT: usize = 128 << 10;

/// What stands after a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::check::manifests) enum After {
    #[default]
    End,
    /// `;`, a new line
    Next,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`
    Pipe,
    /// `&`
    Background,
}

/// Whether a command runs, as far as its place tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::check::manifests) enum Runs {
    #[default]
    Plainly,
    /// In a branch of `if`, or in a group behind `&&` or `||`.
    Perhaps,
    /// It, or the list or group that it stands in, has an `&`: nobody waits for it.
    Unwaited,
}

/// Which shell runs a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::check::manifests) enum Level {
    #[default]
    Script,
    /// That of `( … )`.
    Sub,
    /// That of `$( … )`; it runs before the command that its output belongs to.
    Output,
}

/// A command without operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::check::manifests) struct Simple {
    pub words: Vec<Word>,
    pub after: After,
    pub runs: Runs,
    pub level: Level,
    /// `!` stands before it.
    pub negated: bool,
    /// How often it runs besides once, at most, in a `for` over so many words.
    pub again: u32,
}

/// The commands of a script, in order, whatever branch they stand in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::check::manifests) struct Script {
    pub commands: Vec<Simple>,
    /// It has a loop.
    pub loops: bool,
    /// The shell was started with `-e`.
    pub errexit: bool,
    /// The shell is `sh`, which knows less than bash does.
    pub posix: bool,
    /// Why it would not run, or not as it is read here.
    pub broken: Option<&'static str>,
}

impl Script {
    /// One command, run without a shell.
    pub fn of(words: Vec<Word>) -> Self {
        Self { commands: vec![Simple { words, ..Simple::default() }], ..Self::default() }
    }
}

impl Word {
    pub fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), unknown: None }
    }

    /// The value of a variable that is not known.
    pub fn unknown(name: &str) -> Self {
        Self { text: mark(name), unknown: Some(name.to_owned()) }
    }
}

/// `words` without what only passes a command on: `exec`, `env`, `nohup`, `tini --`, `A=b`.
pub(super) fn unwrapped(mut words: &[Word]) -> &[Word] {
    while let Some(first) = words.first() {
        let name = super::base(&first.text);
        let asks = name == "command" && words.get(1).is_some_and(|word| word.text.starts_with('-'));
        let passes = !asks
            && matches!(name, "exec" | "env" | "nohup" | "tini" | "dumb-init" | "command" | "sudo");
        if !passes && assignment(&first.text).is_none() {
            break;
        }
        words = &words[1..];
        while passes && words.first().is_some_and(|word| word.text.starts_with('-')) {
            words = &words[1..];
        }
    }
    words
}

/// `NAME=value`
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let mut bytes = name.strip_suffix('+').unwrap_or(name).bytes();
    let begins = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    (begins && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')).then_some((name, value))
}
