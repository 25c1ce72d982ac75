//! The commands of a hook, in order: which of them surely run, and what they wait for.

use super::super::shell::{After, Level, Runs, Script, Simple, Word, unwrapped};
use super::super::span::span;
use super::super::{base, script};
use super::{Env, HookReading, Steps, client, python};
use crate::core::budget::{DrainCall, Hook};
use std::time::Duration;

/// Nobody nests shells deeper than this.
const DEEPEST: usize = 8;

/// How a command ended, as far as that can be known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Success,
    Failure,
    Unknown,
}

/// What a script runs in.
#[derive(Clone, Copy)]
pub(super) struct Within<'v> {
    pub env: Env<'v>,
    /// So many shells and `timeout`s.
    pub depth: usize,
    /// Somebody ends it after this long.
    pub limit: Option<Duration>,
    /// A loop is read as if it ran once: the limit ends it.
    pub once: bool,
    /// A script around it sets the variable with Streamgate's token.
    pub token: bool,
}

/// What `all` does.
pub(super) fn steps(all: &Script, within: Within<'_>) -> Result<Steps, HookReading> {
    if let Some(why) = all.broken {
        return Err(HookReading::Unreadable(format!("a script that is not understood: {why}")));
    }
    if all.loops && !within.once {
        let why = "it loops, and how often is not counted here";
        return Err(HookReading::Unbounded(why.to_owned()));
    }
    let leaves = |command: &Simple| {
        let first = command.words.first().map(|word| word.text.as_str());
        matches!(first, Some("break" | "continue"))
    };
    let mut walk = Walk {
        within,
        done: Steps::default(),
        join: After::Next,
        status: Status::Success,
        doubt: None,
        ended: false,
        errexit: all.errexit,
        posix: all.posix,
        leaves: all.commands.iter().any(leaves),
        token: false,
    };
    for command in &all.commands {
        walk.command(command)?;
    }
    Ok(walk.done)
}

struct Walk<'v> {
    within: Within<'v>,
    done: Steps,
    /// What stands between the last command and the next, and how the last one ended.
    join: After,
    status: Status,
    /// Why nothing that follows surely runs.
    doubt: Option<&'static str>,
    /// Nothing that follows runs.
    ended: bool,
    /// `set -e`
    errexit: bool,
    /// The shell may know no more than POSIX has.
    posix: bool,
    /// A loop may end before its time.
    leaves: bool,
    /// The variable with Streamgate's token is set.
    token: bool,
}

