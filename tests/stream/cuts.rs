//! Every captured stream, cut at every byte.

use crate::fixture::{Answer, DEFAULT, Run};
use crate::table::{CASES, Case, Decides};
use bytes::Bytes;
use std::time::Instant;
use streamgate::core::stream::{StreamTracker, Verdict};

/// Where things are in a capture, found by searching its bytes.
struct Map {
    /// First byte the client must not see.
    hidden: usize,
    /// The deciding event: it has said enough at `said`, its blank line at `ended`.
    said: usize,
    ended: usize,
}

impl Map {
    fn of(case: &Case, body: &[u8]) -> Self {
        let (text, hides) = match case.decides {
            Decides::Terminal(text) => (text, false),
            Decides::Error(text) | Decides::Abort(text) => (text, true),
            Decides::Nothing => {
                let never = usize::MAX;
                return Self { hidden: body.len(), said: never, ended: never };
            }
        };
        let at = memchr::memmem::find(body, text.as_bytes()).unwrap();
        let start = memchr::memmem::rfind(&body[..at], b"\n\n").map_or(0, |end| end + 2);
        let ended = start + memchr::memmem::find(&body[start..], b"\n\n").unwrap() + 2;
        // An error that is named by its field is one from its first byte of data.
        let named = text == "event: error\n";
        let said = if named { start + "event: error\ndata".len() } else { ended - 2 };
        Self { hidden: if hides { start } else { body.len() }, said, ended }
    }

    fn verdict(&self, case: &Case, decided: bool) -> Verdict {
        if decided { case.verdict } else { Verdict::Truncated }
    }
}

/// Ask for the verdict of a connection that breaks, and of a body that ends cleanly, after each
/// byte; and check that what was forwarded is whole events from the start of the stream.
fn cut_everywhere(case: &Case, body: &Bytes) {
    let map = Map::of(case, body);
    let mut tracker = StreamTracker::new(case.api, DEFAULT);
    let (mut forwarded, mut whole_events) = (0, 0);
    let mut out = Vec::new();
    for cut in 1..=body.len() {
        out.clear();
        tracker.feed(body.slice(cut - 1..cut), Instant::now(), &mut out);
        for bytes in &out {
            assert_eq!(bytes[..], body[forwarded..forwarded + bytes.len()], "{}", case.file);
            forwarded += bytes.len();
        }
        if body[..cut].ends_with(b"\n\n") {
            whole_events = cut;
        }
        assert_eq!(forwarded, whole_events.min(map.hidden), "{} cut at {cut}", case.file);
        let broken = map.verdict(case, cut >= map.ended);
        assert_eq!(tracker.verdict(), broken, "{} broken at {cut}", case.file);
        assert!(!tracker.mid_event());

        let mut ended = tracker.clone();
        out.clear();
        ended.finish_input(&mut out);
        let clean = map.verdict(case, cut >= map.said);
        assert_eq!(ended.verdict(), clean, "{} ended at {cut}", case.file);
        assert_eq!(ended.pending_bytes(), 0);
        let rest: usize = out.iter().map(Bytes::len).sum();
        let last_event = clean == Verdict::Complete && cut < map.ended;
        assert_eq!(forwarded + rest, if last_event { cut } else { forwarded }, "{cut}");
    }
}

#[test]
fn short_streams_cut_at_every_byte() {
    for case in CASES {
        let body = Answer::load(case.file).body();
        if body.len() < 10_000 {
            cut_everywhere(case, &body);
        }
    }
}

/// The long captures, one test each so that they run side by side.
macro_rules! long_streams {
    ($($test:ident: $file:literal,)*) => {
        $(#[test]
        fn $test() {
            let case = CASES.iter().find(|case| case.file == $file).unwrap();
            cut_everywhere(case, &Answer::load(case.file).body());
        })*

        #[test]
        fn no_long_stream_is_forgotten() {
            for case in CASES {
                let long = Answer::load(case.file).body().len() >= 10_000;
                assert_eq!(long, [$($file),*].contains(&case.file), "{}", case.file);
            }
        }
    };
}

long_streams! {
    abort_cut_at_every_byte: "abort_midstream_completions_sigterm_default.raw",
    cut_completions_cut_at_every_byte: "cut_midstream_completions_timeout_expired.raw",
    cut_responses_cut_at_every_byte: "cut_midstream_responses_stream.raw",
    chat_error_cut_at_every_byte: "error_midstream_chat_stream_engine_dead.raw",
    messages_error_cut_at_every_byte: "error_midstream_messages_stream_engine_dead.raw",
}

#[test]
fn the_same_bytes_twice_through_one_clone_agree() {
    let answer = Answer::load("chat_stream_usage.raw");
    let body = answer.body();
    for cut in 0..body.len() {
        let mut run = Run::new(streamgate::core::api::Api::Chat, DEFAULT);
        run.feed(body.slice(..cut));
        let mut clone = run.clone();
        run.feed(body.slice(cut..));
        clone.feed(body.slice(cut..));
        assert_eq!(run.facts(), clone.facts());
        assert_eq!(run.forwarded, body);
    }
}
