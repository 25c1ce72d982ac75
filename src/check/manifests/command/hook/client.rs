//! Programs that call somebody: curl, wget, and Streamgate's own command.

use super::super::shell::{MARKS, Word, mark, shown};
use super::super::span::span;
use super::options::{Line, Syntax};
use super::order::{Asked, Drained, What, host, is_loopback, order, parts};
use super::walk::Within;
use super::{Env, HookReading, Steps, literal};
use crate::core::budget::DrainCall;
use std::time::Duration;

const CURL: Syntax = Syntax {
    short: "AbdDeFHKmoTuwX",
    switches: "sSfkLviNgGIq46012#",
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
        "output",
        "output-dir",
        "write-out",
        "user",
        "user-agent",
        "referer",
        "cacert",
        "oauth2-bearer",
        "config",
        "upload-file",
        "noproxy",
        "keepalive-time",
        "dump-header",
        "stderr",
    ],
    long_switches: &[
        "silent",
        "show-error",
        "fail",
        "fail-with-body",
        "fail-early",
        "insecure",
        "location",
        "verbose",
        "include",
        "no-buffer",
        "get",
        "head",
        "ipv4",
        "ipv6",
        "http1.1",
        "http1.0",
        "http2",
        "http2-prior-knowledge",
        "no-progress-meter",
        "progress-bar",
        "globoff",
        "compressed",
        "retry-connrefused",
        "retry-all-errors",
        "tcp-nodelay",
        "path-as-is",
        "no-keepalive",
        "disable",
        "next",
        "no-silent",
    ],
    inline: false,
};

const WGET: Syntax = Syntax {
    short: "aeioOtTU",
    switches: "qSdvnc46b",
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
        "user-agent",
        "connect-timeout",
        "read-timeout",
        "dns-timeout",
        "execute",
        "config",
        "input-file",
    ],
    long_switches: &[
        "quiet",
        "spider",
        "no-check-certificate",
        "server-response",
        "no-verbose",
        "verbose",
        "content-on-error",
        "no-proxy",
        "no-hsts",
        "inet4-only",
        "inet6-only",
        "background",
        "no-netrc",
        "no-config",
    ],
    inline: true,
};

const OWN: Syntax = Syntax {
    short: "",
    switches: "",
    long: &["admin", "endpoint", "wait"],
    long_switches: &[],
    inline: true,
};
/// Where it asks unless it is told otherwise.
const HERE: &str = "http://127.0.0.1:9180";
/// Where it finds the token.
const TOKEN: &str = "STREAMGATE_ADMIN_TOKEN";

pub(super) fn curl(words: &[Word], within: Within<'_>) -> Result<Steps, HookReading> {
    let line = Line::read(words, &CURL);
    if let Some(option) = line.inline {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        return Err(HookReading::Useless(format!(
            "curl knows no `{option}`, and ends at once; write `{name} {value}`"
        )));
    }
    known("curl", &line)?;
    if line.has(&["-K", "--config", "--next"]) {
        return Err(HookReading::Unreadable("`curl` with more than its arguments".to_owned()));
    }
    let retries = retries(&line, within.limit)?;
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
    let own = match line.value(&["-m", "--max-time"]) {
        Some(text) if !text.contains(MARKS.0) && text.parse::<f64>().is_err() => {
            return Err(HookReading::Useless(format!(
                "curl takes a number of seconds for `--max-time`, and ends at once with {text:?}"
            )));
        }
        value => ends(value),
    };
    let mut authorized = false;
    for header in line.values(&["-H", "--header"]) {
        authorized |= header.starts_with('@') || authorizes(header, within.env)?;
    }
    for token in line.values(&["--oauth2-bearer"]) {
        authorized |= is_token(token, within.env)?;
    }
    let asked = Asked { method, authorized, gives_up: own.or(within.limit) };
    let urls: Vec<Word> = line.values(&["--url"]).map(Word::plain).collect();
    let steps = one_call("curl", urls.iter().chain(line.operands.iter().copied()), &asked, within)?;
    steps.then(Steps::perhaps(retries))
}

/// How long curl begins anew.
fn retries(line: &Line<'_>, limit: Option<Duration>) -> Result<Duration, HookReading> {
    if line.value(&["--retry"]).is_none_or(|times| times == "0") || limit.is_some() {
        return Ok(Duration::ZERO);
    }
    ends(line.value(&["--retry-max-time"])).ok_or_else(|| {
        HookReading::Unbounded(
            "`curl --retry` begins anew, each time with a whole `--max-time`, unless \
             `--retry-max-time` ends it"
                .to_owned(),
        )
    })
}

