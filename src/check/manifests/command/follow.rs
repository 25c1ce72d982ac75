//! From the words that a container starts with to the commands that run in the end: through
//! `sh -c` and `eval`.

use super::base;
use super::expand::reference;
use super::launch::{Launch, Layer, Shell};
use super::shell::{self, MARKS, Script, Simple, Vars, Word, unwrapped};
use std::borrow::Cow;

/// Nobody nests shells deeper than this.
const DEEPEST: usize = 8;

/// What may be read for one container: scripts may hold each other many times over.
const MOST: usize = 64 << 20;

/// A command that runs in the end.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub command: Simple,
    pub launch: Launch,
}

/// The script that `words` call a shell with.
struct Call<'w> {
    shell: Shell,
    /// It knows no more than POSIX asks for.
    posix: bool,
    errexit: bool,
    text: &'w str,
    positional: &'w [Word],
}

impl<'w> Call<'w> {
    fn of(words: &'w [Word]) -> Option<Self> {
        let words = unwrapped(words);
        let name = base(&words.first()?.text);
        if !matches!(name, "sh" | "bash" | "dash" | "ash" | "zsh" | "ksh") {
            return None;
        }
        let (mut runs, mut errexit, mut at) = (false, false, 1);
        while let Some(flag) = words.get(at).filter(|word| word.text.starts_with(['-', '+'])) {
            let letters = flag.text.get(1..).filter(|rest| !rest.starts_with('-'));
            let letters = letters.unwrap_or_default();
            runs |= letters.contains('c');
            errexit |= letters.contains('e');
            at += 1;
            // `-o pipefail`
            if letters.contains(['o', 'O']) {
                errexit |= words.get(at).is_some_and(|word| word.text == "errexit");
                at += 1;
            }
        }
        let text = &words.get(at).filter(|_| runs)?.text;
        // After the script comes `$0`.
        let positional = words.get(at + 2..).unwrap_or_default();
        let posix = matches!(name, "sh" | "dash" | "ash");
        let shell = match name {
            "bash" if !text.contains(['<', '>']) => Shell::Bash,
            _ => Shell::Other,
        };
        Some(Self { shell, posix, errexit, text, positional })
    }

    fn script(&self, vars: &Vars) -> Script {
        Script {
            errexit: self.errexit,
            ..shell::parse(self.text, vars, self.positional, self.posix)
        }
    }
}

/// If `words` call a shell with a script (`sh -c …`), the script; the words after it are its
/// positional parameters.
pub(super) fn script(words: &[Word], vars: &Vars) -> Option<Script> {
    Call::of(words).map(|call| call.script(vars))
}

/// Every simple command that `words` lead to: themselves, or those of their script, of the
/// scripts inside it, and so on.
pub(super) fn commands(words: &[Word], vars: &Vars) -> Vec<Run> {
    let mut follower = Follower { left: MOST };
    let Some(mut runs) = follower.call(words, vars, 0) else {
        let command = Simple { words: words.to_vec(), ..Simple::default() };
        return vec![Run { command, launch: Launch::Direct }];
    };
    for run in &mut runs {
        run.launch = run.launch.started_by(words);
    }
    runs
}

struct Follower {
    /// What may still be read.
    left: usize,
}

impl Follower {
    fn call(&mut self, words: &[Word], vars: &Vars, depth: usize) -> Option<Vec<Run>> {
        self.read(&Call::of(words)?, vars, depth)
    }

    /// Whether so much may be read. Every script costs its commands and a copy of the variables.
    fn pay(&mut self, text: &str, vars: &Vars) -> bool {
        if self.left > 0 {
            let size = |(name, value): (&String, &Option<String>)| {
                64 + name.len() + value.as_ref().map_or(0, String::len)
            };
            let cost = 1024 + 64 * text.len() + vars.iter().map(size).sum::<usize>();
            self.left = self.left.saturating_sub(cost);
        }
        self.left > 0
    }

