//! Python programs of hooks: `time.sleep`, and one call of `urllib`, `requests`, `httpx` or
//! `http.client`. They are read by their words and lines, comments and strings told apart; what
//! decides whether a line runs is looked at, what its values are is not.

mod source;
mod url;

use super::super::shell::Word;
use super::super::span::span;
use super::order::{Asked, order};
use super::{HookReading, Steps};
use source::Source;
use std::time::Duration;

/// What calls somebody.
const CALLS: [&str; 6] = ["urlopen(", ".post(", ".request(", ".get(\"http", ".put(", ".delete("];
/// What takes time that is not seen here.
const OPAQUE: [&str; 12] = [
    "subprocess",
    "os.system",
    "popen",
    ".recv(",
    ".accept(",
    "signal.",
    "input(",
    "exec(",
    "eval(",
    "__import__",
    "importlib",
    "threading",
];

pub(super) fn python(words: &[Word], limit: Option<Duration>) -> Result<Steps, HookReading> {
    let Some(program) = program(words) else {
        return Err(HookReading::Unreadable("a Python program that is elsewhere".to_owned()));
    };
    let source = Source::read(program);
    if let Some(what) = OPAQUE.iter().find(|what| source.code.contains(*what)) {
        let what = what.trim_end_matches(['(', '.']);
        return Err(HookReading::Unreadable(format!("a Python program that uses `{what}`")));
    }
    if limit.is_none() && source.loops() {
        return Err(HookReading::Unbounded("it loops, and nothing ends the loop".to_owned()));
    }
    let call = CALLS.iter().filter_map(|call| source.code.find(call)).min();
    let asks = ["/api/v1/", "/prestop"].iter().find_map(|path| source.text.find(path));
    let calls = match (call, asks) {
        (None, Some(_)) => {
            let why = "a Python program that names a drain call and makes none";
            return Err(HookReading::Useless(why.to_owned()));
        }
        (None, None) => Steps::default(),
        (Some(call), asks) => self::call(&source, call, asks, limit)?,
    };
    let (sure, perhaps) = sleeps(&source, call)?;
    if calls == Steps::default() && sure.is_zero() && perhaps.is_zero() {
        return Err(HookReading::Unreadable("a Python program".to_owned()));
    }
    calls.then(Steps::sure(sure))?.then(Steps::perhaps(perhaps))
}

/// The text after `-c`, or a here-document.
fn program(words: &[Word]) -> Option<&str> {
    let cluster = |word: &Word| {
        word.text.starts_with('-') && !word.text.starts_with("--") && word.text.ends_with('c')
    };
    if let Some(at) = words.iter().position(cluster) {
        return words.get(at + 1).map(|word| word.text.as_str());
    }
    let (last, flags) = words.split_last()?;
    let alone = flags.iter().all(|word| word.text.starts_with('-'));
    (alone && last.text.contains('\n')).then_some(last.text.as_str())
}

/// The call at `at`; `asks`: where a path of Streamgate stands.
fn call(
    source: &Source,
    at: usize,
    asks: Option<usize>,
    limit: Option<Duration>,
) -> Result<Steps, HookReading> {
    let gives_up = timeout(source)?.or(limit);
    let Some(asks) = asks else {
        return match gives_up {
            Some(end) => Ok(Steps::perhaps(end)),
            None => Err(HookReading::Unbounded("a call without `timeout=`".to_owned())),
        };
    };
    let url = Word::plain(&url::url(source, asks));
    let Some(order) = order(&url)? else {
        return Err(HookReading::Unreadable("a Python program".to_owned()));
    };
    if let Some(why) = source.doubt(at) {
        return Err(HookReading::Unreadable(format!("the drain call stands {why}")));
    }
    let text = source.text.to_ascii_lowercase();
    let authorized = text.contains("authorization") || source.code.contains("auth=");
    let method = method(source);
    let asked = Asked { method: &method, authorized, gives_up };
    Ok(Steps::call(order.call(&asked)?, order.drained))
}

/// `timeout=85`; `None`: none, or `None`.
fn timeout(source: &Source) -> Result<Option<Duration>, HookReading> {
    let Some(value) = source.keyword("timeout") else { return Ok(None) };
    let end = value.find([',', ')', '\n']).unwrap_or(value.len());
    match value[..end].trim() {
        "None" => Ok(None),
        number => match number.parse::<f64>().ok().and_then(|_| span(number)) {
            Some(span) => Ok(Some(span)),
            None => Err(HookReading::Unreadable(format!("`timeout={number}`"))),
        },
    }
}

fn method(source: &Source) -> String {
    if let Some(value) = source.literal_of("method") {
        return value.to_ascii_uppercase();
    }
    for (call, method) in [(".post(", "POST"), (".put(", "PUT"), (".delete(", "DELETE")] {
        if source.code.contains(call) {
            return method.to_owned();
        }
    }
    if let Some(at) = source.code.find(".request(") {
        return source.literal_after(at).unwrap_or_default().to_ascii_uppercase();
    }
    let sends = source.keyword("data").is_some_and(|value| !value.starts_with("None"));
    (if sends { "POST" } else { "GET" }).to_owned()
}

/// What it surely sleeps, and what it may. `call`: where something may fail, and end it.
fn sleeps(source: &Source, call: Option<usize>) -> Result<(Duration, Duration), HookReading> {
    let (mut sure, mut perhaps) = (Duration::ZERO, Duration::ZERO);
    for (at, _) in source.code.match_indices("sleep(") {
        let value = &source.code[at + "sleep(".len()..];
        let number = value.split_once(')').map_or(value, |(number, _)| number).trim();
        let sleep = number.parse::<f64>().ok().and_then(|_| span(number));
        let Some(sleep) = sleep else {
            return Err(HookReading::Unreadable(format!("`sleep({number})`")));
        };
        let fails = call.is_some_and(|call| call < at);
        let sum = match source.doubt(at).is_some() || source.is_indented(at) || fails {
            true => &mut perhaps,
            false => &mut sure,
        };
        *sum = sum.saturating_add(sleep);
    }
    Ok((sure, perhaps))
}
