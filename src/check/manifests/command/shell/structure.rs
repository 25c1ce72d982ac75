//! Lists, groups and reserved words: which command runs, and who waits for it.

use super::parser::{Parser, TOO_LONG};
use super::{After, Level, Runs, Simple, Word, assignment, mark};

/// Groups within groups; nobody writes more.
const DEEPEST: usize = 100;

/// A group or compound command whose end was not read yet.
pub(super) struct Open {
    /// Where the list that it stands in begins.
    list: usize,
    /// What is read now may not run.
    branch: bool,
    subshell: bool,
    /// The body of a `for` over so many words runs again so often.
    again: u32,
}

impl Parser<'_> {
    pub(super) fn in_branch(&self) -> bool {
        self.open.iter().any(|open| open.branch)
    }

    /// The last command of the list that is being read.
    pub(super) fn last(&mut self) -> Option<&mut Simple> {
        let list = self.list.min(self.script.commands.len());
        self.script.commands[list..].iter_mut().rfind(|command| command.level != Level::Output)
    }

    /// `(`, `{`, `if`, …
    pub(super) fn group(&mut self, subshell: bool) {
        let joined = self.last().is_some_and(|last| matches!(last.after, After::And | After::Or));
        if self.open.len() == DEEPEST {
            return self.breaks(TOO_LONG);
        }
        self.open.push(Open { list: self.list, branch: joined, subshell, again: 0 });
        self.list = self.script.commands.len();
    }

    /// `)`, `}`, `fi`, …
    pub(super) fn close(&mut self) {
        match self.open.pop() {
            Some(open) => {
                self.list = open.list;
                self.closed = true;
            }
            None => self.breaks("something in it ends that did not begin"),
        }
    }

    /// Reserved words before a command; whether `!` is among them.
    fn reserved(&mut self, words: &mut Vec<Word>) -> bool {
        let mut negated = false;
        while let Some(first) = words.first() {
            match first.text.as_str() {
                "for" => {
                    self.group(false);
                    let again = counted(words);
                    self.script.loops |= again.is_none();
                    if let (Some(again), Some(open)) = (again, self.open.last_mut()) {
                        open.again = again;
                    }
                    words.clear();
                    return false;
                }
                "while" | "until" | "select" => {
                    self.script.loops = true;
                    self.group(false);
                }
                "case" => {
                    self.breaks("it has a `case`");
                    break;
                }
                "if" | "{" => self.group(false),
                "then" | "elif" | "else" => self.branch(),
                // What `while` asks runs once at least; what it does, perhaps.
                "do" if self.open.last().is_some_and(|open| open.again == 0) => self.branch(),
                "done" | "fi" | "}" => self.close(),
                "!" => negated = true,
                "do" | "time" => {}
                _ => break,
            }
            words.remove(0);
        }
        negated
    }

    fn branch(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.branch = true;
        }
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
            let times = |open: &Open| open.again.saturating_add(1);
            let times = self.open.iter().map(times).fold(1, u32::saturating_mul);
            let again = times - 1;
            self.script.commands.push(Simple { words, after, runs, level, negated, again });
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

    /// `A=1`, `export A=1 B=2`: for the commands that follow. One that may not happen, or not in
    /// this shell, leaves the value unknown.
    fn assign(&mut self, words: &[Word]) {
        let sets = |word: &Word| {
            matches!(word.text.as_str(), "export" | "declare" | "local" | "readonly" | "typeset")
        };
        self.forget(words);
        let skip = usize::from(words.first().is_some_and(sets));
        let all = words[skip..].iter().filter(|word| skip == 0 || !word.text.starts_with('-'));
        let all = all.map(|word| (assignment(&word.text), word));
        let pairs: Option<Vec<_>> = all.map(|(pair, word)| Some((pair?, word))).collect();
        let list = self.list.min(self.script.commands.len());
        let before = self.script.commands[list..].iter().filter(|c| c.level != Level::Output);
        // Behind `A=1 &&` it happens.
        let mut doubts = before.filter(|c| c.after != After::And || !assigns(&c.words));
        let doubtful =
            doubts.next().is_some() || self.open.iter().any(|open| open.branch || open.subshell);
        for ((name, value), word) in pairs.unwrap_or_default() {
            let (name, more) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
            let before = more.then(|| self.values.get(name).cloned()).flatten();
            let before = before.unwrap_or_default();
            let value = Word {
                text: before.text + value,
                unknown: before.unknown.or_else(|| word.unknown.clone()),
            };
            let value = match doubtful {
                true => Word { text: mark(""), unknown: Some(name.to_owned()) },
                false => value,
            };
            self.values.insert(name.to_owned(), value);
        }
    }
}

impl Parser<'_> {
    /// Variables that a command sets to what only running it could tell.
    fn forget(&mut self, words: &[Word]) {
        let Some((first, rest)) = words.split_first() else { return };
        let names: Vec<String> = match first.text.as_str() {
            "." | "source" => self.values.keys().cloned().collect(),
            "read" | "mapfile" | "readarray" | "getopts" | "printf" | "unset" => {
                rest.iter().map(|word| word.text.clone()).collect()
            }
            _ => return,
        };
        for name in names {
            if let Some(value) = self.values.get_mut(&name) {
                *value = Word { text: mark(""), unknown: Some(name) };
            }
        }
    }
}

/// Nothing but assignments.
fn assigns(words: &[Word]) -> bool {
    words.iter().all(|word| word.text == "export" || assignment(&word.text).is_some())
}

/// `for NAME in a b c` → how often its body runs after the first time.
fn counted(words: &[Word]) -> Option<u32> {
    let (head, list) = words.split_at_checked(3)?;
    let plain = |word: &Word| word.unknown.is_none() && !word.text.contains(['*', '?', '[', '{']);
    let fits = head[2].text == "in" && !list.is_empty() && list.iter().all(plain);
    fits.then(|| u32::try_from(list.len() - 1).ok()).flatten()
}
