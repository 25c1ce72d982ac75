//! Words, what stays unknown, and text that no shell was meant to see.

use super::*;

fn vars() -> Vars {
    Vars::from([
        ("T".into(), Some("90".into())),
        ("FLAGS".into(), Some("--a 1".into())),
        ("S".into(), None),
    ])
}

fn seen(text: &str) -> Vec<Vec<String>> {
    let script = parse(text, &vars(), &[Word::plain("p1"), Word::plain("p 2")], false);
    let texts = |command: Simple| command.words.into_iter().map(|word| word.text).collect();
    script.commands.into_iter().map(texts).collect()
}

#[test]
fn words_are_read_as_a_shell_reads_them() {
    assert_eq!(seen("a 'b c' \"d $T\" e\\ f ''"), [["a", "b c", "d 90", "e f", ""]]);
    assert_eq!(
        seen("a --t=${T} ${N:-7} $FLAGS \"$FLAGS\""),
        [["a", "--t=90", "7", "--a", "1", "--a 1"]]
    );
    assert_eq!(seen("a \\\n  b # c\nd"), [vec!["a", "b"], vec!["d"]]);
    assert_eq!(seen("a 2>&1 >/dev/null <x b"), [["a", "b"]]);
    assert_eq!(seen("a \"$@\""), [["a", "p1", "p 2"]]);
    assert_eq!(
        seen("T=5; T+=6; declare -x U=7 V=8; a $T $U $V").last().unwrap(),
        &["a", "56", "7", "8"]
    );
    assert_eq!(
        seen("T=5 && V=8; a $T; export T=6 U=7\na $T $U $V"),
        [
            vec!["T=5"],
            vec!["V=8"],
            vec!["a", "5"],
            vec!["export", "T=6", "U=7"],
            vec!["a", "6", "7", "8"]
        ]
    );
    assert_eq!(
        seen("python3 - <<'EOF'\nx = 'a b'\nEOF\nb"),
        [vec!["python3", "-", "x = 'a b'\n"], vec!["b"]]
    );
}

#[test]
fn what_only_running_could_tell_is_unknown() {
    let script = parse("a $(b c $(d)) $S $NONE `e` ${T%x}", &vars(), &[], false);
    let inner: Vec<_> =
        script.commands.iter().map(|c| (c.words[0].text.as_str(), c.level)).collect();
    let of = |name| (name, Level::Output);
    assert_eq!(inner, [of("d"), of("b"), of("e"), ("a", Level::Script)]);
    let unknown: Vec<_> =
        script.commands[3].words[1..].iter().map(|w| w.unknown.as_deref()).collect();
    let output = Some("the output of a command");
    assert_eq!(unknown, [output, Some("S"), Some("NONE"), output, Some("T")]);
}

#[test]
fn loops_and_what_follows_are_seen() {
    let script = parse("while x; do sleep 1; done; a | b & c", &vars(), &[], false);
    assert!(script.loops);
    let seen: Vec<_> =
        script.commands.iter().map(|c| (c.words[0].text.as_str(), c.after)).collect();
    assert_eq!(
        seen,
        [
            ("x", After::Next),
            ("sleep", After::Next),
            ("a", After::Pipe),
            ("b", After::Background),
            ("c", After::End)
        ]
    );
}

