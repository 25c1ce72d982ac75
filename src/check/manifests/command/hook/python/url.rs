//! The URL that a program puts together from literals and variables.

use super::super::super::shell::{MARKS, mark};
use super::super::order::is_name;
use super::source::Source;

/// The URL around `at`, which is inside a string, with a mark for what is not known.
pub(super) fn url(source: &Source, at: usize) -> String {
    let quotes = ['"', '\''];
    let Some(open) = source.code[..at].rfind(quotes) else { return String::new() };
    let mut url = String::new();
    let mut open = open;
    // The next string names a variable.
    let mut names = false;
    loop {
        let begin = open + 1;
        let Some(end) = source.code[begin..].find(quotes).map(|end| begin + end) else { break };
        let literal = &source.text[begin..end];
        match names {
            true => url.push_str(&mark(literal)),
            false => url.push_str(&filled(literal, source.is_filled(open, end))),
        }
        let Some(next) = source.code[end + 1..].find(quotes).map(|next| end + 1 + next) else {
            break;
        };
        let glue: String = source.code[end + 1..next].split_whitespace().collect();
        if names && glue == "," {
            // `getenv("NAME", "default")`: either of them.
            let end = source.code[next + 1..].find(quotes).map(|end| next + 1 + end);
            let after = end.and_then(|end| Some(end + 1 + source.code[end + 1..].find(quotes)?));
            let from = url.rfind(MARKS.0).unwrap_or(url.len());
            url.replace_range(from.., &mark(""));
            let (Some(end), Some(after)) = (end, after) else { break };
            let glue: String = source.code[end + 1..after].split_whitespace().collect();
            if glue.trim_start_matches(')') != "+" {
                break;
            }
            names = false;
            open = after;
            continue;
        }
        let glue = if names { glue.trim_start_matches([']', ')']) } else { glue.as_str() };
        let glue = glue.trim_end_matches(['f', 'F', 'r', 'R']);
        let variable = ["environ[", "getenv(", "environ.get("].iter().any(|f| glue.ends_with(f));
        names = glue.starts_with('+') && variable;
        match glue {
            _ if names => {}
            "" | "+" => {}
            _ if glue.starts_with('+') && glue.ends_with('+') && !glue.contains(',') => {
                url.push_str(&mark(""));
            }
            _ => break,
        }
        open = next;
    }
    url
}

/// A literal with its `{…}`, if something fills them, and its `%s` replaced.
fn filled(literal: &str, braces: bool) -> String {
    let mut url = String::new();
    let mut rest = literal;
    while let Some(at) = rest.find(['{', '%']) {
        url.push_str(&rest[..at]);
        if rest[at..].starts_with('{') && !braces {
            url.push('{');
            rest = &rest[at + 1..];
        } else if rest[at..].starts_with('{') {
            let (inner, after) = rest[at + 1..].split_once('}').unwrap_or((&rest[at + 1..], ""));
            match named(inner) {
                Some(name) => url.push_str(&mark(name)),
                None => url.push_str(&mark("")),
            }
            rest = after;
        } else if rest[at..].starts_with("%s") || rest[at..].starts_with("%d") {
            url.push_str(&mark(""));
            rest = &rest[at + 2..];
        } else {
            url.push('%');
            rest = &rest[at + 1..];
        }
    }
    url.push_str(rest);
    url
}

/// `os.environ['NAME']` → `NAME`
fn named(expression: &str) -> Option<&str> {
    let inner = expression.split(['\'', '"']).nth(1)?;
    let environment = expression.contains("environ") || expression.contains("getenv");
    (environment && inner.chars().all(is_name)).then_some(inner)
}
