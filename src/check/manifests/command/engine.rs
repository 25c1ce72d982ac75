//! A vLLM server's command line.

use super::arguments::{Arguments, Number};
use super::launch::Launch;
use super::shell::{Simple, Vars, Word, shown, unwrapped};
use super::{Image, base, commands, span, words};
use crate::check::manifests::objects::Container;

/// How vLLM is started, and what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) struct EngineCommand {
    /// Each of the servers that its script may start; at least one, and no two alike.
    pub servers: Vec<Server>,
    /// It serves no HTTP.
    pub headless: bool,
    /// `VLLM_HTTP_TIMEOUT_KEEP_ALIVE`, seconds.
    pub keep_alive: Number,
}

/// One start of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) struct Server {
    pub launch: Launch,
    pub shutdown_timeout: Number,
    pub api_servers: Number,
    /// `--data-parallel-size` where it also sets the number of API servers.
    pub ranks: Number,
    /// `--config FILE`: what it holds is not in the manifests.
    pub file: Option<String>,
    headless: bool,
}

/// What a container runs, if that is vLLM's server.
pub(in crate::check::manifests) fn engine(container: &Container) -> Option<EngineCommand> {
    let words = words(container);
    let image = container.image.as_deref().map(Image::parse);
    let runs = commands(&words, &container.vars);
    let started = runs.iter().filter_map(|run| {
        let arguments = Arguments::read(arguments(&run.command)?);
        (!arguments.is_help()).then(|| Server::read(&arguments, run.launch))
    });
    let servers: Vec<_> = started.collect();
    if !servers.is_empty() {
        return Some(EngineCommand::of(servers, &container.vars));
    }
    let image = image.filter(Image::is_vllm)?;
    let server = if container.command.is_empty() && image.serves() {
        // The image's entrypoint is the server; everything is its arguments.
        Server::read(&Arguments::read(&words), Launch::Direct)
    } else {
        Server::read(&Arguments::read(&[]), Launch::Hidden)
    };
    let sleeps = |run: &super::follow::Run| {
        run.command.words.first().is_some_and(|word| base(&word.text) == "sleep")
    };
    let idle = server.launch == Launch::Hidden && runs.iter().all(sleeps);
    (!idle).then(|| EngineCommand::of(vec![server], &container.vars))
}

