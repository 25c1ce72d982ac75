//! Streams no capture shows: what they mean and what of them passes.

use crate::fixture::{DEFAULT, Run, bytewise};
use bytes::Bytes;
use std::time::{Duration, Instant};
use streamgate::core::api::Api;
use streamgate::core::stream::{Progress, StreamTracker, TrackerOptions, Usage, Verdict};

const PASS_ABORT: TrackerOptions = TrackerOptions { hide_abort: false, ..DEFAULT };

const ROLE: &str = r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
const WORD: &str = r#"data: {"choices":[{"index":0,"delta":{"content":"w"}}]}"#;
const STOP: &str = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const ABORT: &str = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}"#;
const ERROR: &str = r#"data: {"error":{"message":"m","type":"T","code":503}}"#;
const DONE: &str = "data: [DONE]";

const START: &str =
    r#"data: {"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":0}}}"#;
const TEXT: &str =
    r#"data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"w"},"index":0}"#;
const NO_REASON: &str = r#"data: {"type":"message_delta","delta":{"stop_reason":null},"usage":{"input_tokens":9,"output_tokens":1}}"#;
const END_TURN: &str = r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}"#;
const PING: &str = r#"data: {"type":"ping"}"#;
const NOTE: &str = ": keep-alive";
const MESSAGE_STOP: &str = r#"data: {"type":"message_stop"}"#;

fn body(events: &[&str]) -> Bytes {
    Bytes::from(events.iter().map(|event| format!("{event}\n\n")).collect::<String>())
}

/// Run a stream in one chunk and byte by byte; the client must see its first `shown` events.
fn run(api: Api, options: TrackerOptions, events: &[&str], shown: usize) -> StreamTracker {
    let bytes = body(events);
    let whole = Run::once(api, options, &bytes);
    assert_eq!(whole.forwarded, body(&events[..shown]), "{events:?}");
    let single = Run::whole(api, options, &bytewise(&bytes));
    assert_eq!(single.facts(), whole.facts());
    assert_eq!(single.forwarded, whole.forwarded);
    whole.tracker
}

#[test]
fn an_empty_answer_that_ended_properly_is_complete() {
    let tracker = run(Api::Chat, DEFAULT, &[ROLE, STOP, DONE], 3);
    assert_eq!(tracker.verdict(), Verdict::Complete);
    assert_eq!((tracker.content_events(), tracker.first_content()), (0, None));
    let tracker = run(Api::Messages, DEFAULT, &[START, END_TURN, MESSAGE_STOP], 3);
    assert_eq!(tracker.verdict(), Verdict::Complete);
    let completed = r#"data: {"type":"response.completed","response":{"status":"completed"}}"#;
    let tracker = run(Api::Responses, DEFAULT, &[completed], 1);
    assert_eq!(tracker.verdict(), Verdict::Complete);
}

#[test]
fn a_terminal_event_alone_is_truncated_and_does_not_pass() {
    for (api, opening, terminal) in [
        (Api::Chat, ROLE, DONE),
        (Api::Completions, NOTE, DONE),
        (Api::Messages, START, MESSAGE_STOP),
    ] {
        for events in [&[terminal][..], &[opening, terminal]] {
            let tracker = run(api, DEFAULT, events, events.len() - 1);
            assert_eq!(tracker.verdict(), Verdict::Truncated);
            assert!(tracker.terminal() && tracker.is_sealed());
        }
    }
}

#[test]
fn content_and_a_terminal_event_without_a_finish_reason_are_truncated() {
    let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    for (api, events) in [
        (Api::Chat, &[ROLE, WORD, DONE][..]),
        (Api::Chat, &[ROLE, WORD, usage, DONE]),
        (Api::Messages, &[START, TEXT, MESSAGE_STOP]),
    ] {
        let tracker = run(api, DEFAULT, events, events.len() - 1);
        assert_eq!(tracker.verdict(), Verdict::Truncated);
        assert!(tracker.terminal() && tracker.is_sealed() && !tracker.aborted());
    }
    // Usage is another matter: not every engine reports it.
    let tracker = run(Api::Chat, DEFAULT, &[ROLE, WORD, STOP, DONE], 4);
    assert_eq!((tracker.verdict(), tracker.usage_missing()), (Verdict::Complete, true));
}

#[test]
fn nothing_at_all_is_truncated() {
    for api in [Api::Completions, Api::Chat, Api::Responses, Api::Messages] {
        let tracker = run(api, DEFAULT, &[], 0);
        assert_eq!(tracker.verdict(), Verdict::Truncated);
        assert_eq!(tracker.progress(), Progress::Opening);
    }
}

