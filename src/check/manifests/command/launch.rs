//! Who gets SIGTERM: the program itself, or a shell that stays in front of it.
//!
//! As measured as the first process of a container (dash 0.5.12, bash 5.2, BusyBox 1.35): only
//! `exec` replaces every shell. Bash replaces itself by the one command of its script, unless that
//! is redirected; by the last one of a list only in recent releases; dash, the `sh` of Debian and
//! Ubuntu, never does. `dumb-init` and `tini -g` pass SIGTERM to the shell as well: it ends, they
//! end with it, and the kernel kills the rest.

use super::base;
use super::shell::{After, Level, Runs, Script, Simple, Word, unwrapped};

/// How a program is started. The later, the worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::check::manifests) enum Launch {
    /// It is the first process, or a shell is replaced by it.
    Direct,
    /// A shell with a trap for SIGTERM stays in front of it.
    BehindTrap,
    /// Some shells would be replaced by it, others stay.
    PerhapsBehindShell,
    /// A shell stays in front of it.
    BehindShell,
    /// A shell that stays in front of it gets SIGTERM as well, from an init that ends with it.
    BehindInit,
    /// The image is of the program, but the command leads elsewhere.
    Hidden,
}

/// Which shell runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shell {
    /// Bash, whose script has no redirection.
    Bash,
    Other,
    /// `eval`, in the shell that it stands in.
    Eval,
}

/// A script and its shell.
pub(super) struct Layer<'s> {
    script: &'s Script,
    text: &'s str,
    shell: Shell,
    /// It sets a trap for SIGTERM.
    trapped: bool,
}

impl<'s> Layer<'s> {
    pub fn new(script: &'s Script, text: &'s str, shell: Shell) -> Self {
        Self { script, text, shell, trapped: script.commands.iter().any(is_trap) }
    }

    /// The shell itself runs its `n`th command, and waits for it.
    fn in_front(&self, n: usize) -> bool {
        let commands = &self.script.commands;
        if commands[n].level != Level::Script || commands[n].runs == Runs::Unwaited {
            return false;
        }
        let before = commands[..n].iter().rfind(|command| command.level != Level::Output);
        let reads = before.is_some_and(|before| before.after == After::Pipe);
        !reads && commands[n].after != After::Pipe
    }

    /// How something is started that `eval`, the `n`th command, starts like this: what replaces
    /// the shell in there replaces this one.
    pub fn eval(&self, n: usize, inner: Launch) -> Launch {
        match inner {
            Launch::Direct if self.in_front(n) => Launch::Direct,
            _ if self.trapped => Launch::BehindTrap,
            inner => inner.max(Launch::BehindShell),
        }
    }

    /// How its `n`th command is started.
    pub fn launch(&self, n: usize) -> Launch {
        let Self { script, text, shell, trapped } = *self;
        let command = &script.commands[n];
        if replaces(command) && self.in_front(n) {
            return Launch::Direct;
        }
        if trapped {
            return Launch::BehindTrap;
        }
        let plain = command.runs == Runs::Plainly && self.in_front(n) && shell != Shell::Eval;
        let follows = |command: &Simple| command.level != Level::Output;
        if !plain || script.commands[n + 1..].iter().any(follows) {
            return Launch::BehindShell;
        }
        let begins = command.words.first().is_some_and(|w| text.trim_start().starts_with(&w.text));
        match shell {
            Shell::Bash if n == 0 && begins => Launch::Direct,
            _ => Launch::PerhapsBehindShell,
        }
    }
}

impl Launch {
    /// The same, started by `words` in the end.
    pub(super) fn started_by(self, words: &[Word]) -> Self {
        match self {
            Self::PerhapsBehindShell | Self::BehindShell if signals_all(words) => Self::BehindInit,
            launch => launch,
        }
    }

    /// What keeps SIGTERM from `program`, if anything does.
    pub fn obstacle(self, program: &str) -> Option<String> {
        let text = match self {
            Self::Direct | Self::Hidden => return None,
            Self::BehindTrap => format!(
                "a shell stays in front of {program} and does not pass SIGTERM on, unless its trap does and waits for {program} after that"
            ),
            Self::PerhapsBehindShell => format!(
                "a shell may stay in front of {program} (dash does, the sh of Debian and Ubuntu) and does not pass SIGTERM on"
            ),
            Self::BehindShell => {
                format!("a shell stays in front of {program} and does not pass SIGTERM on")
            }
            Self::BehindInit => format!(
                "a shell that stays in front of {program} ends at SIGTERM, and the init of the container with it"
            ),
        };
        Some(text)
    }
}

/// `exec` stands before it.
fn replaces(command: &Simple) -> bool {
    let before = command.words.len() - unwrapped(&command.words).len();
    command.words[..before].iter().any(|word| word.text == "exec")
}

/// `trap … TERM`, but not `trap - TERM`.
fn is_trap(command: &Simple) -> bool {
    let mut words = unwrapped(&command.words).iter().map(|word| word.text.as_str());
    let sets = words.next() == Some("trap") && words.next().is_some_and(|action| action != "-");
    sets && words.any(|signal| matches!(signal, "TERM" | "SIGTERM" | "15"))
}

/// `dumb-init`, but not with `-c`; `tini` with `-g`.
fn signals_all(words: &[Word]) -> bool {
    let before = &words[..words.len() - unwrapped(words).len()];
    before.iter().enumerate().any(|(n, word)| {
        let rest = before[n + 1..].iter().map(|word| word.text.as_str());
        let mut flags = rest.take_while(|text| text.starts_with('-') && *text != "--");
        let short = |text: &str, letter| !text.starts_with("--") && text.contains(letter);
        match base(&word.text) {
            "dumb-init" => !flags.any(|text| text == "--single-child" || short(text, 'c')),
            "tini" => flags.any(|text| short(text, 'g')),
            _ => false,
        }
    })
}
