//! Every captured stream gives what the table says, in any framing and any line ending.

use crate::fixture::{Answer, DEFAULT, Run, bytewise};
use crate::table::{CASES, Case, Decides};
use bytes::Bytes;
use streamgate::core::stream::Progress;

#[test]
fn the_table_names_every_captured_stream() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/vllm");
    let mut streams: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "raw"))
        .filter(|path| {
            let bytes = std::fs::read(path).unwrap();
            memchr::memmem::find(&bytes, b"content-type: text/event-stream").is_some()
        })
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    streams.sort();
    let mut known: Vec<_> = CASES.iter().map(|case| case.file.to_owned()).collect();
    known.sort();
    assert_eq!(streams, known);
}

#[test]
fn whole_streams_are_as_the_table_says() {
    for case in CASES {
        let answer = Answer::load(case.file);
        assert_eq!(answer.status, 200);
        check(case, &Run::whole(case.api, DEFAULT, &answer.chunks));
        check(case, &Run::once(case.api, DEFAULT, &answer.body()));
        check(case, &Run::whole(case.api, DEFAULT, &bytewise(&answer.body())));
    }
}

fn check(case: &Case, run: &Run) {
    let (file, tracker) = (case.file, &run.tracker);
    assert_eq!(tracker.verdict(), case.verdict, "{file}");
    assert_eq!(tracker.usage(), case.usage(), "{file}");
    assert_eq!(tracker.usage_missing(), case.usage_missing, "{file}");
    assert_eq!(tracker.events(), case.events, "{file}");
    assert_eq!(tracker.content_events(), case.content, "{file}");
    assert_eq!(tracker.unread_events(), 0, "{file}");
    let finish: Vec<_> =
        tracker.finish_reasons().iter().map(|finish| (finish.choice, &*finish.reason)).collect();
    assert_eq!(finish, case.finish, "{file}");
    let error = tracker.error().map(|error| (error.status, error.kind.as_deref().unwrap()));
    assert_eq!(error, case.error, "{file}");
    assert!(tracker.early_error().is_none() && !tracker.early_abort(), "{file}");
    assert_eq!(tracker.aborted(), matches!(case.decides, Decides::Abort(_)), "{file}");
    assert!(tracker.first_content() <= tracker.last_content(), "{file}");
    assert!(tracker.first_content().is_some(), "{file}");

    let body = Answer::load(case.file).body();
    let visible = body.len() - hidden_tail(case, &body);
    assert!(run.forwarded == body[..visible], "{file}");
    assert_eq!(tracker.is_sealed(), visible < body.len(), "{file}");
    assert!(!tracker.mid_event(), "{file}");
}

/// How many bytes at the end the client must not see.
fn hidden_tail(case: &Case, body: &[u8]) -> usize {
    match case.decides {
        Decides::Terminal(_) | Decides::Nothing => 0,
        Decides::Error(text) | Decides::Abort(text) => {
            let at = memchr::memmem::find(body, text.as_bytes()).unwrap();
            let event = memchr::memmem::rfind(&body[..at], b"\n\n").unwrap() + 2;
            body.len() - event
        }
    }
}

#[test]
fn delivered_tokens_are_bounded_from_below() {
    let tokens = |file| {
        let case = CASES.iter().find(|case| case.file == file).unwrap();
        Run::whole(case.api, DEFAULT, &Answer::load(file).chunks).tracker.tokens_at_least()
    };
    assert_eq!(tokens("chat_stream_usage.raw"), 4, "the report, not the events");
    assert_eq!(tokens("chat_stream.raw"), 4, "one token for each event");
    assert_eq!(tokens("error_midstream_messages_stream_engine_dead.raw"), 678);
    assert_eq!(tokens("abort_midstream_completions_sigterm_default.raw"), 399);
}

#[test]
fn progress_starts_with_the_first_content() {
    for case in CASES {
        let mut run = Run::new(case.api, DEFAULT);
        for chunk in &Answer::load(case.file).chunks {
            run.feed(chunk.clone());
            let tracker = &run.tracker;
            let expected = if tracker.terminal() {
                Progress::Terminal
            } else if tracker.content_events() > 0 {
                Progress::Progressed
            } else {
                Progress::Opening
            };
            assert_eq!(tracker.progress(), expected, "{}", case.file);
        }
    }
}

#[test]
fn an_event_inside_one_chunk_is_not_copied() {
    let answer = Answer::load("chat_stream.raw");
    let mut run = Run::new(streamgate::core::api::Api::Chat, DEFAULT);
    for chunk in &answer.chunks {
        let mut out = Vec::new();
        run.tracker.feed(chunk.clone(), std::time::Instant::now(), &mut out);
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].as_ptr(), chunk.as_ptr());
    }
    let body = answer.body();
    let mut out = Vec::new();
    Run::new(streamgate::core::api::Api::Chat, DEFAULT).tracker.feed(
        body.clone(),
        std::time::Instant::now(),
        &mut out,
    );
    assert_eq!(out.len(), 1, "neighbouring events go out as one slice");
    assert_eq!(out[0].as_ptr(), body.as_ptr());
}

/// The same stream with other line ends, a byte order mark, or no space after the colons.
fn variants(body: &[u8]) -> Vec<(&'static str, Bytes)> {
    let replace = |from: &str, to: &str| {
        Bytes::from(std::str::from_utf8(body).unwrap().replace(from, to).into_bytes())
    };
    vec![
        ("CRLF", replace("\n", "\r\n")),
        ("CR", replace("\n", "\r")),
        ("BOM", Bytes::from([b"\xef\xbb\xbf", body].concat())),
        ("no space", Bytes::from(without_spaces(body))),
        ("comments", replace("\n\n", "\n: note\nid: 7\nretry: 10\n\n\n")),
    ]
}

fn without_spaces(body: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(body).unwrap();
    let strip = |line: &str| line.replacen("data: ", "data:", 1).replacen("event: ", "event:", 1);
    text.split('\n').map(strip).collect::<Vec<_>>().join("\n").into_bytes()
}

#[test]
fn line_ends_marks_and_spaces_change_nothing() {
    for case in CASES {
        let body = Answer::load(case.file).body();
        let plain = Run::once(case.api, DEFAULT, &body);
        for (name, variant) in variants(&body) {
            let whole = Run::once(case.api, DEFAULT, &variant);
            assert_eq!(whole.facts(), plain.facts(), "{} {name}", case.file);
            assert!(variant.starts_with(&whole.forwarded), "{} {name}", case.file);
            if !plain.tracker.is_sealed() {
                assert!(whole.forwarded == variant, "{} {name}", case.file);
            }
            let bytewise = Run::whole(case.api, DEFAULT, &bytewise(&variant));
            assert_eq!(bytewise.facts(), plain.facts(), "{} {name}", case.file);
            assert!(bytewise.forwarded == whole.forwarded, "{} {name}", case.file);
        }
    }
}
