//! Python programs of hooks: `time.sleep`, and one call of `urllib`, `requests`, `httpx` or
//! `http.client`. They are read by their words and lines, comments and strings told apart; what
//! decides whether a line runs is looked at, what its values are is not.

mod source;
mod url;

use super::super::shell::{Word, mark, shown};
use super::super::span::span;
use super::order::{Asked, order};
use super::walk::Within;
use super::{HookReading, Steps};
use source::Source;
use std::time::Duration;

/// What calls somebody.
const CALLS: [&str; 6] = ["urlopen(", ".post(", ".request(", ".get(\"http", ".put(", ".delete("];
/// What takes time that is not seen here, ends the program, or runs later.
const OPAQUE: [&str; 18] = [
    "subprocess",
    "os.system",
    "popen",
    "Popen",
    ".recv(",
    ".accept(",
    "signal.",
    "input(",
    "exec(",
    "eval(",
    "__import__",
    "importlib",
    "threading",
    "async",
    "lambda",
    "os.kill",
    "os.exec",
    "os.abort",
];
/// A longer program is not looked into.
const LONGEST: usize = 16 << 10;

pub(super) fn python(words: &[Word], within: Within<'_>) -> Result<Steps, HookReading> {
    let Some(program) = program(words) else {
        return Err(HookReading::Unreadable("a Python program that is elsewhere".to_owned()));
    };
    if program.len() > LONGEST {
        return Err(HookReading::Unreadable("a Python program of more than 16 KiB".to_owned()));
    }
    let source = Source::read(program);
    if let Some(why) = source.broken() {
        return Err(HookReading::Unreadable(format!("a Python program that does not run: {why}")));
    }
    if let Some(what) = OPAQUE.iter().find(|what| source.code.contains(*what)) {
        let what = what.trim_end_matches(['(', '.']);
        return Err(HookReading::Unreadable(format!("a Python program that uses `{what}`")));
    }
    if within.limit.is_none() && source.loops() {
        let why = "it loops, and how often is not counted here";
        return Err(HookReading::Unbounded(why.to_owned()));
    }
    for name in source.environment() {
        within.env.check(&mark(name))?;
        let value = within.env.vars.get(name).and_then(Option::as_deref).unwrap_or_default();
        if let Some(at) = value.find("$(") {
            return Err(HookReading::Useless(format!(
                "`{}` in the variable {name} stays as it is: no variable before it has that name",
                shown(&value[at..])
            )));
        }
    }
    let call = CALLS.iter().filter_map(|call| source.code.find(call)).min();
    let asks = ["/api/v1/", "/prestop"].iter().find_map(|path| source.text.find(path));
    let calls = match (call, asks) {
        (None, Some(_)) => {
            let why = "a Python program that names a drain call and makes none";
            return Err(HookReading::Useless(why.to_owned()));
        }
        (None, None) => Steps::default(),
        (Some(call), asks) => self::call(&source, call, asks, within)?,
    };
    let (sure, perhaps) = sleeps(&source)?;
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
    within: Within<'_>,
) -> Result<Steps, HookReading> {
    let timeouts = timeouts(source)?;
    let Some(asks) = asks else {
        let ends = timeouts.iter().map(|(_, end)| *end).reduce(Duration::saturating_add);
        return match ends.or(within.limit) {
            Some(end) => Ok(Steps::perhaps(end)),
            None => Err(HookReading::Unbounded("a call without `timeout=`".to_owned())),
        };
    };
    let url = Word::plain(&url::url(source, asks));
    let Some(order) = order(&url, within.env)? else {
        return Err(HookReading::Unreadable("a Python program".to_owned()));
    };
    // The call that follows the address; others may stand before it.
    let made = CALLS.iter().filter_map(|call| source.code[asks..].find(call)).min();
    let at = made.map_or(at, |made| asks + made);
    if let Some(why) = source.doubt(at) {
        return Err(HookReading::Unreadable(format!("the drain call stands {why}")));
    }
    if source.code.contains(".request(") && !source.code.contains("getresponse(") && is_raw(source)
    {
        let why = "it sends the call and waits for no answer: `getresponse()`";
        return Err(HookReading::Useless(why.to_owned()));
    }
    if let Some(what) = source.unfilled_token() {
        return Err(HookReading::Useless(format!("its token is `{what}` as it stands")));
    }
    let (own, others): (Vec<_>, Vec<_>) = timeouts.into_iter().partition(|(at, _)| *at > asks);
    // A connection of `http.client` is made with its timeout before it is asked.
    let (own, others) = if own.is_empty() { (others, own) } else { (own, others) };
    let gives_up = own.first().map(|(_, end)| *end).or(within.limit);
    let authorized = source.text.to_ascii_lowercase().contains("authorization");
    let method = method(source);
    let asked = Asked { method: &method, authorized, gives_up };
    let others = others.into_iter().fold(Duration::ZERO, |sum, (_, end)| sum.saturating_add(end));
    Steps::call(order.call(&asked)?, order.drained).then(Steps::perhaps(others))
}

/// Whether it speaks through a connection of `http.client`.
fn is_raw(source: &Source) -> bool {
    source.code.contains("HTTPConnection(")
}

/// Every `timeout=85` with its place; those that are `None` are none.
fn timeouts(source: &Source) -> Result<Vec<(usize, Duration)>, HookReading> {
    let mut timeouts = Vec::new();
    for at in source.keywords("timeout") {
        let value = &source.code[at..];
        // `(3, 85)`: for the connection, and for the answer.
        let pair = value.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let value = match pair {
            Some((pair, _)) => pair.rsplit(',').next().unwrap_or(pair),
            None => &value[..value.find([',', ')', '\n']).unwrap_or(value.len())],
        };
        match value.trim() {
            "None" => {}
            number => match number.parse::<f64>().ok().and_then(|_| span(number)) {
                Some(span) => timeouts.push((at, span)),
                None => return Err(HookReading::Unreadable(format!("`timeout={number}`"))),
            },
        }
    }
    Ok(timeouts)
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

/// What it surely sleeps, and what it may.
fn sleeps(source: &Source) -> Result<(Duration, Duration), HookReading> {
    let (mut sure, mut perhaps) = (Duration::ZERO, Duration::ZERO);
    for (at, _) in source.code.match_indices("sleep(") {
        let value = &source.code[at + "sleep(".len()..];
        let number = value.split_once(')').map_or(value, |(number, _)| number).trim();
        let sleep = number.parse::<f64>().ok().and_then(|_| span(number));
        let Some(sleep) = sleep else {
            return Err(HookReading::Unreadable(format!("`sleep({number})`")));
        };
        let doubtful =
            source.doubt(at).is_some() || source.is_indented(at) || source.may_fail_before(at);
        let sum = if doubtful { &mut perhaps } else { &mut sure };
        *sum = sum.saturating_add(sleep);
    }
    Ok((sure, perhaps))
}