#[test]
fn it_is_seen_who_waits_for_a_command_and_whether_it_runs() {
    use Runs::{Perhaps, Plainly, Unwaited};
    let runs = |text: &str| {
        let script = parse(text, &vars(), &[], false);
        script.commands.iter().map(|c| c.runs).collect::<Vec<_>>()
    };
    assert_eq!(runs("a && b & c"), [Unwaited, Unwaited, Plainly]);
    assert_eq!(runs("a; (b; c) & d"), [Plainly, Unwaited, Unwaited, Plainly]);
    assert_eq!(
        runs(
            "a; { b; c; } | d &
e"
        ),
        [Plainly, Unwaited, Unwaited, Unwaited, Plainly]
    );
    assert_eq!(
        runs(
            "x=$(a) &
b"
        ),
        [Unwaited, Unwaited, Plainly]
    );
    assert_eq!(
        runs("if a; then b; elif c; then d; else e; fi; f"),
        [Plainly, Perhaps, Perhaps, Perhaps, Perhaps, Plainly]
    );
    assert_eq!(runs("if a; then b; fi & c"), [Unwaited, Unwaited, Plainly]);
    assert_eq!(runs("a && { b; c; }; d"), [Plainly, Perhaps, Perhaps, Plainly]);
    assert_eq!(
        runs(
            "a &&
 b; c ||

 (d)
 e"
        ),
        [Plainly, Plainly, Plainly, Perhaps, Plainly]
    );
    let script = parse("! a && b || c; (d)", &vars(), &[], false);
    let seen: Vec<_> = script.commands.iter().map(|c| (c.after, c.negated, c.level)).collect();
    assert_eq!(
        seen,
        [
            (After::And, true, Level::Script),
            (After::Or, false, Level::Script),
            (After::Next, false, Level::Script),
            (After::Next, false, Level::Sub)
        ]
    );
}

#[test]
fn substitutions_are_read_to_a_depth() {
    let deep = format!("a {}b{}", "$(x ".repeat(20_000), ")".repeat(20_000));
    assert_eq!(parse(&deep, &vars(), &[], false).commands.len(), 9);
}

#[test]
fn assignments_that_may_not_happen_leave_a_value_unknown() {
    for text in [
        "T=0; [ -f x ] && T=90; a $T",
        "T=0; if [ -f x ]; then T=90; fi; a $T",
        "T=0; (T=90); a $T",
        "a $((5+10))",
        "T=(90 91); a ${T[@]}",
        "T=0; read -r T <<E\n90\nE\na $T",
        "T=0; printf -v T 90; a $T",
        "T=0; . /env; a $T",
    ] {
        let script = parse(text, &vars(), &[], false);
        let last = script.commands.last().unwrap();
        assert!(last.words[1].unknown.is_some(), "{text}: {last:?}");
    }
}

#[test]
fn what_does_not_run_is_told() {
    for text in [
        "a \"b",
        "a 'b",
        "a ;; b",
        "a )",
        "(a",
        "{ a",
        "if a; then b",
        "a &&",
        "a; done",
        "a <<E\n  E\nb",
        "f() { a; }",
        "a=(b c)",
        "case a in b) c;; esac",
        "a ${b",
        "a $(b",
    ] {
        assert!(parse(text, &vars(), &[], false).broken.is_some(), "{text}");
    }
    assert!(parse("a <<< b", &vars(), &[], true).broken.is_some());
    assert!(parse("a $(</b)", &vars(), &[], true).broken.is_some());
    assert_eq!(parse("a $(</b)", &vars(), &[], false).broken, None);
    for text in [
        "a; b;",
        "a &",
        "a &\n b",
        "if a; then b; fi",
        "(a); b",
        "{ a; }; b",
        "a <<-E\n\tE\nb",
        "a <<< b",
    ] {
        let script = parse(text, &vars(), &[], false);
        assert_eq!(script.broken, None, "{text}");
    }
    // What `sh` takes for a `&`.
    assert_eq!(parse("a &>/dev/null", &vars(), &[], true).commands[0].runs, Runs::Unwaited);
    assert_eq!(parse("a &>/dev/null", &vars(), &[], false).commands[0].runs, Runs::Plainly);
}

#[test]
fn what_grows_without_end_is_cut() {
    let doubling = format!("A=aaaaaaaa; {}a $A", "A=$A$A; ".repeat(60));
    assert!(parse(&doubling, &vars(), &[], false).broken.is_some());
    let words: Vec<_> = (0..20_000).map(|_| Word::plain("word")).collect();
    assert!(parse(&"a \"$@\"; ".repeat(2_000), &vars(), &words, false).broken.is_some());
    assert!(parse(&"a ".repeat(100_000), &vars(), &[], false).broken.is_some());
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_odd(text in "[ -~\n\\\\'\"$`(){}<>|&;#é]{0,200}") {
        parse(&text, &vars(), &[Word::plain("p")], false);
    }
}
