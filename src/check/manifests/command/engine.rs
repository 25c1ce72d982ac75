//! A vLLM server's command line.

use super::shell::{After, Level, Runs, Simple, Vars, Word, unwrapped};
use super::{Image, base, commands, span, words};
use crate::check::manifests::objects::Container;
use crate::check::manifests::view::cut;

/// How vLLM is started, and what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) struct EngineCommand {
    pub launch: Launch,
    pub shutdown_timeout: Number,
    pub api_servers: Number,
    /// `--data-parallel-size` where it also sets the number of API servers.
    pub ranks: Number,
    /// `--config FILE`: what it holds is not in the manifests.
    pub file: Option<String>,
    /// It serves no HTTP.
    pub headless: bool,
    /// `VLLM_HTTP_TIMEOUT_KEEP_ALIVE`, seconds.
    pub keep_alive: Number,
}

/// Who gets SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) enum Launch {
    /// vLLM itself, or a shell that it replaces.
    Direct,
    /// A shell that stays in front of it.
    BehindShell,
    /// The image is vLLM's, but the command leads elsewhere.
    Hidden,
}

/// A whole number on a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) enum Number {
    Absent,
    Known(u64),
    /// Why it is none.
    Wrong(String),
    /// What it depends on that the manifests do not hold.
    Unknown(String),
}

impl Number {
    pub fn known(&self) -> Option<u64> {
        match self {
            Self::Known(number) => Some(*number),
            Self::Absent | Self::Wrong(_) | Self::Unknown(_) => None,
        }
    }
}

/// What a container runs, if that is vLLM's server.
pub(in crate::check::manifests) fn engine(container: &Container) -> Option<EngineCommand> {
    let words = words(container);
    let vars = &container.vars;
    let image = container.image.as_deref().map(Image::parse);
    let script = commands(&words, vars);
    let found =
        script.commands.iter().enumerate().find_map(|(n, command)| Some((n, flags(command)?)));
    if let Some((n, flags)) = found {
        let command = &script.commands[n];
        let replaced = command.words.iter().any(|word| word.text == "exec");
        // Assignments before it do not keep the shell; another command does, or a pipe.
        let stays = |c: &&Simple| c.level != Level::Output && !unwrapped(&c.words).is_empty();
        let alone = script.commands.iter().filter(stays).count() == 1;
        let waited = command.after != After::Pipe && command.runs != Runs::Unwaited;
        let direct = (alone || replaced) && waited;
        let launch = if direct { Launch::Direct } else { Launch::BehindShell };
        return Some(EngineCommand::read(flags, vars, launch));
    }
    if !image.is_some_and(|image| image.is_vllm()) {
        return None;
    }
    if container.command.is_empty() {
        // The image's entrypoint is the server; everything is its arguments.
        return Some(EngineCommand::read(&words, vars, Launch::Direct));
    }
    let sleeps =
        script.commands.iter().all(|c| c.words.first().is_some_and(|w| base(&w.text) == "sleep"));
    (!sleeps).then(|| EngineCommand::read(&[], vars, Launch::Hidden))
}

/// The arguments after `vllm serve` or the server's module.
fn flags(command: &Simple) -> Option<&[Word]> {
    let words = unwrapped(&command.words);
    if matches!(base(&words.first()?.text), "echo" | "printf") {
        return None;
    }
    let begins = |n: &usize| {
        let text = words[*n].text.as_str();
        let before = n.checked_sub(1).map(|m| words[m].text.as_str());
        let serve = text == "serve"
            && before
                .is_some_and(|word| base(word) == "vllm" || word == "vllm.entrypoints.cli.main");
        let module = text.starts_with("vllm.entrypoints.") && text.ends_with("api_server");
        serve || (module && before == Some("-m"))
    };
    let at = (0..words.len()).find(begins)?;
    Some(&words[at + 1..])
}

