//! Just enough of Rust's grammar to find paths in a source file.

/// A word or a sign; white space, comments and the insides of literals are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    Word(&'a str),
    /// `::`
    Path,
    Sign(char),
}

/// The tokens of a source file.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| literal(rest));
        let length = match (skipped, c) {
            (Some(length), _) => length,
            (None, c) if c == '_' || c.is_alphanumeric() => {
                let word = word(rest);
                tokens.push(Token::Word(word.strip_prefix("r#").unwrap_or(word)));
                word.len()
            }
            (None, ':') if rest.starts_with("::") => {
                tokens.push(Token::Path);
                2
            }
            (None, c) => {
                if !c.is_whitespace() {
                    tokens.push(Token::Sign(c));
                }
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    tokens
}

fn word(text: &str) -> &str {
    let start = if text.starts_with("r#") { 2 } else { 0 };
    let end = text[start..].find(|c: char| c != '_' && !c.is_alphanumeric());
    end.map_or(text, |end| &text[..start + end])
}

/// The length of the comment that starts here.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let (mut depth, mut at) = (0, 0);
    loop {
        let rest = &text[at..];
        let step = match () {
            () if rest.is_empty() => return Some(at),
            () if rest.starts_with("/*") => {
                depth += 1;
                2
            }
            () if rest.starts_with("*/") => {
                depth -= 1;
                2
            }
            () => rest.chars().next().map_or(0, char::len_utf8),
        };
        at += step;
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The length of the string or character literal that starts here. A lifetime is none.
fn literal(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| {
            let rest = if prefix.contains('r') { rest.trim_start_matches('#') } else { rest };
            rest.starts_with('"') || (!prefix.contains('r') && rest.starts_with('\''))
        })
    })?;
    let body = &text[prefix.len()..];
    let length = if prefix.contains('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(hashes));
        let start = hashes + 1;
        start + body[start..].find(&end).map_or(body.len() - start, |at| at + end.len())
    } else if body.starts_with('"') {
        quoted(body, '"')?
    } else {
        character(body)?
    };
    Some(prefix.len() + length)
}

fn character(body: &str) -> Option<usize> {
    let mut chars = body.chars().skip(1);
    match (chars.next()?, chars.next()) {
        ('\\', _) => quoted(body, '\''),
        (c, Some('\'')) => Some(2 + c.len_utf8()),
        _ => None,
    }
}

/// The length of a literal between two `quote`s, escapes taken into account.
fn quoted(body: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in body.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Every path in `tokens`, groups written out: `a::{b, c::d}` gives `a::b` and `a::c::d`.
/// A single word is a path too; `*` ends one.
pub fn paths<'a>(tokens: &[Token<'a>]) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let continues = at > 0 && tokens[at - 1] == Token::Path;
        if matches!(tokens[at], Token::Word(_)) && !continues {
            at = path(tokens, at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Reads the path that starts at `at`, below `prefix`; returns where it ends.
fn path<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    prefix: &[&'a str],
    found: &mut Vec<Vec<&'a str>>,
) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens.get(at) {
            Some(Token::Word(word)) => path.push(word),
            Some(Token::Sign('*')) if path.len() > prefix.len() => path.push("*"),
            Some(Token::Sign('{')) if path.len() > prefix.len() => {
                return group(tokens, at + 1, &path, found);
            }
            _ => {
                found.push(path);
                return at.max(1);
            }
        }
        at += 1;
        if tokens.get(at) != Some(&Token::Path) {
            found.push(path);
            return at;
        }
        at += 1;
    }
}

fn group<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    prefix: &[&'a str],
    found: &mut Vec<Vec<&'a str>>,
) -> usize {
    loop {
        match tokens.get(at) {
            None => return at,
            Some(Token::Sign('}')) => return at + 1,
            Some(Token::Word(_)) => at = path(tokens, at, prefix, found),
            Some(_) => at += 1,
        }
    }
}
