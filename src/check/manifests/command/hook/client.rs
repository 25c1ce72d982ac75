//! Programs that call somebody: curl, wget, and Streamgate's own command.

use super::super::shell::Word;
use super::super::span::span;
use super::options::{Line, Syntax};
use super::order::{Asked, Drained, What, host, order, parts};
use super::{HookReading, Steps};
use crate::core::budget::DrainCall;
use std::time::Duration;

const CURL: Syntax = Syntax {
    short: "AbcCdDeEFHKmoPQrtTuUwxXyYz",
    long: &[
        "max-time",
        "request",
        "data",
        "data-raw",
        "data-binary",
        "data-ascii",
        "data-urlencode",
        "json",
        "form",
        "form-string",
        "header",
        "url",
        "retry",
        "retry-delay",
        "retry-max-time",
        "connect-timeout",
        "connect-to",
        "resolve",
        "output",
        "output-dir",
        "write-out",
        "user",
        "user-agent",
        "referer",
        "cookie",
        "cookie-jar",
        "cacert",
        "capath",
        "cert",
        "cert-type",
        "key",
        "key-type",
        "pass",
        "proxy",
        "noproxy",
        "oauth2-bearer",
        "config",
        "interface",
        "unix-socket",
        "upload-file",
        "speed-limit",
        "speed-time",
        "keepalive-time",
        "limit-rate",
        "max-redirs",
        "dump-header",
        "stderr",
        "trace",
        "trace-ascii",
        "request-target",
        "url-query",
        "variable",
        "expect100-timeout",
        "dns-servers",
    ],
    inline: false,
};

const WGET: Syntax = Syntax {
    short: "aBDeilIoOPQRtTUwXA",
    long: &[
        "timeout",
        "tries",
        "header",
        "method",
        "post-data",
        "post-file",
        "body-data",
        "body-file",
        "output-document",
        "output-file",
        "append-output",
        "user",
        "password",
        "http-user",
        "http-password",
        "user-agent",
        "connect-timeout",
        "read-timeout",
        "dns-timeout",
        "wait",
        "waitretry",
        "referer",
        "ca-certificate",
        "certificate",
        "private-key",
        "execute",
        "config",
        "bind-address",
        "retry-on-http-error",
    ],
    inline: true,
};

const OWN: Syntax = Syntax { short: "", long: &["admin", "endpoint", "wait"], inline: true };

pub(super) fn curl(words: &[Word], limit: Option<Duration>) -> Result<Steps, HookReading> {
    let line = Line::read(words, &CURL);
    if let Some(option) = line.refused {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        return Err(HookReading::Useless(format!(
            "curl knows no `{option}`, and ends at once; write `{name} {value}`"
        )));
    }
    if line.has(&["-K", "--config", "-:", "--next"]) {
        return Err(HookReading::Unreadable("`curl` with more than one call".to_owned()));
    }
    if limit.is_none() && line.value(&["--retry"]).is_some_and(|times| times != "0") {
        return Err(HookReading::Unbounded(
            "`curl --retry` begins anew, each time with a whole `--max-time`".to_owned(),
        ));
    }
    let body = ["-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--data-urlencode"];
    let more = ["--json", "-F", "--form", "--form-string"];
    let sends = (line.has(&body) && !line.has(&["-G", "--get"])) || line.has(&more);
    let method = match line.value(&["-X", "--request"]) {
        Some(method) => method,
        None if line.has(&["-I", "--head"]) => "HEAD",
        None if line.has(&["-T", "--upload-file"]) => "PUT",
        None if sends => "POST",
        None => "GET",
    };
    let authorized =
        line.has(&["--oauth2-bearer"]) || line.values(&["-H", "--header"]).any(authorizes);
    let own = match line.value(&["-m", "--max-time"]) {
        Some(text) if !text.contains('$') && text.parse::<f64>().is_err() => {
            return Err(HookReading::Useless(format!(
                "curl takes a number of seconds for `--max-time`, and ends at once with {text:?}"
            )));
        }
        value => ends(value),
    };
    let asked = Asked { method, authorized, gives_up: own.or(limit) };
    let urls: Vec<Word> = line.values(&["--url"]).map(Word::plain).collect();
    one_call("curl", urls.iter().chain(line.operands.iter().copied()), &asked)
}

