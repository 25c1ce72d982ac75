//! What a URL asks of Streamgate, and whether Streamgate would do it: the calls of
//! `docs/admin-api.md`.

use super::super::shell::Word;
use super::HookReading;
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
pub(super) fn order(url: &Word) -> Result<Option<Order>, HookReading> {
    let text = url.text.as_str();
    let (host, target) = split(text);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let wait = query.split('&').find_map(|pair| pair.strip_prefix("wait="));
    let (what, method) = if let Some(endpoint) = endpoint(path) {
        (What::Endpoint(parts(endpoint)), "POST")
    } else if path.ends_with("/api/v1/drain") {
        (What::Replica, "POST")
    } else if path.ends_with("/prestop") {
        (What::Replica, "GET")
    } else if path.ends_with("/drain") && wait.is_some() {
        return Err(HookReading::Useless(format!(
            "Streamgate has no call {path}, and answers 404"
        )));
    } else {
        return Ok(None);
    };
    Ok(Some(Order {
        drained: Drained { what, at: host.to_owned() },
        method,
        wait: wait.map(str::to_owned),
        loopback: is_loopback(host),
        path: path.to_owned(),
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
        let written = self.wait.as_ref().filter(|text| !text.contains(['$', '{', '%']));
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
                Err(HookReading::Unreadable(format!("a drain call that waits {text:?}")))
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
    let (_, rest) = path.split_once("/api/v1/endpoints/")?;
    rest.strip_suffix("/drain")
}

fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// `$NAME`, `${NAME}` and `$(…)` as a script leaves them when it does not know their values.
pub(super) fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        add_text(&mut parts, &rest[..at]);
        rest = &rest[at + 1..];
        let (part, after) = match rest.chars().next() {
            Some('(') => (Part::Unknown, rest.split_once(')').map_or("", |(_, after)| after)),
            Some('{') => {
                let (name, after) = rest[1..].split_once('}').unwrap_or((&rest[1..], ""));
                let plain = name.chars().all(is_name);
                (if plain { Part::Variable(name.to_owned()) } else { Part::Unknown }, after)
            }
            _ => {
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                (Part::Variable(rest[..end].to_owned()), &rest[end..])
            }
        };
        parts.push(part);
        rest = after;
    }
    add_text(&mut parts, rest);
    parts
}

pub(super) fn add_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(last)) => last.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

pub(super) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