impl EngineCommand {
    fn read(words: &[Word], vars: &Vars, launch: Launch) -> Self {
        let flags = Flags { words };
        let count = |names: &[&str]| flags.number(names, 1, 1_000_000);
        let elsewhere = ["--data-parallel-external-lb", "--data-parallel-hybrid-lb"];
        let ranks = ["--data-parallel-rank", "--data-parallel-start-rank", "-dpn", "-dpr"];
        let inside = !elsewhere.iter().any(|name| flags.has(name))
            && !ranks.iter().any(|name| flags.has(name));
        let keep_alive =
            vars.get("VLLM_HTTP_TIMEOUT_KEEP_ALIVE").map_or(Number::Absent, |value| match value {
                Some(text) => number(text, 0, span::LONGEST),
                None => Number::Unknown("VLLM_HTTP_TIMEOUT_KEEP_ALIVE".to_owned()),
            });
        Self {
            launch,
            shutdown_timeout: flags.number(&["--shutdown-timeout"], 0, span::LONGEST),
            api_servers: count(&["--api-server-count", "-asc"]),
            ranks: if inside { count(&["--data-parallel-size", "-dp"]) } else { Number::Absent },
            file: flags.last(&["--config"]).flatten().map(|word| word.text),
            headless: flags.has("--headless"),
            keep_alive,
        }
    }
}

struct Flags<'w> {
    words: &'w [Word],
}

impl Flags<'_> {
    /// The value of the last of these flags, which is the one that counts; `Some(None)`: it has
    /// none. vLLM takes `_` for `-` in names.
    fn last(&self, names: &[&str]) -> Option<Option<Word>> {
        let value = |(n, word): (usize, &Word)| {
            let (name, inline) = match word.text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.text.as_str(), None),
            };
            let name =
                if name.starts_with("--") { name.replace('_', "-") } else { name.to_owned() };
            if !names.contains(&name.as_str()) {
                return None;
            }
            let inline =
                inline.map(|text| Word { text: text.to_owned(), unknown: word.unknown.clone() });
            Some(
                inline
                    .or_else(|| self.words.get(n + 1).filter(|next| is_value(&next.text)).cloned()),
            )
        };
        self.words.iter().enumerate().rev().find_map(value)
    }

    fn has(&self, name: &str) -> bool {
        self.last(&[name]).is_some()
    }

    fn number(&self, names: &[&str], least: u64, most: u64) -> Number {
        match self.last(names) {
            None => Number::Absent,
            Some(None) => Number::Wrong("it has no value".to_owned()),
            Some(Some(Word { unknown: Some(what), .. })) => Number::Unknown(what),
            Some(Some(word)) => number(&word.text, least, most),
        }
    }
}

/// A flag is no value, a negative number is.
fn is_value(text: &str) -> bool {
    !text.starts_with('-') || text[1..].starts_with(|c: char| c.is_ascii_digit() || c == '.')
}

