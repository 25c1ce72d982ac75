//! Words and operators.

use super::{After, Script, Vars, Word};
use std::iter::Peekable;
use std::str::Chars;

/// The commands of `text`. `positional` is `$1`, `$2`, ….
pub(in crate::check::manifests::command) fn parse(
    text: &str,
    vars: &Vars,
    positional: &[Word],
) -> Script {
    inner(text, vars, positional, 0)
}

/// The same, inside so many `$( … )`.
pub(super) fn inner(text: &str, vars: &Vars, positional: &[Word], depth: usize) -> Script {
    let mut parser = Parser {
        depth,
        chars: text.chars().peekable(),
        vars: vars.clone(),
        positional,
        script: Script::default(),
        words: Vec::new(),
        word: None,
        heredocs: Vec::new(),
        list: 0,
        open: Vec::new(),
        closed: false,
    };
    parser.run();
    parser.script
}

pub(super) struct Parser<'s> {
    /// How many `$( … )` it stands in.
    pub(super) depth: usize,
    pub(super) chars: Peekable<Chars<'s>>,
    pub(super) vars: Vars,
    pub(super) positional: &'s [Word],
    pub(super) script: Script,
    pub(super) words: Vec<Word>,
    /// The word that is being read; `Some` of nothing is `''`.
    pub(super) word: Option<Word>,
    /// Ends of here-documents whose bodies follow the line.
    pub(super) heredocs: Vec<String>,
    /// Index of the first command of the list (`a && b | c`) that is being read.
    pub(super) list: usize,
    pub(super) open: Vec<super::structure::Open>,
    /// A group has just ended; what stands after it is about the whole of it.
    pub(super) closed: bool,
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
                '`' => self.backquoted(),
                '#' if self.word.is_none() => while self.chars.next_if(|&c| c != '\n').is_some() {},
                '\n' => self.line(),
                ';' => self.command(After::Next),
                '(' => {
                    self.command(After::Next);
                    self.group(true);
                }
                ')' => {
                    self.command(After::Next);
                    self.close();
                }
                '&' if self.chars.next_if_eq(&'&').is_some() => self.command(After::And),
                '|' if self.chars.next_if_eq(&'|').is_some() => self.command(After::Or),
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

    pub(super) fn current(&mut self) -> &mut Word {
        self.word.get_or_insert_with(Word::default)
    }

    pub(super) fn push(&mut self, c: char) {
        self.current().text.push(c);
    }

    pub(super) fn append(&mut self, text: &str) {
        self.current().text.push_str(text);
    }

    pub(super) fn unknown(&mut self, what: &str) {
        self.current().unknown.get_or_insert_with(|| what.to_owned());
    }

    pub(super) fn end_word(&mut self) {
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
}
