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

    /// Whether a line begins a loop; one inside brackets is over what is there already.
    pub fn loops(&self) -> bool {
        self.code.lines().any(|line| {
            let line = line.trim_start();
            let line = line.strip_prefix("async ").unwrap_or(line);
            line.starts_with("while ") || (line.starts_with("for ") && line.contains(':'))
        })
    }

    /// Why it would not run; of what a parser tells, the likely slips.
    pub fn broken(&self) -> Option<&'static str> {
        let count = |c: char| self.code.matches(c).count();
        if count('(') != count(')') || count('[') != count(']') || count('{') != count('}') {
            return Some("a bracket does not end");
        }
        let runs_together = |line: &str| {
            ["import ", "try:", "except ", "def ", "with "].iter().any(|word| {
                line.match_indices(word).any(|(at, _)| {
                    let before = line[..at].trim_end();
                    let begins = before.is_empty() || before.ends_with([';', ':']);
                    let inside = line[..at].ends_with(|c: char| !c.is_whitespace());
                    let from = *word == "import " && before.trim_start().starts_with("from ");
                    let async_def = before.ends_with("async");
                    !begins && !inside && !from && !async_def
                })
            })
        };
        if self.code.lines().any(runs_together) {
            return Some("its lines run together, as YAML's `>` makes them");
        }
        let imports: String = self
            .code
            .lines()
            .flat_map(|l| l.split(';'))
            .filter(|l| l.contains("import "))
            .collect();
        let missing = ["time.", "os.", "urllib.", "requests.", "httpx."].iter().any(|module| {
            let used = self.code.match_indices(module).any(|(at, _)| {
                !self.code[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "_.".contains(c))
            });
            used && !imports.contains(module.trim_end_matches('.'))
        });
        missing.then_some("it uses a module that it does not import")
    }

    /// The variables of its environment that it names.
    pub fn environment(&self) -> impl Iterator<Item = &str> {
        ["environ[", "environ.get(", "getenv("].into_iter().flat_map(move |by| {
            self.code.match_indices(by).filter_map(move |(at, _)| {
                let from = at + by.len();
                let name = self.literal_after(from)?;
                let end = from + name.len() + 2;
                let otherwise =
                    self.code.get(end..).is_some_and(|r| r.trim_start().starts_with(','));
                (self.code[from..].starts_with(['"', '\'']) && !otherwise).then_some(name)
            })
        })
    }

    /// A token with a place for a value that nothing fills.
    pub fn unfilled_token(&self) -> Option<&str> {
        let at = self.text.to_ascii_lowercase().find("bearer ")?;
        let open = self.code[..at].rfind(['"', '\''])?;
        let close = at + self.code[at..].find(['"', '\''])?;
        let token = self.text.get(at + "bearer ".len()..close)?;
        let filled = self.is_filled(open, close) || !token.contains('{');
        (!filled).then_some(token)
    }

    /// Whether the string between two quotes is an f-string or is formatted.
    pub fn is_filled(&self, open: usize, close: usize) -> bool {
        let prefix = self.code[..open].ends_with(['f', 'F'])
            || self.code[..open].ends_with("fr")
            || self.code[..open].ends_with("rf");
        let after = self.code.get(close + 1..).unwrap_or_default();
        prefix || after.starts_with(".format(")
    }

    /// Whether something before `at` may fail and end the program.
    pub fn may_fail_before(&self, at: usize) -> bool {
        let before = &self.code[..at];
        ["open(", "environ[", ".request", ".post(", ".get("]
            .iter()
            .any(|what| before.contains(what))
    }

    /// What stands after the first `name=`.
    pub fn keyword(&self, name: &str) -> Option<&str> {
        self.keywords(name).next().map(|at| &self.code[at..])
    }

    /// The string that `name=` is.
    pub fn literal_of(&self, name: &str) -> Option<&str> {
        let at = self.keywords(name).next()?;
        self.code[at..].starts_with(['"', '\'']).then(|| self.literal_after(at)).flatten()
    }

    /// Where the values of every `name=` begin.
    pub fn keywords<'s>(&'s self, name: &'s str) -> impl Iterator<Item = usize> {
        self.code.match_indices(name).filter_map(|(at, _)| {
            let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            let rest = self.code[at + name.len()..].trim_start().strip_prefix('=')?;
            let value = rest.trim_start();
            let begins = !self.code[..at].ends_with(part);
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
        let ends = ["exit(", "quit(", "raise ", "assert "];
        if ends.iter().any(|what| self.code[..at].contains(what)) {
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
