//! The text of a program, with comments and strings told apart.

/// Two forms of equal length, byte for byte.
pub(super) struct Source {
    /// Comments are blank.
    pub text: String,
    /// What strings hold is blank too; their quotes stand.
    pub code: String,
}

impl Source {
    pub fn read(program: &str) -> Self {
        let mut source = Self { text: String::new(), code: String::new() };
        let mut rest = program;
        while let Some(c) = rest.chars().next() {
            let len = match c {
                '#' => source.skip(rest, rest.find('\n').unwrap_or(rest.len()), false),
                '"' | '\'' => source.string(rest, c),
                c => {
                    source.text.push(c);
                    source.code.push(c);
                    c.len_utf8()
                }
            };
            rest = &rest[len..];
        }
        source
    }

    /// The string that `rest` begins with; how long it is.
    fn string(&mut self, rest: &str, quote: char) -> usize {
        let triple = quote.to_string().repeat(3);
        let end = if rest.starts_with(&triple) { triple } else { quote.to_string() };
        let begin = end.len();
        let mut chars = rest[begin..].char_indices();
        let mut close = rest.len();
        while let Some((at, c)) = chars.next() {
            let at = begin + at;
            if c == '\\' {
                chars.next();
            } else if rest[at..].starts_with(&end) || (c == '\n' && begin == 1) {
                close = at;
                break;
            }
        }
        let quoted = |source: &mut Self, part: &str| {
            source.text.push_str(part);
            source.code.push_str(part);
        };
        quoted(self, &rest[..begin]);
        self.skip(&rest[begin..], close - begin, true);
        let ends = rest[close..].starts_with(&end);
        let after = if ends { close + end.len() } else { close };
        quoted(self, &rest[close..after]);
        after
    }

    /// Blank the first `len` bytes of `rest`, in the code and, unless `seen`, in the text.
    fn skip(&mut self, rest: &str, len: usize, seen: bool) -> usize {
        for c in rest[..len].chars() {
            let blank = if c == '\n' { "\n".to_owned() } else { " ".repeat(c.len_utf8()) };
            self.code.push_str(&blank);
            if seen { self.text.push(c) } else { self.text.push_str(&blank) }
        }
        len
    }

    pub fn loops(&self) -> bool {
        let mut words = self.code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.any(|word| matches!(word, "while" | "for"))
    }

    /// What stands after `name=`.
    pub fn keyword(&self, name: &str) -> Option<&str> {
        self.after_keyword(name).map(|at| &self.code[at..])
    }

    /// The string that `name=` is.
    pub fn literal_of(&self, name: &str) -> Option<&str> {
        let at = self.after_keyword(name)?;
        self.code[at..].starts_with(['"', '\'']).then(|| self.literal_after(at)).flatten()
    }

    fn after_keyword(&self, name: &str) -> Option<usize> {
        self.code.match_indices(name).find_map(|(at, _)| {
            let begins =
                !self.code[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            let rest = self.code[at + name.len()..].trim_start().strip_prefix('=')?;
            let value = rest.trim_start();
            (begins && !rest.starts_with('=')).then_some(self.code.len() - value.len())
        })
    }

    /// The first string from `at` on.
    pub fn literal_after(&self, at: usize) -> Option<&str> {
        let open = at + self.code[at..].find(['"', '\''])? + 1;
        let close = open + self.code[open..].find(['"', '\''])?;
        Some(&self.text[open..close])
    }

    pub fn is_indented(&self, at: usize) -> bool {
        indent(self.line(at).1) > 0
    }

    /// Why what stands at `at` may not run.
    pub fn doubt(&self, at: usize) -> Option<&'static str> {
        if self.code[..at].contains("exit(") || self.code[..at].contains("raise ") {
            return Some("behind something that may end the program");
        }
        let (begin, line) = self.line(at);
        if branches(line) {
            return Some("in a branch");
        }
        // The lines that it is indented under.
        let mut depth = indent(line);
        for outer in self.code[..begin].lines().rev().filter(|line| !line.trim().is_empty()) {
            if indent(outer) >= depth {
                continue;
            }
            depth = indent(outer);
            if branches(outer) {
                return Some("in a branch");
            }
            if let Some(name) = function(outer)
                && self.code.matches(name).count() < 2
            {
                return Some("in a function that nobody calls");
            }
        }
        None
    }

    /// Where the line around `at` begins, and the line.
    fn line(&self, at: usize) -> (usize, &str) {
        let begin = self.code[..at].rfind('\n').map_or(0, |end| end + 1);
        let end = self.code[at..].find('\n').map_or(self.code.len(), |end| at + end);
        (begin, &self.code[begin..end])
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether a line decides what runs. `if __name__ == "__main__":` is always so.
fn branches(line: &str) -> bool {
    let line = line.trim_start();
    let word = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
    matches!(word, Some("if" | "elif" | "else" | "except" | "while" | "for" | "match" | "case"))
        && !line.starts_with("if __name__")
}

/// `def name(…)`
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ")?;
    rest.split_once('(').map(|(name, _)| name.trim()).filter(|name| !name.is_empty())
}
