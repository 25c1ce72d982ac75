//! Enough of a POSIX shell to see the commands of a script: quotes, escapes, comments,
//! continuation lines, operators, redirections, here-documents, assignments and the plain forms of
//! parameter expansion. What only running it could tell (`$(…)`, unset variables) leaves a word
//! *unknown* instead of wrong.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// Variables by name; `None`: there is one, but its value is not in the manifests.
pub(in crate::check::manifests) type Vars = BTreeMap<String, Option<String>>;

/// One word after expansion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::check::manifests) struct Word {
    pub text: String,
    /// What a part of it depends on.
    pub unknown: Option<String>,
}

/// What stands after a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::check::manifests) enum After {
    #[default]
    End,
    /// `;`, a new line, `&&`, `||`
    Next,
    Pipe,
    Background,
}

/// A command without operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::check::manifests) struct Simple {
    pub words: Vec<Word>,
    pub after: After,
}

/// The commands of a script, in order, whatever branch they stand in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::check::manifests) struct Script {
    pub commands: Vec<Simple>,
    /// It has a loop.
    pub loops: bool,
}

impl Script {
    /// One command, run without a shell.
    pub fn of(words: Vec<Word>) -> Self {
        Self { commands: vec![Simple { words, after: After::End }], loops: false }
    }
}

impl Word {
    pub fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), unknown: None }
    }
}