    /// `None`: it is too deep or too long.
    fn read(&mut self, call: &Call<'_>, vars: &Vars, depth: usize) -> Option<Vec<Run>> {
        if depth > DEEPEST || !self.pay(call.text, vars) {
            return None;
        }
        let script = call.script(vars);
        let layer = Layer::new(&script, call.text, call.shell);
        let mut later = None;
        let mut all = Vec::new();
        for (n, command) in script.commands.iter().enumerate() {
            let eval = evaluated(command);
            let inner = match eval {
                Some(words) => {
                    let vars = later.get_or_insert_with(|| unset(vars, &script));
                    self.eval(words, call, vars, depth + 1)
                }
                None => self.call(&command.words, vars, depth + 1),
            };
            let through = |inner: Launch| match eval {
                Some(_) => layer.eval(n, inner),
                None => layer.launch(n).max(inner),
            };
            match inner {
                Some(inner) => all.extend(
                    inner.into_iter().map(|run| Run { launch: through(run.launch), ..run }),
                ),
                None => all.push(Run { command: command.clone(), launch: layer.launch(n) }),
            }
        }
        Some(all)
    }

    /// `eval`: its words, joined, are a script of the shell that runs it.
    fn eval(
        &mut self,
        words: &[Word],
        outer: &Call<'_>,
        vars: &Vars,
        depth: usize,
    ) -> Option<Vec<Run>> {
        let mut text = String::new();
        let mut vars = Cow::Borrowed(vars);
        for (n, word) in words.iter().enumerate().filter(|_| self.left > 0) {
            text.push_str(if n > 0 { " " } else { "" });
            if word.unknown.is_none() {
                text.push_str(&word.text);
                continue;
            }
            let plain = as_variables(word);
            for name in names(&plain) {
                vars.to_mut().insert(name.to_owned(), None);
            }
            text.push_str(&plain);
        }
        let call = Call { shell: Shell::Eval, text: &text, ..*outer };
        self.read(&call, &vars, depth)
    }
}

/// The words that `eval` joins, if that is what the command is.
fn evaluated(command: &Simple) -> Option<&[Word]> {
    let words = unwrapped(&command.words);
    (words.first()?.text == "eval").then(|| &words[1..])
}

/// `vars` where `script` has run: what it sets has another value by then, if it stands unexpanded
/// in the words of an `eval`.
fn unset(vars: &Vars, script: &Script) -> Vars {
    let mut vars = vars.clone();
    for word in script.commands.iter().flat_map(|command| &command.words) {
        if let Some((name, _)) = word.text.split_once('=') {
            vars.insert(name.to_owned(), None);
        }
    }
    vars
}

/// What is not known in a word, once more as a variable, or as the output of a command: marks, and
/// `$(NAME)` that Kubernetes expands.
fn as_variables(word: &Word) -> String {
    let is_name = |name: &&str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let first = word.unknown.as_deref().filter(is_name);
    let mut plain = String::new();
    let mut rest = word.text.as_str();
    while let Some(at) = rest.find(['$', MARKS.0]) {
        let (before, after) = rest.split_at(at);
        plain.push_str(before);
        let marked = after.strip_prefix(MARKS.0).and_then(|after| after.split_once(MARKS.1));
        rest = match (reference(after), marked) {
            (Some((name, behind)), _) | (None, Some((name, behind))) => {
                match Some(name).filter(is_name).or(first) {
                    Some(name) => plain.extend(["${", name, "}"]),
                    None => plain.push_str("$(:)"),
                }
                behind
            }
            (None, None) => {
                let (sign, behind) = after.split_at(after.chars().next().map_or(0, char::len_utf8));
                plain.push_str(sign);
                behind
            }
        };
    }
    plain + rest
}

