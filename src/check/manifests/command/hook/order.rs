//! What a URL asks of Streamgate, and whether Streamgate would do it: the calls of
//! `docs/admin-api.md`.

use super::super::shell::{MARKS, Word, shown};
use super::{Env, HookReading, literal};
use crate::core::budget::DrainCall;
use std::time::Duration;

/// Longer waits are refused.
const LONGEST: Duration = Duration::from_secs(3_600);

/// What is drained, and who is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) struct Drained {
    pub what: What,
    /// `host:port` of Streamgate as it is written; empty: not known.
    pub at: String,
}

/// What is drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) enum What {
    /// The replica of Streamgate that is asked.
    Replica,
    /// An endpoint of its pools.
    Endpoint(Vec<Part>),
}

/// A piece of an endpoint's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) enum Part {
    Text(String),
    /// The value of an environment variable.
    Variable(String),
    /// What only running it could tell.
    Unknown,
}

/// A drain that a URL asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub drained: Drained,
    /// The method that Streamgate takes.
    method: &'static str,
    /// The value of `wait`.
    wait: Option<String>,
    /// The address is one of this pod, where no token is needed.
    loopback: bool,
    /// For messages.
    path: String,
}

/// How it is asked.
pub(super) struct Asked<'a> {
    pub method: &'a str,
    /// It says who it is.
    pub authorized: bool,
    /// When the caller hangs up; `None`: never.
    pub gives_up: Option<Duration>,
}

/// A drain at Streamgate, if `url` asks for one.
pub(super) fn order(url: &Word, env: Env<'_>) -> Result<Option<Order>, HookReading> {
    let text = url.text.as_str();
    let (host, target) = split(text);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let wait = query.split('&').find_map(|pair| pair.strip_prefix("wait="));
    let (what, method) = if let Some(endpoint) = endpoint(path) {
        (What::Endpoint(parts(&decoded(endpoint))), "POST")
    } else if path == "/api/v1/drain" {
        (What::Replica, "POST")
    } else if path == "/prestop" {
        (What::Replica, "GET")
    } else if wait.is_some() && ["/drain", "/prestop"].iter().any(|end| path.ends_with(end)) {
        let path = shown(path);
        return Err(HookReading::Useless(format!(
            "Streamgate has no call {path}, and answers 404"
        )));
    } else {
        return Ok(None);
    };
    if let Some(what) = literal(text) {
        return Err(HookReading::Useless(format!(
            "`{what}` is sent as it stands: nothing replaces it"
        )));
    }
    if text.contains([' ', '\t', '\n']) {
        return Err(HookReading::Useless("there is white space in its address".to_owned()));
    }
    if text.starts_with("https:") {
        return Err(HookReading::Useless("the admin API speaks HTTP, not HTTPS".to_owned()));
    }
    env.check(text)?;
    Ok(Some(Order {
        drained: Drained { what, at: shown(host) },
        method,
        wait: wait.map(str::to_owned),
        loopback: is_loopback(host),
        path: shown(path),
    }))
}

impl Order {
    /// The call, if Streamgate takes it and it ends.
    pub fn call(&self, asked: &Asked<'_>) -> Result<DrainCall, HookReading> {
        let (path, method) = (&self.path, self.method);
        let mut faults = Vec::new();
        if asked.method != method {
            faults.push(format!("it sends {}, and Streamgate takes {method}", asked.method));
        }
        if !asked.authorized && !self.loopback && method == "POST" {
            faults.push("it carries no token, and Streamgate answers 401 or 403".to_owned());
        }
        let written = self.wait.as_ref().filter(|text| !text.contains(MARKS.0));
        let wait = written.and_then(|text| humantime::parse_duration(text).ok());
        let wait = wait.filter(|wait| *wait <= LONGEST);
        if let (Some(text), None) = (written, wait) {
            faults.push(format!(
                "`wait={text}` is no duration of at most 1h, such as 80s, and Streamgate answers 400"
            ));
        }
        if !faults.is_empty() {
            return Err(HookReading::Useless(format!("{path}: {}", faults.join("; "))));
        }
        match (&self.wait, wait, asked.gives_up) {
            (None, ..) => Err(HookReading::Unbounded("a drain call without `wait=`".to_owned())),
            (Some(text), None, _) => {
                Err(HookReading::Unreadable(format!("a drain call that waits `{}`", shown(text))))
            }
            (_, Some(_), None) => Err(HookReading::Unbounded(
                "a drain call whose caller has no timeout of its own".to_owned(),
            )),
            (_, Some(wait), gives_up) => Ok(DrainCall { wait, gives_up }),
        }
    }
}

/// `http://host:port/path` → host with port, path.
fn split(url: &str) -> (&str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let at = rest.find('/').unwrap_or(rest.len());
    rest.split_at(at)
}

/// The `host:port` of a URL.
pub(super) fn host(url: &str) -> String {
    split(url).0.to_owned()
}

fn endpoint(path: &str) -> Option<&str> {
    path.strip_prefix("/api/v1/endpoints/")?.strip_suffix("/drain")
}

pub(super) fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The brackets and colons of an IPv6 address, without their escapes.
fn decoded(endpoint: &str) -> String {
    [("%5B", "["), ("%5b", "["), ("%5D", "]"), ("%5d", "]"), ("%3A", ":"), ("%3a", ":")]
        .iter()
        .fold(endpoint.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

/// A text with its marks told apart.
pub(super) fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for (n, piece) in text.split(MARKS.0).enumerate() {
        let (name, text) = match piece.split_once(MARKS.1) {
            Some((name, text)) if n > 0 => (Some(name), text),
            _ => (None, piece),
        };
        match name {
            Some("") => parts.push(Part::Unknown),
            Some(name) => parts.push(Part::Variable(name.to_owned())),
            None => {}
        }
        if !text.is_empty() {
            parts.push(Part::Text(text.to_owned()));
        }
    }
    parts
}

pub(super) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
