//! What a preStop command waits for, and for how long at most.

use super::shell::{Script, Vars, Word, unwrapped};
use super::{base, commands, span};
use crate::core::budget::{DrainCall, Hook};
use std::time::Duration;

/// What can be said of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) enum HookReading {
    /// It takes at most this long.
    Bounded(Hook),
    /// It may wait for ever: why.
    Unbounded(String),
    /// It runs something that the manifests do not show: what.
    Unreadable(String),
}

/// Read the command of an `exec` hook.
pub(in crate::check::manifests) fn read(command: &[String], vars: &Vars) -> HookReading {
    // Kubernetes expands no `$(NAME)` in hooks.
    let words: Vec<Word> = command.iter().map(|text| Word::plain(text)).collect();
    // `timeout 60 sh -c …` bounds whatever stands behind it.
    if let Some((limit, rest)) = limited(&words) {
        return match read_script(&commands(rest, vars)) {
            HookReading::Bounded(hook) => HookReading::Bounded(cut(hook, limit)),
            HookReading::Unbounded(_) | HookReading::Unreadable(_) => {
                HookReading::Bounded(Hook { sleeps: limit, call: None })
            }
        };
    }
    read_script(&commands(&words, vars))
}

/// A hook that somebody ends after `limit`.
fn cut(hook: Hook, limit: Duration) -> Hook {
    let sleeps = hook.sleeps.min(limit);
    let left = limit.saturating_sub(sleeps);
    let call = hook
        .call
        .map(|call| DrainCall { gives_up: Some(call.gives_up.unwrap_or(left).min(left)), ..call });
    Hook { sleeps, call }
}

fn read_script(script: &Script) -> HookReading {
    if script.loops {
        return HookReading::Unbounded("it loops, and nothing ends the loop".to_owned());
    }
    let mut hook = Hook::default();
    for command in &script.commands {
        let words = unwrapped(&command.words);
        let Some(first) = words.first() else { continue };
        let name = base(&first.text);
        match name {
            "echo" | "printf" | "true" | ":" | "export" | "set" | "kill" | "test" | "[" | "cd"
            | "touch" | "exit" => {}
            "sleep" => match sleep(&words[1..]) {
                Ok(sleep) => hook.sleeps = hook.sleeps.saturating_add(sleep),
                Err(reading) => return reading,
            },
            _ => match call(name, words) {
                Ok(Hook { sleeps, call }) => {
                    hook.sleeps = hook.sleeps.saturating_add(sleeps);
                    hook.call = hook.call.or(call);
                }
                Err(reading) => return reading,
            },
        }
    }
    HookReading::Bounded(hook)
}

fn sleep(words: &[Word]) -> Result<Duration, HookReading> {
    words.iter().try_fold(Duration::ZERO, |sum, word| {
        if let Some(what) = &word.unknown {
            return Err(HookReading::Unreadable(format!("`sleep` of {what}")));
        }
        match span::span(&word.text) {
            Some(sleep) => Ok(sum.saturating_add(sleep)),
            None => Err(HookReading::Unbounded(format!("`sleep {}`", word.text))),
        }
    })
}

/// A command that calls somebody: the drain of an engine at Streamgate, or another address.
fn call(name: &str, words: &[Word]) -> Result<Hook, HookReading> {
    if name == "timeout"
        && let Some((limit, rest)) = limited(words)
    {
        let one = Script::of(rest.to_vec());
        return Ok(match read_script(&one) {
            HookReading::Bounded(hook) => cut(hook, limit),
            HookReading::Unbounded(_) | HookReading::Unreadable(_) => {
                Hook { sleeps: limit, call: None }
            }
        });
    }
    let text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    let gives_up = gives_up(name, words, &text);
    let sleeps = python_sleeps(&text);
    let asks = text.contains("/drain")
        || text.contains("/prestop")
        || (name == "streamgate" && text.contains(" drain"));
    if !asks {
        return match (name, gives_up) {
            ("curl" | "wget", None) => {
                Err(HookReading::Unbounded(format!("`{name}` without a timeout")))
            }
            (_, Some(end)) => Ok(Hook { sleeps: sleeps.saturating_add(end), call: None }),
            _ if sleeps > Duration::ZERO && !text.contains("while ") => {
                Ok(Hook { sleeps, call: None })
            }
            _ => Err(HookReading::Unreadable(format!("`{name}`"))),
        };
    }
    let wait = after(&text, "wait=").or_else(|| flag(words, &["--wait"]));
    match wait.as_deref().map(|text| (text, span::span(text))) {
        Some((_, Some(wait))) => Ok(Hook { sleeps, call: Some(DrainCall { wait, gives_up }) }),
        Some((text, None)) => {
            Err(HookReading::Unreadable(format!("a drain call that waits {text:?}")))
        }
        None => Err(HookReading::Unbounded("a drain call without `wait=`".to_owned())),
    }
}

/// When the caller hangs up.
fn gives_up(name: &str, words: &[Word], text: &str) -> Option<Duration> {
    let found = match name {
        "curl" => flag(words, &["--max-time", "-m"]),
        "wget" => flag(words, &["--timeout", "-T"]),
        _ if name.starts_with("python") => after(text, "timeout="),
        _ => None,
    };
    found.as_deref().and_then(span::span)
}

