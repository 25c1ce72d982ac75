//! What is taken out of a stream, and that nothing else is.

use crate::fixture::{Answer, DEFAULT, Run, bytewise};
use crate::table::CASES;
use bytes::Bytes;
use streamgate::core::api::Api;
use streamgate::core::stream::{TrackerOptions, Verdict};

const HIDE_USAGE: TrackerOptions = TrackerOptions { hide_usage: true, ..DEFAULT };
const PASS_ABORT: TrackerOptions = TrackerOptions { hide_abort: false, ..DEFAULT };

/// `body` without the events that contain `text`.
fn without(body: &str, text: &str) -> String {
    body.split_inclusive("\n\n").filter(|event| !event.contains(text)).collect()
}

#[test]
fn only_the_extra_usage_chunk_is_removed() {
    for case in CASES.iter().filter(|case| case.verdict == Verdict::Complete) {
        let body = Answer::load(case.file).body();
        let text = std::str::from_utf8(&body).unwrap();
        let shown = without(text, "\"choices\":[],\"usage\":{");
        for chunks in [vec![body.clone()], bytewise(&body), Answer::load(case.file).chunks] {
            let run = Run::whole(case.api, HIDE_USAGE, &chunks);
            assert_eq!(std::str::from_utf8(&run.forwarded).unwrap(), shown, "{}", case.file);
            assert_eq!(run.tracker.verdict(), Verdict::Complete, "{}", case.file);
            assert_eq!(run.tracker.usage(), case.usage(), "hidden, yet counted: {}", case.file);
        }
    }
}

#[test]
fn a_hidden_chunk_takes_its_own_line_ends_with_it() {
    let body = Answer::load("chat_stream_usage.raw").body();
    for (from, to) in [("\n", "\r\n"), ("\n", "\r")] {
        let body = std::str::from_utf8(&body).unwrap().replace(from, to);
        let end = to.repeat(2);
        let shown: String =
            body.split_inclusive(&end).filter(|event| !event.contains("\"choices\":[]")).collect();
        let body = Bytes::from(body);
        for chunks in [vec![body.clone()], bytewise(&body)] {
            let run = Run::whole(Api::Chat, HIDE_USAGE, &chunks);
            assert_eq!(run.forwarded, shown.as_bytes(), "{to:?}");
        }
    }
}

#[test]
fn an_abort_passes_when_asked_and_is_truncated_all_the_same() {
    let answer = Answer::load("abort_midstream_completions_sigterm_default.raw");
    let run = Run::whole(Api::Completions, PASS_ABORT, &answer.chunks);
    assert!(run.forwarded == answer.body());
    assert_eq!(run.tracker.verdict(), Verdict::Truncated);
    assert!(run.tracker.aborted() && !run.tracker.is_sealed());
    assert_eq!(run.tracker.content_events(), 399);
}

#[test]
fn an_error_never_passes() {
    let answer = Answer::load("error_midstream_chat_stream_engine_dead.raw");
    let run = Run::whole(Api::Chat, PASS_ABORT, &answer.chunks);
    let shown = String::from_utf8(run.forwarded).unwrap();
    assert!(!shown.contains("error") && !shown.contains("[DONE]"));
    assert!(shown.ends_with("\n\n"));
}

#[test]
fn a_plain_stream_passes_unread() {
    for case in CASES {
        let answer = Answer::load(case.file);
        let run = Run::whole(Api::Plain, HIDE_USAGE, &answer.chunks);
        assert!(run.forwarded == answer.body());
        assert_eq!(run.tracker.verdict(), Verdict::Complete, "its body ended");
        assert_eq!((run.tracker.events(), run.tracker.tokens_at_least()), (0, 0));
        assert!(!run.tracker.usage_missing());
    }
    let mut run = Run::new(Api::Plain, DEFAULT);
    run.feed(Bytes::from_static(b"x"));
    assert_eq!(run.tracker.verdict(), Verdict::Truncated, "its body did not end");
}
