//! Words and operators.

use super::{After, LONGEST_ARGUMENT, MARKS, Script, Vars, Word, mark};
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// The commands of `text`. `positional` is `$1`, `$2`, …; `posix`: a shell that is no bash.
pub(in crate::check::manifests::command) fn parse(
    text: &str,
    vars: &Vars,
    positional: &[Word],
    posix: bool,
) -> Script {
    if text.len() > LONGEST_ARGUMENT {
        return Script { broken: Some(TOO_LONG), ..Script::default() };
    }
    let value = |(name, value): (&String, &Option<String>)| {
        let word = match value {
            Some(text) if text.contains(MARKS.0) => {
                Word { text: text.clone(), unknown: Some(name.clone()) }
            }
            Some(text) => Word::plain(text),
            None => Word::unknown(name),
        };
        (name.clone(), word)
    };
    inner(text, &vars.iter().map(value).collect(), positional, (posix, 0))
}

/// The same, inside so many `$( … )`.
pub(super) fn inner(
    text: &str,
    values: &Values,
    positional: &[Word],
    (posix, depth): (bool, usize),
) -> Script {
    let mut parser = Parser {
        depth,
        chars: text.chars().peekable(),
        values: values.clone(),
        positional,
        script: Script { posix, ..Script::default() },
        words: Vec::new(),
        word: None,
        heredocs: Vec::new(),
        list: 0,
        open: Vec::new(),
        closed: false,
        room: 2 * LONGEST_ARGUMENT,
    };
    parser.run();
    parser.script
}

/// Variables by name, with what is known of their values.
pub(super) type Values = BTreeMap<String, Word>;

/// Nothing behind it is read.
pub(super) const TOO_LONG: &str = "it is longer, or nests deeper, than anything that is meant";

pub(super) struct Parser<'s> {
    /// How many `$( … )` it stands in.
    pub(super) depth: usize,
    pub(super) chars: Peekable<Chars<'s>>,
    pub(super) values: Values,
    pub(super) positional: &'s [Word],
    pub(super) script: Script,
    pub(super) words: Vec<Word>,
    /// The word that is being read; `Some` of nothing is `''`.
    pub(super) word: Option<Word>,
    /// Ends of here-documents whose bodies follow the line, and whether tabs before them are
    /// dropped.
    heredocs: Vec<(String, bool)>,
    /// Index of the first command of the list (`a && b | c`) that is being read.
    pub(super) list: usize,
    pub(super) open: Vec<super::structure::Open>,
    /// A group has just ended; what stands after it is about the whole of it.
    pub(super) closed: bool,
    /// How much more its words may hold.
    room: usize,
}

