//! Parsing and dispatch; the real binary is driven by `tests/cli.rs`.

use super::*;
use std::time::Duration;

fn parse(line: &str) -> Result<Command, clap::Error> {
    Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command)
}

#[test]
fn the_definitions_are_consistent() {
    use clap::CommandFactory;
    Cli::command().debug_assert();
}

#[test]
fn drain_has_a_default_admin_and_needs_a_wait() {
    let Ok(Command::Drain(args)) = parse("streamgate drain --wait 1m30s --endpoint 10.0.0.7:8000")
    else {
        panic!("not a drain")
    };
    assert_eq!(args.admin, "http://127.0.0.1:9180");
    assert_eq!(args.endpoint.as_deref(), Some("10.0.0.7:8000"));
    assert_eq!(args.wait, Duration::from_secs(90));
    assert!(parse("streamgate drain").is_err());
    assert!(parse("streamgate drain --wait 90").is_err());
    assert!(parse("streamgate drain --wait 1s --endpoint nowhere").is_err());
}

#[test]
fn check_takes_many_manifests() {
    let line = "streamgate check --config c.yaml --manifests a.yaml b.yaml --json";
    let Ok(Command::Check(args)) = parse(line) else { panic!("not a check") };
    assert_eq!(args.manifests.len(), 2);
    assert!(args.json);
    let Ok(Command::Check(args)) = parse("streamgate check --manifests -") else {
        panic!("manifests alone are enough")
    };
    assert_eq!(args.config, None);
    assert!(parse("streamgate check").is_err());
    assert!(parse("streamgate check --manifests").is_err());
}

#[test]
fn the_commands_of_others_are_handed_over() {
    fn seen(code: u8) -> ExitCode {
        ExitCode::from(code)
    }
    let hooks = Hooks {
        serve: |args| seen(if args.config.as_os_str() == "c.yaml" { 10 } else { 0 }),
        drain: |args| seen(if args.wait == Duration::from_secs(3) { 11 } else { 0 }),
        status: |args| seen(if args.watch && !args.json { 12 } else { 0 }),
    };
    for (line, code) in [
        ("streamgate serve --config c.yaml", 10),
        ("streamgate drain --wait 3s", 11),
        ("streamgate status --watch", 12),
    ] {
        let got = run_with(line.split_whitespace().map(OsString::from), hooks);
        assert_eq!(got, ExitCode::from(code), "{line}");
    }
}