/// The literal `time.sleep(…)` of a piece of Python.
fn python_sleeps(text: &str) -> Duration {
    let literal =
        |rest: &str| rest.split_once(')').and_then(|(number, _)| span::span(number.trim()));
    let sleeps = text.split("time.sleep(").skip(1).filter_map(literal);
    sleeps.fold(Duration::ZERO, Duration::saturating_add)
}

/// What stands after `key`, up to the end of a number with its unit.
fn after(text: &str, key: &str) -> Option<String> {
    let (_, rest) = text.split_once(key)?;
    let end = rest
        .find(|c: char| !c.is_ascii_alphanumeric() && !"._${}".contains(c))
        .unwrap_or(rest.len());
    Some(rest[..end].trim_end_matches('.').to_owned()).filter(|value| !value.is_empty())
}

fn flag(words: &[Word], names: &[&str]) -> Option<String> {
    words.iter().enumerate().find_map(|(n, word)| {
        if names.contains(&word.text.as_str()) {
            return words.get(n + 1).map(|next| next.text.clone());
        }
        let (name, value) = word.text.split_once('=')?;
        names.contains(&name).then(|| value.to_owned())
    })
}

/// `timeout [flags] 60 command…` → its limit and the command.
fn limited(words: &[Word]) -> Option<(Duration, &[Word])> {
    let words = unwrapped(words);
    if base(&words.first()?.text) != "timeout" {
        return None;
    }
    let mut rest = &words[1..];
    while let Some(word) = rest.first().filter(|word| word.text.starts_with('-')) {
        let takes_value = matches!(word.text.as_str(), "-k" | "-s" | "--kill-after" | "--signal");
        rest = rest.get(1 + usize::from(takes_value)..)?;
    }
    let limit = span::span(&rest.first()?.text)?;
    Some((limit, &rest[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(command: &[&str]) -> HookReading {
        let command: Vec<_> = command.iter().map(|&text| text.to_owned()).collect();
        read(&command, &Vars::from([("N".into(), Some("7".into())), ("S".into(), None)]))
    }

    fn sleeps(seconds: u64) -> HookReading {
        HookReading::Bounded(Hook { sleeps: Duration::from_secs(seconds), call: None })
    }

    fn calls(sleeps: u64, wait: u64, gives_up: Option<u64>) -> HookReading {
        let call = DrainCall {
            wait: Duration::from_secs(wait),
            gives_up: gives_up.map(Duration::from_secs),
        };
        HookReading::Bounded(Hook { sleeps: Duration::from_secs(sleeps), call: Some(call) })
    }

    #[test]
    fn sleeps_are_added_up() {
        for command in [
            &["sleep", "10"][..],
            &["/bin/sh", "-c", "sleep 10"],
            &["sh", "-c", "echo bye; sleep 3 && sleep $N"],
            &["python3", "-c", "import time; time.sleep(10)"],
            &["bash", "-c", "exec sleep 10s"],
        ] {
            assert_eq!(reading(command), sleeps(10), "{command:?}");
        }
    }

    #[test]
    fn drain_calls_carry_their_deadline() {
        let url = "http://streamgate:9180/api/v1/endpoints/10.0.0.1:8000/drain?wait=80s";
        assert_eq!(
            reading(&["curl", "-fsS", "-X", "POST", "-m", "85", url]),
            calls(0, 80, Some(85))
        );
        let script = format!("curl --max-time=85 -X POST '{url}' || sleep 10");
        assert_eq!(reading(&["sh", "-c", &script]), calls(10, 80, Some(85)));
        assert_eq!(reading(&["timeout", "60", "curl", url]), calls(0, 80, Some(60)));
        let python = format!(
            "import os, time\ntry:\n    urlopen(Request(\"{url}\", method=\"POST\"), timeout=85)\n\
             except Exception:\n    time.sleep(10)\n"
        );
        assert_eq!(reading(&["python3", "-c", &python]), calls(10, 80, Some(85)));
        let document = format!("python3 - <<'EOF'\n{python}EOF\n");
        assert_eq!(reading(&["sh", "-c", &document]), calls(10, 80, Some(85)));
        assert_eq!(reading(&["streamgate", "drain", "--wait", "2m"]), calls(0, 120, None));
    }

    #[test]
    fn what_may_wait_for_ever_is_told() {
        for command in [
            &["sh", "-c", "while true; do sleep 1; done"][..],
            &["curl", "-X", "POST", "http://s/api/v1/endpoints/x/drain"],
            &["curl", "http://localhost:8000/metrics"],
            &["sleep", "infinity"],
        ] {
            assert!(matches!(reading(command), HookReading::Unbounded(_)), "{command:?}");
        }
        assert_eq!(
            reading(&["timeout", "-k", "5", "60", "sh", "-c", "while true; do sleep 1; done"]),
            sleeps(60)
        );
    }

    #[test]
    fn what_cannot_be_seen_is_told() {
        for command in
            [&["/scripts/stop.sh"][..], &["sh", "-c", "sleep $S"], &["sh", "-c", "sleep $UNSET"]]
        {
            assert!(matches!(reading(command), HookReading::Unreadable(_)), "{command:?}");
        }
    }
}