pub(super) fn wget(words: &[Word], limit: Option<Duration>) -> Result<Steps, HookReading> {
    let line = Line::read(words, &WGET);
    if line.has(&["-b", "--background"]) {
        return Err(HookReading::Useless("nobody waits for `wget --background`".to_owned()));
    }
    if line.has(&["-i", "--input-file", "--config", "-e", "--execute"]) {
        return Err(HookReading::Unreadable("`wget` with more than its arguments".to_owned()));
    }
    let posts = line.has(&["--post-data", "--post-file"]);
    let method = line.value(&["--method"]).unwrap_or(match posts {
        true => "POST",
        false if line.has(&["--spider"]) => "HEAD",
        false => "GET",
    });
    let own = ends(line.value(&["-T", "--timeout"]));
    let once = line.value(&["-t", "--tries"]) == Some("1");
    if limit.is_none() && own.is_some() && !once {
        return Err(HookReading::Unbounded(
            "`wget` tries up to 20 times, each time with a whole `--timeout`".to_owned(),
        ));
    }
    let authorized = line.values(&["--header"]).any(authorizes);
    one_call(
        "wget",
        line.operands.iter().copied(),
        &Asked { method, authorized, gives_up: own.or(limit) },
    )
}

/// `streamgate drain --wait 80s [--endpoint host:port]`. It gives up by itself.
pub(super) fn own(words: &[Word]) -> Result<Steps, HookReading> {
    let line = Line::read(words, &OWN);
    if line.operands.first().is_none_or(|word| word.text != "drain") {
        return Err(HookReading::Unreadable("`streamgate`".to_owned()));
    }
    let Some(text) = line.value(&["--wait"]) else {
        return Err(HookReading::Useless("`streamgate drain` needs `--wait`".to_owned()));
    };
    let Ok(wait) = humantime::parse_duration(text) else {
        return Err(HookReading::Unreadable(format!("a drain call that waits {text:?}")));
    };
    let what = match line.value(&["--endpoint"]) {
        Some(endpoint) => What::Endpoint(parts(endpoint)),
        None => What::Replica,
    };
    let drained = Drained { what, at: host(line.value(&["--admin"]).unwrap_or_default()) };
    Ok(Steps::call(DrainCall { wait, gives_up: None }, drained))
}

fn one_call<'w>(
    name: &str,
    urls: impl Iterator<Item = &'w Word>,
    asked: &Asked<'_>,
) -> Result<Steps, HookReading> {
    let urls: Vec<_> = urls.collect();
    let orders: Result<Vec<_>, _> = urls.iter().map(|url| order(url)).collect();
    let order = orders?.into_iter().flatten().next();
    match (order, asked.gives_up) {
        (Some(_), _) if urls.len() > 1 => {
            Err(HookReading::Unreadable(format!("`{name}` with more than one address")))
        }
        (Some(order), _) => Ok(Steps::call(order.call(asked)?, order.drained)),
        // Each address has a whole timeout.
        (None, Some(end)) => {
            let count = u32::try_from(urls.len()).unwrap_or(u32::MAX);
            Ok(Steps::perhaps(end.saturating_mul(count)))
        }
        (None, None) => Err(HookReading::Unbounded(format!("`{name}` without a timeout"))),
    }
}

/// 0 is no limit, for curl and wget alike.
fn ends(value: Option<&str>) -> Option<Duration> {
    value.and_then(span).filter(|limit| !limit.is_zero())
}

/// A header with credentials, or headers from a file.
fn authorizes(header: &str) -> bool {
    header.starts_with('@') || header.to_ascii_lowercase().starts_with("authorization:")
}
