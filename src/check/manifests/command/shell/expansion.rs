//! What stands for something else: `$NAME`, `${NAME:-default}`, `"$@"`, `$( … )`.

use super::parser::{Parser, TOO_LONG, inner};
use super::{After, Level, Runs, Simple, Word, mark};

/// Nobody nests substitutions deeper than this; what is deeper is not looked into.
const DEEPEST: usize = 8;

impl Parser<'_> {
    pub(super) fn dollar(&mut self, quoted: bool) {
        match self.chars.peek().copied() {
            Some('(') => {
                self.chars.next();
                self.substitution();
            }
            Some('{') => {
                self.chars.next();
                let inner: String =
                    std::iter::from_fn(|| self.chars.next_if(|&c| c != '}')).collect();
                if self.chars.next().is_none() {
                    self.breaks("a `${` in it does not end");
                }
                self.parameter(&inner);
            }
            Some('@' | '*') => {
                self.chars.next();
                self.all_positional();
            }
            Some(c) if c.is_ascii_digit() => {
                self.chars.next();
                let index = c.to_digit(10).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                match index.checked_sub(1).and_then(|n| self.positional.get(n)).cloned() {
                    Some(word) => self.add(word),
                    None => self.append(""),
                }
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name: String = std::iter::from_fn(|| {
                    self.chars.next_if(|&c| c.is_ascii_alphanumeric() || c == '_')
                })
                .collect();
                self.value(&name, quoted);
            }
            _ => self.push('$'),
        }
    }

    fn add(&mut self, word: Word) {
        self.append(&word.text);
        if let Some(what) = word.unknown {
            self.unknown(&what);
        }
    }

    /// `"$@"`: the first joins the word that is being read, the last one stays open.
    fn all_positional(&mut self) {
        for (n, word) in self.positional.iter().enumerate() {
            if self.script.broken == Some(TOO_LONG) {
                return;
            }
            if n > 0 {
                self.end_word();
            }
            self.add(word.clone());
        }
    }

    /// The value of a variable. Unquoted, it is split at white space.
    fn value(&mut self, name: &str, quoted: bool) {
        let word = self.values.get(name).cloned().unwrap_or_else(|| Word::unknown(name));
        if quoted || word.unknown.is_some() {
            return self.add(word);
        }
        for c in word.text.chars() {
            if c.is_ascii_whitespace() { self.end_word() } else { self.push(c) }
        }
    }

    /// `${NAME}`, `${NAME:-default}`, `${NAME-default}`; other forms stay unknown.
    fn parameter(&mut self, inner: &str) {
        let end =
            inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
        let (name, operator) = inner.split_at(end);
        if matches!(name, "" | "@") && operator.starts_with('@') {
            return self.all_positional();
        }
        let default = operator.strip_prefix(":-").or_else(|| operator.strip_prefix('-'));
        let word = match (self.values.get(name).cloned(), default) {
            (Some(word), Some(default)) if word.text.is_empty() => Word::plain(default),
            (Some(word), _) if operator.is_empty() => word,
            (Some(word), Some(_)) if word.unknown.is_none() => word,
            (None, Some(default)) if !default.contains('$') => Word::plain(default),
            (None, _) if operator.is_empty() => Word::unknown(name),
            _ => Word { text: mark(""), unknown: Some(name.to_owned()) },
        };
        self.add(word);
    }

    /// `$(…)`, nesting counted, and `$((…))`.
    fn substitution(&mut self) {
        let mut depth = 1;
        let inner: String = std::iter::from_fn(|| {
            let c = self.chars.next()?;
            depth += i32::from(c == '(') - i32::from(c == ')');
            (depth > 0).then_some(c)
        })
        .collect();
        if depth > 0 {
            self.breaks("a `$(` in it does not end");
        }
        if inner.starts_with('(') && inner.ends_with(')') {
            return self.add(Word { text: mark(""), unknown: Some("arithmetic".to_owned()) });
        }
        if self.script.posix && inner.trim_start().starts_with('<') {
            self.breaks("`sh` knows no `$(<file)`: write `$(cat file)`");
        }
        self.output(&inner);
    }

    pub(super) fn backquoted(&mut self) {
        let inner: String =
            std::iter::from_fn(|| self.chars.next().filter(|&c| c != '`')).collect();
        self.output(&inner);
    }

    /// The output of `text`, whose commands run before the one that is being read.
    fn output(&mut self, text: &str) {
        self.add(Word { text: mark(""), unknown: Some("the output of a command".to_owned()) });
        if self.depth == DEEPEST {
            return;
        }
        let level = (self.script.posix, self.depth + 1);
        let script = inner(text, &self.values, self.positional, level);
        self.script.loops |= script.loops;
        if let Some(why) = script.broken {
            self.breaks(why);
        }
        let mut joined = false;
        for command in script.commands {
            let runs = match command.runs {
                Runs::Plainly if joined || self.in_branch() => Runs::Perhaps,
                runs => runs,
            };
            joined = matches!(command.after, After::And | After::Or);
            self.script.commands.push(Simple { runs, level: Level::Output, ..command });
        }
    }
}