/// The variables that a text refers to.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(words: &[&str]) -> Vec<(String, Launch)> {
        let words: Vec<_> = words.iter().map(|text| Word::plain(text)).collect();
        let text = |run: Run| {
            (
                unwrapped(&run.command.words).first().map_or(String::new(), |w| w.text.clone()),
                run.launch,
            )
        };
        commands(&words, &Vars::new()).into_iter().map(text).collect()
    }

    /// How `x` is started.
    fn launch(words: &[&str]) -> Launch {
        launched(words).into_iter().find(|(name, _)| name == "x").unwrap().1
    }

    #[test]
    fn a_shell_is_replaced_for_sure_by_exec_alone() {
        use Launch::{BehindShell, Direct, PerhapsBehindShell};
        for (script, sh, bash) in [
            ("x a", PerhapsBehindShell, Direct),
            ("x a 2>&1", PerhapsBehindShell, PerhapsBehindShell),
            ("A=1; x a", PerhapsBehindShell, PerhapsBehindShell),
            ("a && x", PerhapsBehindShell, PerhapsBehindShell),
            ("a\nx\n", PerhapsBehindShell, PerhapsBehindShell),
            ("{ x; }", PerhapsBehindShell, PerhapsBehindShell),
            ("a; exec x", Direct, Direct),
            ("if a; then exec x; fi; b", Direct, Direct),
            ("A=1 exec x || b", Direct, Direct),
            ("eval \"exec x\"", Direct, Direct),
            ("eval \"exec x\" | a", BehindShell, BehindShell),
            ("eval x", BehindShell, BehindShell),
            ("exec sh -c 'exec x'", Direct, Direct),
            ("x; a", BehindShell, BehindShell),
            ("x | a", BehindShell, BehindShell),
            ("a | exec x", BehindShell, BehindShell),
            ("x & wait", BehindShell, BehindShell),
            ("( exec x )", BehindShell, BehindShell),
            ("if a; then x; fi", BehindShell, BehindShell),
            ("sh -c 'exec x'; a", BehindShell, BehindShell),
            ("x --flag exec; a", BehindShell, BehindShell),
        ] {
            assert_eq!(launch(&["sh", "-c", script]), sh, "sh: {script}");
            assert_eq!(launch(&["/bin/bash", "-c", script]), bash, "bash: {script}");
        }
        assert_eq!(launch(&["tini", "--", "x"]), Direct);
    }

    #[test]
    fn an_init_ends_with_its_shell() {
        use Launch::{BehindInit, BehindShell, Direct};
        for (init, expected) in [
            (&["dumb-init", "--"][..], BehindInit),
            (&["dumb-init", "--single-child", "--"], BehindShell),
            (&["/usr/bin/tini", "-g", "--"], BehindInit),
            (&["tini", "-vg"], BehindInit),
            (&["tini", "--"], BehindShell),
        ] {
            let with = |script| [init, &["sh", "-c", script][..]].concat();
            assert_eq!(launch(&with("a; x; b")), expected, "{init:?}");
            assert_eq!(launch(&with("a; exec x")), Direct, "{init:?}");
        }
    }

    #[test]
    fn what_a_trap_does_is_not_told() {
        let launch = |script| launch(&["bash", "-c", script]);
        let trap = "x & P=$!; trap \"kill -TERM $P\" TERM; wait $P; wait $P";
        assert_eq!(launch(trap), Launch::BehindTrap);
        assert_eq!(launch("trap - TERM; x; a"), Launch::BehindShell);
        assert_eq!(launch("trap a EXIT; x; a"), Launch::BehindShell);
        assert_eq!(launch("trap a TERM; eval x"), Launch::BehindTrap);
        assert_eq!(launch("trap a TERM; exec x"), Launch::Direct);
        assert_eq!(launch("trap a TERM; eval 'exec x'"), Launch::Direct);
    }

    #[test]
    fn eval_sees_the_values_of_its_script() {
        let vars = Vars::from([
            ("A".into(), Some("1".into())),
            ("B".into(), Some("2".into())),
            ("S".into(), None),
        ]);
        let read = |words: &[Word]| {
            let mut runs = commands(words, &vars);
            runs.pop().unwrap().command.words
        };
        let words = |script: &str| {
            let mut words: Vec<_> = ["sh", "-c", script, "--"].map(Word::plain).into();
            words.push(Word { text: "$(K)".into(), unknown: Some("K".into()) });
            words.push(Word::plain("p"));
            read(&words)
        };
        let known = |text: &str| Word::plain(text);
        let unknown = |what: &str| Word { text: shell::mark(what), unknown: Some(what.into()) };
        assert_eq!(
            words("eval \"exec x 'a b' $A\" '$B'"),
            [known("exec"), known("x"), known("a b"), known("1"), known("2")]
        );
        assert_eq!(
            words("A=5; eval \"x $A ${NONE:-d}\" '$A'"),
            [known("x"), known("5"), known("d"), unknown("A")]
        );
        assert_eq!(
            words("eval \"x ${S:-d} $@\""),
            [known("x"), unknown("S"), unknown("K"), known("p")]
        );
    }

    #[test]
    fn scripts_inside_scripts_end() {
        let vars: Vars = (0..9)
            .map(|n| (format!("A{n}"), Some(format!("eval \"$A{}\"; ", n + 1).repeat(50))))
            .chain([("A9".to_owned(), Some("x; ".to_owned()))])
            .collect();
        let words = ["sh", "-c", "eval \"$A0\""].map(Word::plain);
        assert!(commands(&words, &vars).len() < 200_000);
    }
}