/// The arguments after `vllm serve` or the server's module.
fn arguments(command: &Simple) -> Option<&[Word]> {
    let words = unwrapped(&command.words);
    let name = base(&words.first()?.text);
    if matches!(name, "echo" | "printf" | "grep" | "pgrep" | "pkill") {
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
    /// Of several servers those without HTTP are no matter.
    fn of(servers: Vec<Server>, vars: &Vars) -> Self {
        let headless = servers.iter().all(|server| server.headless);
        let mut distinct: Vec<Server> = Vec::new();
        for server in servers {
            if (headless || !server.headless) && !distinct.contains(&server) {
                distinct.push(server);
            }
        }
        let keep_alive =
            vars.get("VLLM_HTTP_TIMEOUT_KEEP_ALIVE").map_or(Number::Absent, |value| match value {
                Some(text) => Number::read(text, 0, span::LONGEST),
                None => Number::Unknown("VLLM_HTTP_TIMEOUT_KEEP_ALIVE".to_owned()),
            });
        Self { servers: distinct, headless, keep_alive }
    }
}

impl Server {
    fn read(arguments: &Arguments, launch: Launch) -> Self {
        let count = |names: &[&str]| arguments.number(names, 1, 1_000_000);
        let elsewhere = ["--data-parallel-external-lb", "--data-parallel-hybrid-lb"];
        let ranks = ["--data-parallel-rank", "--data-parallel-start-rank", "-dpn", "-dpr"];
        let inside = !elsewhere.iter().any(|name| arguments.has(name))
            && !ranks.iter().any(|name| arguments.has(name));
        Self {
            launch,
            shutdown_timeout: arguments.number(&["--shutdown-timeout"], 0, span::LONGEST),
            api_servers: count(&["--api-server-count", "-asc"]),
            ranks: if inside { count(&["--data-parallel-size", "-dp"]) } else { Number::Absent },
            file: arguments.last(&["--config"]).flatten().map(|word| shown(&word.text)),
            headless: arguments.has("--headless"),
        }
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

    fn first(container: &Container) -> Server {
        engine(container).unwrap().servers.remove(0)
    }

    fn timeout(command: &[&str], args: &[&str]) -> Number {
        first(&container(command, args)).shutdown_timeout
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
        let launch = |script: &str| first(&container(&["bash", "-c", script], &[])).launch;
        assert_eq!(launch("vllm serve m"), Launch::Direct);
        assert_eq!(launch("mkdir -p /x && exec vllm serve m"), Launch::Direct);
        assert_eq!(launch("mkdir -p /x && vllm serve m"), Launch::PerhapsBehindShell);
        assert_eq!(launch("vllm serve m | tee log"), Launch::BehindShell);
        assert_eq!(launch("/scripts/start.sh"), Launch::Hidden);
    }

    #[test]
    fn every_server_of_a_script_counts() {
        let timeouts = |script: &str| {
            let engine = engine(&container(&["bash", "-c", script], &[])).unwrap();
            engine.servers.into_iter().map(|server| server.shutdown_timeout).collect::<Vec<_>>()
        };
        let known = Number::Known;
        assert_eq!(
            timeouts(
                "if a; then exec vllm serve m --shutdown-timeout 90; else exec vllm serve m; fi"
            ),
            [known(90), Number::Absent]
        );
        assert_eq!(
            timeouts(
                "vllm serve --help | grep -q shutdown-timeout; pgrep -f vllm serve; exec vllm serve m --shutdown-timeout 90"
            ),
            [known(90)]
        );
        assert_eq!(
            timeouts(
                "if a; then exec vllm serve m --shutdown-timeout 9; fi; exec vllm serve n --shutdown-timeout=9"
            ),
            [known(9)],
            "alike"
        );
        assert_eq!(
            timeouts(
                "case $X in a) exec vllm serve m --shutdown-timeout 9;; *) exec vllm serve m; esac"
            ),
            [known(9), Number::Absent]
        );
        assert_eq!(
            timeouts(
                "if a; then exec vllm serve m --headless; fi; exec vllm serve n --shutdown-timeout 9"
            ),
            [known(9)]
        );
        assert_eq!(
            timeouts("A='--shutdown-timeout 9'; eval \"exec vllm serve \"m\" n ${A} \\\n $MORE\""),
            [Number::Open("MORE".to_owned())]
        );
    }

    #[test]
    fn what_several_arguments_become_is_unknown() {
        assert_eq!(timeout(&[], &["m", "$(S)"]), Number::Open("S".into()));
        assert_eq!(timeout(&[], &["$(S)", "--shutdown-timeout", "9"]), Number::Known(9));
        let script = |script: &str| timeout(&["sh", "-c", script], &[]);
        assert_eq!(
            script("exec vllm serve m --shutdown-timeout 9 $EXTRA"),
            Number::Open("EXTRA".into())
        );
        assert_eq!(
            script("exec vllm serve m --shutdown-timeout 9 \"${S}\""),
            Number::Open("S".into())
        );
        assert_eq!(script("exec vllm serve $MODEL -tp $TP --shutdown-timeout 9"), Number::Known(9));
    }

    #[test]
    fn what_is_no_server_is_none() {
        assert_eq!(engine(&container(&["sleep", "infinity"], &[])), None);
        let mut other = container(&["sh", "-c", "echo vllm serve m"], &[]);
        other.image = Some("busybox:1.37".into());
        assert_eq!(engine(&other), None);
        other.command = vec!["vllm".into(), "serve".into()];
        assert!(engine(&other).is_some(), "whatever the image is called");
        let mut no_entrypoint = container(&[], &["--model", "m"]);
        no_entrypoint.image = Some("quay.io/ascend/vllm-ascend:v0.18.0".into());
        assert_eq!(first(&no_entrypoint).launch, Launch::Hidden);
        no_entrypoint.args = vec!["vllm".into(), "serve".into(), "m".into()];
        assert_eq!(first(&no_entrypoint).launch, Launch::Direct);
    }

    #[test]
    fn several_api_servers_are_seen() {
        let read = |args: &[&str]| first(&container(&[], args));
        assert_eq!(read(&["-asc", "2"]).api_servers, Number::Known(2));
        assert_eq!(read(&["--api_server_count=4"]).api_servers, Number::Known(4));
        assert_eq!(read(&["-dp=2"]).ranks, Number::Known(2));
        assert_eq!(read(&["-dp=2", "--data-parallel-external-lb"]).ranks, Number::Absent);
    }
}
