//! Lists, groups and reserved words: which command runs, and who waits for it.

use super::parser::Parser;
use super::{After, Level, Runs, Simple, Word, assignment};

/// A group or compound command whose end was not read yet.
pub(super) struct Open {
    /// Where the list that it stands in begins.
    list: usize,
    /// What is read now may not run.
    branch: bool,
    subshell: bool,
}

impl Parser<'_> {
    pub(super) fn in_branch(&self) -> bool {
        self.open.iter().any(|open| open.branch)
    }

    /// The last command of the list that is being read.
    fn last(&mut self) -> Option<&mut Simple> {
        let list = self.list.min(self.script.commands.len());
        self.script.commands[list..].iter_mut().rfind(|command| command.level != Level::Output)
    }

    /// `(`, `{`, `if`, …
    pub(super) fn group(&mut self, subshell: bool) {
        let joined = self.last().is_some_and(|last| matches!(last.after, After::And | After::Or));
        self.open.push(Open { list: self.list, branch: joined, subshell });
        self.list = self.script.commands.len();
    }

    /// `)`, `}`, `fi`, …
    pub(super) fn close(&mut self) {
        if let Some(open) = self.open.pop() {
            self.list = open.list;
            self.closed = true;
        }
    }

    /// Reserved words before a command; whether `!` is among them.
    fn reserved(&mut self, words: &mut Vec<Word>) -> bool {
        let mut negated = false;
        while let Some(first) = words.first() {
            match first.text.as_str() {
                "while" | "until" | "for" | "select" => {
                    self.script.loops = true;
                    self.group(false);
                }
                "if" | "{" => self.group(false),
                "then" | "elif" | "else" => {
                    if let Some(open) = self.open.last_mut() {
                        open.branch = true;
                    }
                }
                "done" | "fi" | "}" => self.close(),
                "!" => negated = true,
                "do" | "time" => {}
                _ => break,
            }
            words.remove(0);
        }
        negated
    }

    pub(super) fn command(&mut self, after: After) {
        self.end_word();
        let mut words = std::mem::take(&mut self.words);
        let negated = self.reserved(&mut words);
        self.assign(&words);
        if !words.is_empty() {
            let runs = if self.in_branch() { Runs::Perhaps } else { Runs::Plainly };
            let subshell = self.open.iter().any(|open| open.subshell);
            let level = if subshell { Level::Sub } else { Level::Script };
            self.script.commands.push(Simple { words, after, runs, level, negated });
        } else if !matches!(after, After::Next | After::End) {
            // After a group.
            if let Some(last) = self.last() {
                last.after = after;
            }
        } else if !self.closed
            && self.last().is_some_and(|l| matches!(l.after, After::And | After::Or | After::Pipe))
        {
            // A new line after `&&`: the list goes on.
            return;
        }
        self.closed = false;
        if after == After::Background {
            let list = self.list.min(self.script.commands.len());
            for command in &mut self.script.commands[list..] {
                command.runs = Runs::Unwaited;
            }
        }
        if matches!(after, After::Next | After::End | After::Background) {
            self.list = self.script.commands.len();
        }
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