/// `words` without what only passes a command on: `exec`, `env`, `nohup`, `tini --`, `A=b`.
pub(super) fn unwrapped(mut words: &[Word]) -> &[Word] {
    while let Some(first) = words.first() {
        let name = super::base(&first.text);
        let passes =
            matches!(name, "exec" | "env" | "nohup" | "tini" | "dumb-init" | "command" | "sudo");
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
    let mut bytes = name.bytes();
    let begins = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    (begins && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')).then_some((name, value))
}

/// The commands of `text`. `positional` is `$1`, `$2`, ….
pub(super) fn parse(text: &str, vars: &Vars, positional: &[Word]) -> Script {
    let mut parser = Parser {
        chars: text.chars().peekable(),
        vars: vars.clone(),
        positional,
        script: Script::default(),
        words: Vec::new(),
        word: None,
        heredocs: Vec::new(),
    };
    parser.run();
    parser.script
}

struct Parser<'s> {
    chars: Peekable<Chars<'s>>,
    vars: Vars,
    positional: &'s [Word],
    script: Script,
    words: Vec<Word>,
    /// The word that is being read; `Some` of nothing is `''`.
    word: Option<Word>,
    /// Ends of here-documents whose bodies follow the line.
    heredocs: Vec<String>,
}

impl Parser<'_> {
    fn run(&mut self) {
        while let Some(c) = self.chars.next() {
            match c {
                '\'' => self.single(),
                '"' => self.double(),
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(c) => self.push(c),
                },
                '$' => self.dollar(false),
                '`' => self.unknown_until('`'),
                '#' if self.word.is_none() => while self.chars.next_if(|&c| c != '\n').is_some() {},
                '\n' => self.line(),
                ';' => self.command(After::Next),
                '(' | ')' => self.command(After::Next),
                '&' if self.chars.next_if_eq(&'&').is_some() => self.command(After::Next),
                '|' if self.chars.next_if_eq(&'|').is_some() => self.command(After::Next),
                '&' if self.chars.peek() == Some(&'>') => {}
                '&' => self.command(After::Background),
                '|' => self.command(After::Pipe),
                '<' | '>' => self.redirection(c),
                c if c.is_whitespace() => self.end_word(),
                c => self.push(c),
            }
        }
        self.command(After::End);
    }

    fn current(&mut self) -> &mut Word {
        self.word.get_or_insert_with(Word::default)
    }

    fn push(&mut self, c: char) {
        self.current().text.push(c);
    }

    fn append(&mut self, text: &str) {
        self.current().text.push_str(text);
    }

    fn unknown(&mut self, what: &str) {
        self.current().unknown.get_or_insert_with(|| what.to_owned());
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn single(&mut self) {
        self.append("");
        while let Some(c) = self.chars.next().filter(|&c| c != '\'') {
            self.push(c);
        }
    }

    fn double(&mut self) {
        self.append("");
        while let Some(c) = self.chars.next().filter(|&c| c != '"') {
            match c {
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(c @ ('"' | '\\' | '$' | '`')) => self.push(c),
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                },
                '$' => self.dollar(true),
                '`' => self.unknown_until('`'),
                c => self.push(c),
            }
        }
    }

    fn dollar(&mut self, quoted: bool) {
        match self.chars.peek().copied() {
            Some('(') => {
                self.chars.next();
                self.substitution();
            }
            Some('{') => {
                self.chars.next();
                let inner: String =
                    std::iter::from_fn(|| self.chars.next_if(|&c| c != '}')).collect();
                self.chars.next();
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
            if n > 0 {
                self.end_word();
            }
            self.add(word.clone());
        }
    }

    /// The value of a variable. Unquoted, it is split at white space.
    fn value(&mut self, name: &str, quoted: bool) {
        match self.vars.get(name).cloned() {
            Some(Some(value)) if quoted => self.append(&value),
            Some(Some(value)) => {
                for c in value.chars() {
                    if c.is_whitespace() { self.end_word() } else { self.push(c) }
                }
            }
            Some(None) | None => {
                self.append(&format!("${name}"));
                self.unknown(name);
            }
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
        match (self.vars.get(name).cloned(), default) {
            (Some(Some(value)), Some(default)) if value.is_empty() => self.append(default),
            (Some(Some(value)), _) if operator.is_empty() || default.is_some() => {
                self.append(&value);
            }
            (None, Some(default)) if !default.contains('$') => self.append(default),
            _ => {
                self.append(&format!("${{{inner}}}"));
                self.unknown(name);
            }
        }
    }

    /// `$(…)`, nesting counted.
    fn substitution(&mut self) {
        let mut depth = 1;
        for c in self.chars.by_ref() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        self.append("$(…)");
        self.unknown("the output of a command");
    }

    fn unknown_until(&mut self, end: char) {
        for c in self.chars.by_ref() {
            if c == end {
                break;
            }
        }
        self.append("$(…)");
        self.unknown("the output of a command");
    }

    /// `>file`, `2>&1`, `<<EOF`: no words of the command, but for the body of a here-document.
    fn redirection(&mut self, sign: char) {
        if self.word.as_ref().is_some_and(|word| word.text.bytes().all(|b| b.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        let document = sign == '<' && self.chars.next_if_eq(&'<').is_some();
        if document && self.chars.next_if_eq(&'<').is_some() {
            // `<<< word`: the word is what is read.
            return;
        }
        while self.chars.next_if(|c| matches!(c, '>' | '&' | '|' | '-')).is_some() {}
        while self.chars.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
        let target: String = std::iter::from_fn(|| {
            self.chars.next_if(|c| !c.is_whitespace() && !matches!(c, ';' | '&' | '|' | '(' | ')'))
        })
        .collect();
        if document {
            self.heredocs.push(target.trim_matches(['\'', '"', '\\']).to_owned());
        }
    }

    /// The end of a line: bodies of here-documents follow as words.
    fn line(&mut self) {
        self.end_word();
        for end in std::mem::take(&mut self.heredocs) {
            let mut body = String::new();
            loop {
                let line: String =
                    std::iter::from_fn(|| self.chars.next_if(|&c| c != '\n')).collect();
                let more = self.chars.next().is_some();
                if line.trim() == end {
                    break;
                }
                body.push_str(&line);
                body.push('\n');
                if !more {
                    break;
                }
            }
            self.words.push(Word::plain(&body));
        }
        self.command(After::Next);
    }

    fn command(&mut self, after: After) {
        self.end_word();
        let mut words = std::mem::take(&mut self.words);
        while let Some(first) = words.first() {
            match first.text.as_str() {
                "while" | "until" | "for" | "select" => self.script.loops = true,
                "if" | "then" | "elif" | "else" | "do" | "done" | "fi" | "!" | "time" | "{"
                | "}" => {}
                _ => break,
            }
            words.remove(0);
        }
        self.assign(&words);
        if words.is_empty() {
            if let (After::Pipe | After::Background, Some(last)) =
                (after, self.script.commands.last_mut())
            {
                last.after = after;
            }
            return;
        }
        self.script.commands.push(Simple { words, after });
    }

    /// `A=1`, `export A=1 B=2`: for the commands that follow.
    fn assign(&mut self, words: &[Word]) {
        let skip = usize::from(words.first().is_some_and(|word| word.text == "export"));
        let all = words[skip..].iter().map(|word| (assignment(&word.text), word));
        let pairs: Option<Vec<_>> = all.map(|(pair, word)| Some((pair?, word))).collect();
        for ((name, value), word) in pairs.unwrap_or_default() {
            let value = word.unknown.is_none().then(|| value.to_owned());
            self.vars.insert(name.to_owned(), value);
        }
    }
}