fn number(text: &str, least: u64, most: u64) -> Number {
    let digits = text.strip_prefix('+').unwrap_or(text);
    match digits.parse::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Number::Known(number),
        _ => Number::Wrong(format!("{} is no whole number from {least} to {most}", cut(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(command: &[&str], args: &[&str]) -> Container {
        let texts = |all: &[&str]| all.iter().map(|&text| text.to_owned()).collect();
        let mut container = Container::bare("c", Some("vllm/vllm-openai:v0.20.0"));
        container.command = texts(command);
        container.args = texts(args);
        container.vars = Vars::from([("T".into(), Some("90".into())), ("S".into(), None)]);
        container
    }

    fn timeout(command: &[&str], args: &[&str]) -> Number {
        engine(&container(command, args)).unwrap().shutdown_timeout
    }

    #[test]
    fn every_spelling_is_read() {
        for (command, args) in [
            (&[][..], &["--model", "m", "--shutdown-timeout", "90"][..]),
            (&[], &["m", "--shutdown_timeout=90"]),
            (&[], &["m", "--shutdown-timeout", "5", "--shutdown-timeout=90"]),
            (&["vllm", "serve"], &["m", "--shutdown-timeout=$(T)"]),
            (&["vllm", "serve", "m", "--shutdown-timeout", "$(T)"], &[]),
            (
                &["python3", "-u", "-m", "vllm.entrypoints.openai.api_server"],
                &["--shutdown-timeout", "90"],
            ),
            (&["sh", "-c"], &["exec vllm serve m --shutdown-timeout 90"]),
            (
                &[
                    "/bin/bash",
                    "-lc",
                    "export T=90\nexec vllm serve 'my model' \\\n  --shutdown-timeout \"$T\" # end",
                ],
                &[],
            ),
            (&["bash", "-e", "-c", "vllm serve m --shutdown-timeout ${T:-5} 2>&1"], &[]),
            (&["sh", "-c", "exec vllm serve m \"$@\"", "--"], &["--shutdown-timeout", "90"]),
            (
                &[
                    "tini",
                    "--",
                    "sh",
                    "-c",
                    "A=b exec /opt/venv/bin/vllm serve m --shutdown_timeout 90",
                ],
                &[],
            ),
            (&["uv", "run", "vllm", "serve", "m", "--shutdown-timeout=90"], &[]),
        ] {
            assert_eq!(timeout(command, args), Number::Known(90), "{command:?} {args:?}");
        }
    }

    #[test]
    fn wrong_and_unknown_values_are_told_apart() {
        assert_eq!(timeout(&[], &["m"]), Number::Absent);
        assert_eq!(timeout(&[], &["--shutdown-timeout", "$(S)"]), Number::Unknown("S".into()));
        assert_eq!(
            timeout(&[], &["--shutdown-timeout", "--x"]),
            Number::Wrong("it has no value".into())
        );
        for text in ["-5", "9.5", "ninety", "", "99999999999999999999999"] {
            let Number::Wrong(why) = timeout(&[], &["--shutdown-timeout", text]) else {
                panic!("{text}")
            };
            assert!(why.contains("no whole number from 0"), "{why}");
        }
    }

    #[test]
    fn the_shell_in_front_is_seen() {
        let launch = |script: &str| engine(&container(&["sh", "-c", script], &[])).unwrap().launch;
        assert_eq!(launch("vllm serve m"), Launch::Direct);
        assert_eq!(launch("T=1; vllm serve m"), Launch::Direct);
        assert_eq!(launch("mkdir -p /x && exec vllm serve m"), Launch::Direct);
        assert_eq!(launch("mkdir -p /x && vllm serve m"), Launch::BehindShell);
        assert_eq!(launch("vllm serve m | tee log"), Launch::BehindShell);
        assert_eq!(launch("vllm serve m & wait"), Launch::BehindShell);
        assert_eq!(launch("/scripts/start.sh"), Launch::Hidden);
    }

    #[test]
    fn what_is_no_server_is_none() {
        assert_eq!(engine(&container(&["sleep", "infinity"], &[])), None);
        let mut other = container(&["sh", "-c", "echo vllm serve m"], &[]);
        other.image = Some("busybox:1.37".into());
        assert_eq!(engine(&other), None);
        other.command = vec!["vllm".into(), "serve".into()];
        assert!(engine(&other).is_some(), "whatever the image is called");
    }

    #[test]
    fn several_api_servers_are_seen() {
        let read = |args: &[&str]| engine(&container(&[], args)).unwrap();
        assert_eq!(read(&["-asc", "2"]).api_servers, Number::Known(2));
        assert_eq!(read(&["--api_server_count=4"]).api_servers, Number::Known(4));
        assert_eq!(read(&["-dp=2"]).ranks, Number::Known(2));
        assert_eq!(read(&["-dp=2", "--data-parallel-external-lb"]).ranks, Number::Absent);
    }
}