#[test]
fn an_error_first_is_early_and_an_error_later_is_not() {
    for events in [&[ERROR, DONE][..], &[ROLE, NOTE, ERROR, DONE]] {
        let tracker = run(Api::Chat, DEFAULT, events, events.len() - 2);
        assert_eq!(tracker.verdict(), Verdict::UpstreamError);
        assert_eq!(tracker.early_error().unwrap().status, Some(503));
    }
    for before in [WORD, STOP] {
        let tracker = run(Api::Chat, DEFAULT, &[ROLE, before, ERROR, DONE], 2);
        assert_eq!(tracker.verdict(), Verdict::UpstreamError);
        assert!(tracker.error().is_some() && tracker.early_error().is_none());
    }
}

#[test]
fn every_shape_of_error_ends_the_stream() {
    let named = "event: error\ndata: gone";
    for (api, error) in [
        (Api::Chat, named),
        (Api::Completions, named),
        (Api::Responses, named),
        (Api::Messages, named),
        (Api::Chat, r#"data: {"error":"gone"}"#),
        (Api::Chat, r#"data: {"object":"error","message":"gone","code":500}"#),
        (Api::Chat, r#"data: {"choices":[{"index":0,"finish_reason":"error"}]}"#),
        (Api::Responses, r#"data: {"type":"error","code":"x","message":"gone"}"#),
        (
            Api::Responses,
            r#"data: {"type":"response.failed","response":{"error":{"message":"gone"}}}"#,
        ),
        (Api::Responses, r#"data: {"type":"response.completed","response":{"status":"failed"}}"#),
        (Api::Responses, r#"data: {"error":{"message":"gone"}}"#),
        (Api::Messages, r#"data: {"type":"error","error":{"type":"overloaded_error"}}"#),
        (Api::Messages, r#"data: {"error":{"message":"gone"}}"#),
    ] {
        let tracker = run(api, PASS_ABORT, &[NOTE, error, DONE, MESSAGE_STOP], 1);
        assert_eq!(tracker.verdict(), Verdict::UpstreamError, "{api} {error}");
        assert!(tracker.early_error().is_some(), "{api} {error}");
    }
}

#[test]
fn a_null_error_is_none() {
    let chunk = r#"data: {"error":null,"choices":[{"index":0,"text":"w","finish_reason":"stop"}]}"#;
    let tracker = run(Api::Completions, DEFAULT, &[chunk, DONE], 2);
    assert_eq!(tracker.verdict(), Verdict::Complete);
}

#[test]
fn an_abort_before_content_is_early() {
    let tracker = run(Api::Chat, DEFAULT, &[ROLE, ABORT, DONE], 1);
    assert_eq!(tracker.verdict(), Verdict::Truncated);
    assert!(tracker.early_abort());
    let tracker = run(Api::Chat, DEFAULT, &[ROLE, WORD, ABORT, DONE], 2);
    assert!(tracker.aborted() && !tracker.early_abort());
    let tracker = run(Api::Chat, PASS_ABORT, &[ROLE, ABORT, DONE], 3);
    assert_eq!(tracker.verdict(), Verdict::Truncated);
}

#[test]
fn one_aborted_choice_ends_the_stream_for_all() {
    let other = r#"data: {"choices":[{"index":1,"delta":{"content":"w"}}]}"#;
    let other_stop = r#"data: {"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}"#;
    let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":3}}"#;
    let events = [WORD, other, ABORT, other, other_stop, usage, DONE];
    let tracker = run(Api::Chat, DEFAULT, &events, 2);
    assert_eq!(tracker.verdict(), Verdict::Truncated);
    assert_eq!(tracker.usage().completion, Some(3), "read though nothing passes");
    assert!(tracker.terminal());
    let tracker = run(Api::Chat, PASS_ABORT, &events, events.len());
    assert_eq!(tracker.verdict(), Verdict::Truncated);
}

#[test]
fn an_anthropic_end_without_reason_is_an_abort_when_the_stream_stops_there() {
    for (events, shown) in [
        (&[START, TEXT, NO_REASON, MESSAGE_STOP][..], 2),
        (&[START, TEXT, NO_REASON, PING, NOTE, MESSAGE_STOP], 2),
        (&[START, TEXT, NO_REASON], 2),
    ] {
        let tracker = run(Api::Messages, DEFAULT, events, shown);
        assert_eq!(tracker.verdict(), Verdict::Truncated);
        assert_eq!(tracker.usage().completion, Some(1));
        let tracker = run(Api::Messages, PASS_ABORT, events, events.len());
        assert_eq!(tracker.verdict(), Verdict::Truncated);
    }
    let tracker = run(Api::Messages, DEFAULT, &[START, NO_REASON, MESSAGE_STOP], 1);
    assert!(tracker.aborted());
}

#[test]
fn an_anthropic_usage_update_without_reason_is_not_an_end() {
    for events in [
        &[START, NO_REASON, TEXT, END_TURN, MESSAGE_STOP][..],
        &[START, TEXT, NO_REASON, PING, END_TURN, MESSAGE_STOP],
    ] {
        let tracker = run(Api::Messages, DEFAULT, events, events.len());
        assert_eq!(tracker.verdict(), Verdict::Complete);
        assert!(!tracker.aborted());
    }
}

#[test]
fn what_waits_for_the_next_event_is_bounded() {
    let options = TrackerOptions { max_event: 300, ..DEFAULT };
    let mut run = Run::new(Api::Messages, options);
    run.feed(body(&[START, TEXT, NO_REASON]));
    for _ in 0..100 {
        run.feed(body(&[NOTE]));
        assert!(run.tracker.pending_bytes() < 300 + 2 * 100);
    }
    assert!(run.tracker.withheld_bytes() == 0 && run.forwarded.ends_with(b": keep-alive\n\n"));
    run.feed(body(&[MESSAGE_STOP]));
    assert!(run.tracker.aborted() && run.tracker.is_sealed());
}

#[test]
fn a_responses_end_says_why() {
    let text = r#"data: {"type":"response.output_text.delta","delta":"w"}"#;
    for (end, verdict, reason) in [
        (r#"{"status":"completed"}"#, Verdict::Complete, "completed"),
        (
            r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}"#,
            Verdict::Complete,
            "max_output_tokens",
        ),
        (
            r#"{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}"#,
            Verdict::Complete,
            "content_filter",
        ),
        (r#"{"status":"incomplete","incomplete_details":null}"#, Verdict::Truncated, "incomplete"),
        (
            r#"{"status":"incomplete","incomplete_details":{"reason":"abort"}}"#,
            Verdict::Truncated,
            "abort",
        ),
        (r#"{"status":"cancelled"}"#, Verdict::Truncated, "cancelled"),
    ] {
        for kind in ["response.completed", "response.incomplete"] {
            let end = format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"response\":{end}}}");
            let shown = if verdict == Verdict::Complete { 2 } else { 1 };
            let tracker = run(Api::Responses, DEFAULT, &[text, &end], shown);
            assert_eq!(tracker.verdict(), verdict, "{end}");
            assert_eq!(&*tracker.finish_reasons()[0].reason, reason, "{end}");
            let tracker = run(Api::Responses, PASS_ABORT, &[text, &end], 2);
            assert_eq!(tracker.verdict(), verdict, "{end}");
        }
    }
}

#[test]
fn openings_are_no_progress_and_everything_else_is() {
    for (api, event, progressed) in [
        (Api::Chat, ROLE, false),
        (Api::Chat, NOTE, false),
        (Api::Chat, r#"data: {"choices":[],"prompt_filter_results":[]}"#, false),
        (Api::Chat, r#"data: {"choices":[{"delta":{"reasoning_content":"w"}}]}"#, true),
        (Api::Chat, r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#, true),
        (Api::Chat, STOP, true),
        (Api::Chat, "data: not json", true),
        (Api::Chat, "data: {}", true),
        (Api::Completions, r#"data: {"choices":[{"index":0,"text":""}]}"#, false),
        (Api::Completions, r#"data: {"choices":[{"index":0,"text":"w"}]}"#, true),
        (Api::Messages, START, false),
        (Api::Messages, PING, false),
        (
            Api::Messages,
            r#"data: {"type":"content_block_start","content_block":{"type":"text","text":""}}"#,
            false,
        ),
        (
            Api::Messages,
            r#"data: {"type":"content_block_start","content_block":{"type":"tool_use","name":"f"}}"#,
            true,
        ),
        (Api::Messages, "data: {\"type\":\"unheard_of\"}", true),
        (Api::Responses, "data: {\"type\":\"response.created\",\"response\":{}}", false),
        (Api::Responses, "data: {\"type\":\"response.queued\"}", false),
        (
            Api::Responses,
            r#"data: {"type":"response.output_item.added","item":{"type":"message"}}"#,
            false,
        ),
        (
            Api::Responses,
            r#"data: {"type":"response.output_item.added","item":{"type":"function_call"}}"#,
            true,
        ),
        (Api::Responses, r#"data: {"type":"response.reasoning_text.delta","delta":"w"}"#, true),
        (Api::Responses, "data: {\"type\":\"unheard_of\"}", true),
    ] {
        let expected = if progressed { Progress::Progressed } else { Progress::Opening };
        let tracker = run(api, DEFAULT, &[event], 1);
        assert_eq!(tracker.progress(), expected, "{api} {event}");
    }
}

#[test]
fn bytes_after_the_terminal_event_pass_and_change_nothing() {
    let mut run = Run::new(Api::Chat, DEFAULT);
    run.feed(body(&[WORD, STOP, DONE, ERROR]));
    run.feed(Bytes::from_static(b"data: half an ev"));
    assert_eq!(
        run.forwarded,
        [&body(&[WORD, STOP, DONE, ERROR])[..], b"data: half an ev"].concat()
    );
    assert_eq!(run.tracker.verdict(), Verdict::Complete);
    run.finish();
    assert_eq!(run.tracker.verdict(), Verdict::Complete);
}

#[test]
fn a_last_event_without_its_blank_line_is_understood() {
    for (end, complete) in
        [("data: [DONE]\n", true), ("data: [DONE]", true), ("data: [DON", false), ("", false)]
    {
        let words = body(&[ROLE, WORD, STOP]);
        let bytes = Bytes::from([&words[..], end.as_bytes()].concat());
        let run = Run::once(Api::Chat, DEFAULT, &bytes);
        assert_eq!(run.tracker.verdict() == Verdict::Complete, complete, "{end:?}");
        assert_eq!(run.forwarded, if complete { bytes } else { words }, "{end:?}");
    }
}

#[test]
fn a_terminal_event_whose_data_is_cut_is_not_one() {
    let bytes = Bytes::from(format!("{TEXT}\n\nevent: message_stop\ndata: {{\"type\":\"mess"));
    let run = Run::once(Api::Messages, DEFAULT, &bytes);
    assert_eq!(run.tracker.verdict(), Verdict::Truncated);
    assert_eq!(run.forwarded, body(&[TEXT]));
}

#[test]
fn unexpected_json_never_fails_the_stream() {
    for data in [
        "null",
        "[]",
        "7",
        "\"x\"",
        "{\"choices\":7}",
        "{\"choices\":[7,null,[]]}",
        "{\"choices\":[{\"delta\":7,\"index\":-1,\"finish_reason\":{}}]}",
        "{\"usage\":[]}",
        "{\"usage\":{\"prompt_tokens\":\"1\",\"completion_tokens\":-1}}",
        "{\"type\":7}",
        "{\"type\":\"message_delta\",\"delta\":7}",
        "{\"type\":\"content_block_delta\",\"delta\":[]}",
        "{\"type\":\"response.output_text.delta\",\"delta\":{}}",
        "{\"type\":\"response.output_item.added\",\"item\":7}",
    ] {
        for api in [Api::Completions, Api::Chat, Api::Responses, Api::Messages] {
            let tracker = run(api, PASS_ABORT, &[&format!("data: {data}")], 1);
            assert_eq!(tracker.verdict(), Verdict::Truncated, "{api} {data}");
            assert_eq!(tracker.usage(), Usage::default(), "{api} {data}");
        }
    }
}

#[test]
fn text_that_is_not_utf8_is_read_as_a_client_reads_it() {
    let mut bytes =
        b"data: {\"choices\":[{\"index\":0,\"text\":\"\xff\",\"finish_reason\":\"stop\"}]}\n\n"
            .to_vec();
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    let bytes = Bytes::from(bytes);
    let run = Run::once(Api::Completions, DEFAULT, &bytes);
    assert_eq!(run.tracker.verdict(), Verdict::Complete);
    assert_eq!((run.tracker.content_events(), run.tracker.unread_events()), (1, 0));
    assert_eq!(run.forwarded, bytes);
}

#[test]
fn several_data_lines_are_one_event() {
    let chunk = "data: {\"choices\":\ndata: [{\"index\":0,\"text\":\"w\",\ndata:\"finish_reason\":\"length\"}]}";
    let tracker = run(Api::Completions, DEFAULT, &[chunk, DONE], 2);
    assert_eq!(tracker.verdict(), Verdict::Complete);
    assert_eq!(&*tracker.finish_reasons()[0].reason, "length");
}

#[test]
fn an_event_above_the_limit_passes_unread() {
    let options = TrackerOptions { max_event: 200, ..DEFAULT };
    let long = format!("data: {{\"choices\":[{{\"index\":0,\"text\":\"{}\"}}]}}", "w".repeat(500));
    let tracker = run(Api::Completions, options, &[&long, DONE], 2);
    assert_eq!(tracker.verdict(), Verdict::Complete);
    assert_eq!((tracker.unread_events(), tracker.content_events()), (1, 1));

    let filler = "x".repeat(500);
    let end = format!(
        "event: response.completed\ndata: {{\"type\":\"response.completed\",\"x\":\"{filler}\"}}"
    );
    let tracker = run(Api::Responses, options, &[&end], 1);
    assert_eq!(tracker.verdict(), Verdict::Complete);
    assert!(tracker.usage_missing());
    for api in [Api::Chat, Api::Responses, Api::Messages] {
        let error = format!("event: error\ndata: {filler}");
        let tracker = run(api, options, &[NOTE, &error, DONE], 1);
        assert_eq!(tracker.verdict(), Verdict::UpstreamError, "{api}");
        assert!(tracker.early_error().is_some());
    }
}

#[test]
fn a_cut_inside_a_large_event_is_told() {
    let options = TrackerOptions { max_event: 100, ..DEFAULT };
    let mut run = Run::new(Api::Chat, options);
    run.feed(Bytes::from(format!("data: {}", "x".repeat(300))));
    assert!(run.tracker.mid_event());
    assert_eq!(run.forwarded.len(), 306, "memory is bounded");
    run.feed(Bytes::from_static(b"yyy"));
    assert!(run.tracker.mid_event());
    let mut cut = run.clone();
    cut.finish();
    assert!(cut.tracker.mid_event());
    assert_eq!(cut.tracker.verdict(), Verdict::Truncated);
    run.feed(Bytes::from_static(b"\n\n"));
    assert!(!run.tracker.mid_event());
}

#[test]
fn times_are_those_of_the_first_and_last_content() {
    let start = Instant::now();
    let mut tracker = StreamTracker::new(Api::Chat, DEFAULT);
    let mut out = Vec::new();
    for (second, event) in [ROLE, WORD, NOTE, WORD, STOP, DONE].iter().enumerate() {
        tracker.feed(body(&[event]), start + Duration::from_secs(second as u64), &mut out);
    }
    assert_eq!(tracker.first_content(), Some(start + Duration::from_secs(1)));
    assert_eq!(tracker.last_content(), Some(start + Duration::from_secs(3)));
}

#[test]
fn usage_is_missing_only_when_it_could_have_come() {
    let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    assert!(run(Api::Chat, DEFAULT, &[WORD, STOP, DONE], 3).usage_missing());
    assert!(!run(Api::Chat, DEFAULT, &[WORD, STOP, usage, DONE], 4).usage_missing());
    assert!(!run(Api::Chat, DEFAULT, &[WORD], 1).usage_missing(), "not over");
    let start_only = &[
        START,
        TEXT,
        r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
        MESSAGE_STOP,
    ];
    let tracker = run(Api::Messages, DEFAULT, start_only, 4);
    assert!(tracker.usage_missing(), "what message_start reported is not the end");
    assert_eq!(tracker.tokens_at_least(), 1);
}

#[test]
fn a_running_report_of_several_choices_is_summed() {
    let report = |choice: u8, tokens: u8| {
        format!(
            r#"data: {{"choices":[{{"index":{choice},"delta":{{"content":"w"}}}}],"usage":{{"prompt_tokens":5,"completion_tokens":{tokens}}}}}"#
        )
    };
    let events = [report(0, 1), report(1, 1), report(0, 4), report(1, 2)];
    let events: Vec<_> = events.iter().map(String::as_str).collect();
    let tracker = run(Api::Chat, DEFAULT, &events, 4);
    assert_eq!(tracker.tokens_at_least(), 6);
    assert_eq!(tracker.usage().prompt, Some(5));
}

#[test]
fn text_given_only_at_the_end_counts_as_content() {
    let done = r#"data: {"type":"response.output_text.done","text":"w"}"#;
    let end =
        r#"data: {"type":"response.completed","response":{"status":"completed","output":[{}]}}"#;
    for events in [&[done, end][..], &[end]] {
        let tracker = run(Api::Responses, DEFAULT, events, events.len());
        assert_eq!(tracker.content_events(), 1);
    }
}