impl Walk<'_> {
    fn command(&mut self, command: &Simple) -> Result<(), HookReading> {
        let skipped = match (self.join, self.status) {
            (After::And, Status::Failure) | (After::Or, Status::Success) => true,
            _ => self.ended,
        };
        let joined = match self.join {
            After::And if self.status == Status::Unknown => Some("behind `&&`"),
            After::Or if self.status == Status::Unknown => Some("behind `||`"),
            _ => None,
        };
        let inside = command.level == Level::Output;
        if !inside {
            self.join = command.after;
        }
        if skipped {
            return Ok(());
        }
        let doubt = match command.runs {
            Runs::Unwaited => Some("in the background (`&`), and nobody waits for it"),
            Runs::Perhaps => Some("in a branch"),
            Runs::Plainly if command.again > 0 && self.leaves => Some("in a loop that may end"),
            Runs::Plainly => joined.or(self.doubt),
        };
        let (steps, status) = self.one(command, doubt)?;
        let steps = steps.repeated(command.again)?;
        let steps = match doubt {
            // A second call, should the first one fail.
            Some(_) if self.done.hook.call.is_some() => Steps::perhaps(steps.hook.longest()),
            Some(why) => steps.doubtful(why)?,
            // What runs beside the rest of its pipe is waited for, but not on top of it.
            None if command.after == After::Pipe && steps.hook.call.is_none() => {
                Steps::perhaps(steps.hook.longest())
            }
            None => steps,
        };
        self.done = std::mem::take(&mut self.done).then(steps)?;
        if inside {
            return Ok(());
        }
        self.status = match status {
            _ if doubt.is_some() => Status::Unknown,
            Status::Success if command.negated => Status::Failure,
            Status::Failure if command.negated => Status::Success,
            status => status,
        };
        let tested = matches!(command.after, After::And | After::Or | After::Pipe);
        if self.errexit && !tested && self.status != Status::Success {
            self.doubt.get_or_insert("behind a command whose failure ends the script (`set -e`)");
        }
        Ok(())
    }

    /// One command alone; `doubt`: why it may not run.
    fn one(
        &mut self,
        command: &Simple,
        doubt: Option<&str>,
    ) -> Result<(Steps, Status), HookReading> {
        let words = unwrapped(&command.words);
        let before = &command.words[..command.words.len() - words.len()];
        let replaces = before.iter().any(|word| word.text == "exec");
        self.token |= command.words.iter().any(|w| w.text.starts_with("STREAMGATE_ADMIN_TOKEN="));
        let Some(first) = words.first() else { return Ok((Steps::default(), Status::Success)) };
        let steps = match base(&first.text) {
            "true" | ":" | "echo" | "printf" | "export" | "hostname" | "date" | "dirname"
            | "basename" | "readonly" | "unset" | "umask" | "break" | "continue" => {
                Steps::default()
            }
            "false" => return Ok((Steps::default(), Status::Failure)),
            "test" | "[" | "[[" | "cd" | "cat" | "head" | "tr" | "cut" | "sed" | "grep" | "awk"
            | "touch" | "mkdir" | "rm" | "cp" | "mv" | "ls" | "wc" | "sort" | "uniq" | "seq"
            | "jq" | "id" | "uname" | "whoami" | "nproc" | "printenv" | "tee" | "stat"
            | "logger" | "command" | "read" | "ulimit" | "type" | "which" | "sync" => {
                return Ok((Steps::default(), Status::Unknown));
            }
            "set" => {
                self.set(&words[1..]);
                Steps::default()
            }
            "kill" | "pkill" => {
                self.doubt.get_or_insert("behind `kill`: what it stops takes no requests any more");
                return Ok((Steps::default(), Status::Unknown));
            }
            "exit" | "return" => {
                match (doubt, command.level) {
                    (None, Level::Script) => self.ended = true,
                    _ => {
                        self.doubt.get_or_insert("behind an `exit`");
                    }
                }
                Steps::default()
            }
            "sleep" => sleep(&words[1..])?,
            _ => {
                let steps = self.runs(words)?;
                self.replaced(replaces, doubt, command.level);
                return Ok((steps, Status::Unknown));
            }
        };
        self.replaced(replaces, doubt, command.level);
        Ok((steps, Status::Success))
    }

    /// `set -euo pipefail`, `set +e`, `set -o errexit`
    fn set(&mut self, words: &[Word]) {
        if self.posix && words.iter().any(|word| word.text == "pipefail") {
            self.doubt.get_or_insert(
                "behind `set -o pipefail`: `sh` may not know it, and ends there; write bash",
            );
        }
        for (n, word) in words.iter().enumerate() {
            let long = n > 0 && words[n - 1].text.ends_with('o') && word.text == "errexit";
            let letter = word.text.starts_with(['-', '+']) && word.text.contains('e');
            if letter || long {
                let sign = if long { &words[n - 1] } else { word };
                self.errexit = sign.text.starts_with('-');
            }
        }
    }

    /// `exec …` is the end of a script.
    fn replaced(&mut self, replaces: bool, doubt: Option<&str>, level: Level) {
        match (replaces, doubt, level) {
            (true, None, Level::Script) => self.ended = true,
            (true, ..) => {
                self.doubt.get_or_insert("behind an `exec`");
            }
            _ => {}
        }
    }

    /// Another program.
    fn runs(&self, words: &[Word]) -> Result<Steps, HookReading> {
        let name = words.first().map(|word| base(&word.text)).unwrap_or_default();
        if self.within.depth == DEEPEST {
            return Err(HookReading::Unreadable("shells within shells".to_owned()));
        }
        if let Some(inner) = script(words, self.within.env.vars) {
            return steps(&inner, self.inside(self.within.limit));
        }
        match name {
            "timeout" => self.limited(words),
            "curl" => client::curl(&words[1..], self.within),
            "wget" => client::wget(&words[1..], self.within),
            "streamgate" => client::own(&words[1..], self.inside(self.within.limit)),
            _ if name.starts_with("python") => python::python(&words[1..], self.within),
            _ => Err(HookReading::Unreadable(format!("`{name}`"))),
        }
    }

    fn inside(&self, limit: Option<Duration>) -> Within<'_> {
        let token = self.within.token || self.token;
        Within { depth: self.within.depth + 1, limit, token, ..self.within }
    }

    /// `timeout [flags] 60 command…`
    fn limited(&self, words: &[Word]) -> Result<Steps, HookReading> {
        let unreadable = || {
            HookReading::Unreadable(
                "`timeout` without a limit that it takes, such as 85".to_owned(),
            )
        };
        let mut rest = &words[1..];
        while let Some(word) = rest.first().filter(|word| word.text.starts_with('-')) {
            let takes_value =
                matches!(word.text.as_str(), "-k" | "-s" | "--kill-after" | "--signal");
            rest = rest.get(1 + usize::from(takes_value)..).ok_or_else(unreadable)?;
        }
        let (limit, command) = rest.split_first().ok_or_else(unreadable)?;
        let limit = span(&limit.text).ok_or_else(unreadable)?;
        // 0 is none.
        let limit = Some(limit).filter(|limit| !limit.is_zero()).or(self.within.limit);
        let inner = steps(&Script::of(command.to_vec()), self.inside(limit));
        let Some(limit) = limit else { return inner };
        match inner {
            Ok(steps) => Ok(steps.cut(limit)),
            Err(HookReading::Useless(why)) => Err(HookReading::Useless(why)),
            // Whatever it is, it ends; and what a loop asks first is surely asked.
            Err(_) => {
                let once = Within { once: true, ..self.inside(Some(limit)) };
                match steps(&Script::of(command.to_vec()), once) {
                    Ok(Steps { hook: Hook { call: Some(call), .. }, drained }) => {
                        let first = call.gives_up.unwrap_or(limit).min(limit);
                        let call = DrainCall { gives_up: Some(first), ..call };
                        let perhaps = limit.saturating_sub(first);
                        let hook = Hook { call: Some(call), perhaps, ..Hook::default() };
                        Ok(Steps { hook, drained })
                    }
                    Err(HookReading::Useless(why)) => Err(HookReading::Useless(why)),
                    _ => Ok(Steps::perhaps(limit)),
                }
            }
        }
    }
}

fn sleep(words: &[Word]) -> Result<Steps, HookReading> {
    if words.is_empty() {
        return Err(HookReading::Unreadable("`sleep` without an interval".to_owned()));
    }
    let sum = words.iter().try_fold(Duration::ZERO, |sum, word| {
        if let Some(what) = &word.unknown {
            return Err(HookReading::Unreadable(format!("`sleep` of {what}")));
        }
        match span(&word.text) {
            Some(sleep) => Ok(sum.saturating_add(sleep)),
            None if matches!(word.text.as_str(), "infinity" | "inf") => {
                Err(HookReading::Unbounded(format!("`sleep {}`", word.text)))
            }
            None => Err(HookReading::Unreadable(format!(
                "`sleep {}`, which is no interval to `sleep`; write seconds",
                word.text
            ))),
        }
    });
    sum.map(Steps::sure)
}