pub(super) fn wget(words: &[Word], within: Within<'_>) -> Result<Steps, HookReading> {
    let line = Line::read(words, &WGET);
    known("wget", &line)?;
    if line.has(&["-b", "--background"]) {
        return Err(HookReading::Useless("nobody waits for `wget --background`".to_owned()));
    }
    if line.has(&["-i", "--input-file", "--config", "-e", "--execute"]) {
        return Err(HookReading::Unreadable("`wget` with more than its arguments".to_owned()));
    }
    let posts = line.has(&["--post-data", "--post-file"]);
    let method = match line.value(&["--method"]) {
        Some(method) => method.to_ascii_uppercase(),
        None if posts => "POST".to_owned(),
        None if line.has(&["--spider"]) => "HEAD".to_owned(),
        None => "GET".to_owned(),
    };
    let own = ends(line.value(&["-T", "--timeout"]));
    let once = line.value(&["-t", "--tries"]) == Some("1");
    if within.limit.is_none() && own.is_some() && !once {
        return Err(HookReading::Unbounded(
            "`wget` tries up to 20 times, each time with a whole `--timeout`".to_owned(),
        ));
    }
    let mut authorized = false;
    for header in line.values(&["--header"]) {
        authorized |= authorizes(header, within.env)?;
    }
    let asked = Asked { method: &method, authorized, gives_up: own.or(within.limit) };
    one_call("wget", line.operands.iter().copied(), &asked, within)
}

/// `streamgate drain --wait 80s [--endpoint host:port]`. It gives up by itself.
pub(super) fn own(words: &[Word], within: Within<'_>) -> Result<Steps, HookReading> {
    let line = Line::read(words, &OWN);
    known("streamgate", &line)?;
    if line.operands.first().is_none_or(|word| word.text != "drain") {
        return Err(HookReading::Unreadable("`streamgate`".to_owned()));
    }
    let Some(text) = line.value(&["--wait"]) else {
        return Err(HookReading::Useless("`streamgate drain` needs `--wait`".to_owned()));
    };
    let Ok(wait) = humantime::parse_duration(text) else {
        return Err(HookReading::Unreadable(format!("a drain call that waits `{}`", shown(text))));
    };
    let admin = line.value(&["--admin"]).unwrap_or(HERE);
    within.env.check(admin)?;
    let plain = admin.strip_prefix("http://").is_some_and(|rest| {
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        !rest.is_empty() && !rest.contains('/')
    });
    if !plain && !admin.starts_with(MARKS.0) {
        let admin = shown(admin);
        return Err(HookReading::Useless(format!(
            "`streamgate drain --admin {admin}` is refused; write it like http://streamgate-admin:9180"
        )));
    }
    let what = match line.value(&["--endpoint"]) {
        Some(endpoint) => {
            within.env.check(endpoint)?;
            if let Some(what) = literal(endpoint) {
                return Err(HookReading::Useless(format!("nothing replaces `{what}`")));
            }
            What::Endpoint(parts(endpoint))
        }
        None => What::Replica,
    };
    if !within.token && !is_loopback(&host(admin)) && !within.env.has(TOKEN) {
        return Err(HookReading::Useless(format!("`streamgate drain` has no {TOKEN}")));
    }
    let drained = Drained { what, at: shown(&host(admin)) };
    Ok(Steps::call(DrainCall { wait, gives_up: None }, drained))
}

/// An error for an option that may do anything.
fn known(name: &str, line: &Line<'_>) -> Result<(), HookReading> {
    match &line.unknown {
        Some(option) => Err(HookReading::Unreadable(format!("`{name} {option}`"))),
        None => Ok(()),
    }
}

fn one_call<'w>(
    name: &str,
    urls: impl Iterator<Item = &'w Word>,
    asked: &Asked<'_>,
    within: Within<'_>,
) -> Result<Steps, HookReading> {
    let urls: Vec<_> = urls.collect();
    let orders: Result<Vec<_>, _> = urls.iter().map(|url| order(url, within.env)).collect();
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

/// Whether a header carries a token. One that is not known may.
fn authorizes(header: &str, env: Env<'_>) -> Result<bool, HookReading> {
    if header.starts_with(MARKS.0) {
        env.check(header)?;
        return Ok(true);
    }
    let Some((name, value)) = header.split_once(':') else { return Ok(false) };
    if !name.eq_ignore_ascii_case("authorization") {
        return Ok(false);
    }
    match value.trim().split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => is_token(token, env),
        // The scheme is in the variable, too.
        None if value.trim().starts_with(MARKS.0) && !value.contains(&mark("")) => {
            is_token(value, env)
        }
        _ => Ok(false),
    }
}

fn is_token(token: &str, env: Env<'_>) -> Result<bool, HookReading> {
    env.check(token)?;
    match literal(token) {
        Some(what) => Err(HookReading::Useless(format!(
            "its token is `{what}` as it stands: nothing replaces it"
        ))),
        None => Ok(!token.trim().is_empty()),
    }
}
