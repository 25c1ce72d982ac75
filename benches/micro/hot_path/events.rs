//! One stream through the tracker. Events are those of vLLM 0.32 (`tests/fixtures/vllm`); the
//! last event before the end is repeated until the stream is long enough to hide its ends.

use bytes::Bytes;
use divan::Bencher;
use divan::counter::ItemsCount;
use std::time::Instant;
use streamgate::core::api::Api;
use streamgate::core::stream::{StreamTracker, TrackerOptions, Verdict};

/// Events with content in a stream.
const EVENTS: usize = 256;
/// A merged chunk: what one read brings under load.
const MERGED: usize = 16 * 1024;

/// The streams: name, API, captured answer, a text that only the repeated event has.
const STREAMS: [(&str, Api, &str, &str); 5] = [
    ("chat", Api::Chat, "chat_stream.raw", r#"{"content":" w009"}"#),
    ("chat with usage", Api::Chat, "chat_stream_continuous_usage.raw", r#"{"content":" w009"}"#),
    ("completions", Api::Completions, "completions_stream.raw", r#""finish_reason":null"#),
    ("responses", Api::Responses, "responses_stream.raw", r#""delta":" w009""#),
    ("messages", Api::Messages, "messages_stream.raw", r#""text":" w009""#),
];

/// Each event in a chunk of its own, as engines send while they are not loaded.
#[divan::bench(args = STREAMS.map(|stream| stream.0))]
fn one_event_a_chunk(bencher: Bencher<'_, '_>, name: &str) {
    let (api, chunks) = stream(name);
    feed(bencher, api, &chunks);
}

/// Several events in a chunk, as they come while this proxy or the engine is loaded.
#[divan::bench(args = STREAMS.map(|stream| stream.0))]
fn merged(bencher: Bencher<'_, '_>, name: &str) {
    let (api, chunks) = stream(name);
    let whole = Bytes::from(chunks.concat());
    let at = (0..whole.len()).step_by(MERGED);
    let chunks: Vec<_> = at.map(|at| whole.slice(at..whole.len().min(at + MERGED))).collect();
    feed(bencher, api, &chunks);
}

fn feed(bencher: Bencher<'_, '_>, api: Api, chunks: &[Bytes]) {
    let now = Instant::now();
    bencher
        .counter(ItemsCount::new(EVENTS))
        .with_inputs(|| (StreamTracker::new(api, TrackerOptions::default()), Vec::with_capacity(8)))
        .bench_local_values(|(mut tracker, mut out)| {
            for chunk in chunks {
                tracker.feed(chunk.clone(), now, &mut out);
                out.clear();
            }
            assert_eq!(tracker.verdict(), Verdict::Complete);
            tracker
        });
}

fn stream(name: &str) -> (Api, Vec<Bytes>) {
    let known = STREAMS.iter().find(|stream| stream.0 == name);
    let (_, api, file, repeated) = known.expect("a name of the table");
    let path = format!("{}/../../tests/fixtures/vllm/{file}", env!("CARGO_MANIFEST_DIR"));
    let raw = std::fs::read(&path).expect("the captured answers are part of the repository");
    let mut chunks = dechunk(raw.into());
    let has = |chunk: &Bytes| memchr::memmem::find(chunk, repeated.as_bytes()).is_some();
    let at = chunks.iter().position(has).expect("the capture has the repeated event");
    let event = chunks[at].clone();
    chunks.splice(at..at, vec![event; EVENTS]);
    (*api, chunks)
}

/// The chunks of a captured answer.
fn dechunk(mut rest: Bytes) -> Vec<Bytes> {
    let mut chunks = Vec::new();
    let head = memchr::memmem::find(&rest, b"\r\n\r\n").expect("a head");
    rest = rest.slice(head + 4..);
    loop {
        let line = memchr::memmem::find(&rest, b"\r\n").expect("a chunk");
        let size = std::str::from_utf8(&rest[..line]).expect("digits");
        let size = usize::from_str_radix(size, 16).expect("a chunk size");
        if size == 0 {
            return chunks;
        }
        chunks.push(rest.slice(line + 2..line + 2 + size));
        rest = rest.slice(line + 4 + size..);
    }
}