impl Parser<'_> {
    fn run(&mut self) {
        while let Some(c) = self.chars.next().filter(|_| self.script.broken != Some(TOO_LONG)) {
            match c {
                '\'' => self.single(),
                '"' => self.double(),
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(c) => self.push(c),
                },
                '$' => self.dollar(false),
                '`' => self.backquoted(),
                '#' if self.word.is_none() => while self.chars.next_if(|&c| c != '\n').is_some() {},
                '\n' => self.line(),
                ';' => {
                    if self.is_empty() {
                        self.breaks("a `;` stands behind nothing");
                    }
                    self.command(After::Next);
                }
                '(' if self.word.as_ref().is_some_and(|word| word.text.ends_with('=')) => {
                    self.array();
                }
                '(' => {
                    if self.word.is_some() || !self.words.is_empty() {
                        self.breaks("it has a function or an array");
                    }
                    self.command(After::Next);
                    self.group(true);
                }
                ')' => {
                    self.command(After::Next);
                    self.close();
                }
                '&' if self.chars.next_if_eq(&'&').is_some() => self.command(After::And),
                '|' if self.chars.next_if_eq(&'|').is_some() => self.command(After::Or),
                // In bash a redirection.
                '&' if self.chars.peek() == Some(&'>') && !self.script.posix => {}
                '&' => self.command(After::Background),
                '|' => self.command(After::Pipe),
                '<' | '>' => self.redirection(c),
                ' ' | '\t' => self.end_word(),
                c => self.push(c),
            }
        }
        let operator = |after| matches!(after, After::And | After::Or | After::Pipe);
        let waits = self.is_empty() && self.last().is_some_and(|last| operator(last.after));
        self.command(After::End);
        if waits || !self.open.is_empty() {
            self.breaks("something in it does not end");
        }
    }

    /// `NAME=(…)`: the value is not followed.
    fn array(&mut self) {
        self.breaks("it has a function or an array");
        while self.chars.next().is_some_and(|c| c != ')') {}
        self.append(&mark(""));
        self.unknown("an array");
    }

    /// No command is being read, and none has just ended with a group.
    pub(super) fn is_empty(&self) -> bool {
        self.word.is_none() && self.words.is_empty() && !self.closed
    }

    pub(super) fn breaks(&mut self, why: &'static str) {
        self.script.broken.get_or_insert(why);
    }

    pub(super) fn current(&mut self) -> &mut Word {
        self.word.get_or_insert_with(Word::default)
    }

    pub(super) fn push(&mut self, c: char) {
        match self.room.checked_sub(c.len_utf8()) {
            Some(room) => {
                self.room = room;
                let c = if c == MARKS.0 || c == MARKS.1 { '?' } else { c };
                self.current().text.push(c);
            }
            None => self.breaks(TOO_LONG),
        }
    }

    /// What is known already, marks and all.
    pub(super) fn append(&mut self, text: &str) {
        let word = self.word.get_or_insert_with(Word::default);
        match self.room.checked_sub(text.len() + 1) {
            Some(room) => {
                self.room = room;
                word.text.push_str(text);
            }
            None => self.breaks(TOO_LONG),
        }
    }

    pub(super) fn unknown(&mut self, what: &str) {
        self.current().unknown.get_or_insert_with(|| what.to_owned());
    }

    pub(super) fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn single(&mut self) {
        self.append("");
        loop {
            match self.chars.next() {
                Some('\'') => break,
                Some(c) => self.push(c),
                None => return self.breaks("a quote in it does not end"),
            }
        }
    }

    fn double(&mut self) {
        self.append("");
        loop {
            let Some(c) = self.chars.next() else {
                return self.breaks("a quote in it does not end");
            };
            match c {
                '"' => break,
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(c @ ('"' | '\\' | '$' | '`')) => self.push(c),
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                },
                '$' => self.dollar(true),
                '`' => self.backquoted(),
                c => self.push(c),
            }
        }
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
            if self.script.posix {
                self.breaks("`sh` knows no `<<<`");
            }
            return;
        }
        let tabs = document && self.chars.next_if_eq(&'-').is_some();
        while self.chars.next_if(|c| matches!(c, '>' | '&' | '|' | '-')).is_some() {}
        while self.chars.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
        let target: String = std::iter::from_fn(|| {
            self.chars.next_if(|c| !c.is_whitespace() && !matches!(c, ';' | '&' | '|' | '(' | ')'))
        })
        .collect();
        if document {
            self.heredocs.push((target.trim_matches(['\'', '"', '\\']).to_owned(), tabs));
        }
    }

    /// The end of a line: bodies of here-documents follow as words.
    fn line(&mut self) {
        self.end_word();
        for (end, tabs) in std::mem::take(&mut self.heredocs) {
            let mut body = String::new();
            loop {
                let line: String =
                    std::iter::from_fn(|| self.chars.next_if(|&c| c != '\n')).collect();
                let more = self.chars.next().is_some();
                let line = if tabs { line.trim_start_matches('\t') } else { line.as_str() };
                if line == end {
                    break;
                }
                body.push_str(line);
                body.push('\n');
                if !more {
                    self.breaks("a here-document in it does not end");
                    break;
                }
            }
            self.words.push(Word::plain(&body));
        }
        self.command(After::Next);
    }
}
