//! The scanner against a plain reading of the standard, on any bytes in any split.

use super::{Frame, FrameKind, Scanner};
use bytes::Bytes;
use proptest::prelude::*;

/// Name and data of a dispatched event.
type Dispatched = (Option<Vec<u8>>, Vec<u8>);

/// What a client dispatches, written after the standard: the whole text, line by line.
fn reference(stream: &[u8]) -> Vec<Dispatched> {
    let mut text = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let (mut events, mut name, mut data) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(end) = text.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        let line = &text[..end];
        text = &text[end + if text[end..].starts_with(b"\r\n") { 2 } else { 1 }..];
        if line.is_empty() {
            let (name, mut data): (Vec<u8>, Vec<u8>) =
                (std::mem::take(&mut name), std::mem::take(&mut data));
            if data.pop().is_some() {
                events.push((Some(name).filter(|name| !name.is_empty()), data));
            }
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"event" => name = value.to_vec(),
            b"data" => data.extend_from_slice(&[value, b"\n"].concat()),
            _ => {}
        }
    }
    events
}

fn frames(max_event: usize, chunks: &[Bytes]) -> Vec<Frame> {
    let mut scanner = Scanner::new(max_event);
    let mut frames = Vec::new();
    for chunk in chunks {
        let position = scanner.position();
        scanner.push(chunk.clone());
        assert_eq!(scanner.position(), position + chunk.len() as u64);
        while let Some(frame) = scanner.next() {
            frames.push(frame);
        }
        assert!(scanner.pending() <= max_event, "what is held is bounded");
    }
    frames.extend(scanner.finish());
    assert!(scanner.finish().is_none());
    frames
}

fn dispatched(frames: &[Frame]) -> Vec<Dispatched> {
    let events = frames.iter().filter(|frame| frame.kind == FrameKind::Event);
    events
        .filter_map(|frame| {
            let event = frame.event();
            Some((event.name.map(<[u8]>::to_vec), event.data?.into_owned()))
        })
        .collect()
}

/// Start, kind, bytes; the parts of an opaque event joined.
fn joined(frames: Vec<Frame>) -> Vec<(u64, String, Vec<u8>)> {
    let mut joined: Vec<(u64, String, Vec<u8>)> = Vec::new();
    for frame in frames {
        let kind = match &frame.kind {
            FrameKind::Opaque { first: false, .. } => {
                joined.last_mut().expect("parts follow a first").2.extend_from_slice(&frame.bytes);
                continue;
            }
            FrameKind::Opaque { name, .. } => format!("opaque {name:?}"),
            kind => format!("{kind:?}"),
        };
        joined.push((frame.start, kind, frame.bytes.to_vec()));
    }
    joined
}

fn split(stream: &[u8], cuts: &[usize]) -> Vec<Bytes> {
    let stream = Bytes::copy_from_slice(stream);
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| stream.slice(pair[0]..pair[1])).collect()
}

/// Bytes that are likely to mean something.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        &b"data"[..],
        b"event",
        b"id",
        b"retry",
        b":",
        b": ",
        b" ",
        b"x",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\r\r",
        b"\r\n\r\n",
        b"\xef\xbb\xbf",
        b"\xef",
        b"\xbb",
        b"\0",
        b"\xff",
        b"7",
        b"data: x",
        b"data:y",
        b"event: e",
    ]);
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn events_are_those_of_the_standard(stream in stream(), cuts in any::<[usize; 6]>()) {
        let frames = frames(1 << 20, &split(&stream, &cuts));
        prop_assert_eq!(dispatched(&frames), reference(&stream));
    }

    #[test]
    fn frames_are_the_stream_however_it_is_split(
        stream in stream(), cuts in any::<[usize; 6]>(), max_event in 1..60usize,
    ) {
        let parts = frames(max_event, &split(&stream, &cuts));
        let mut at = 0;
        for frame in &parts {
            prop_assert_eq!(frame.start, at as u64);
            prop_assert!(!frame.bytes.is_empty());
            prop_assert_eq!(&frame.bytes[..], &stream[at..at + frame.bytes.len()]);
            at += frame.bytes.len();
        }
        prop_assert_eq!(at, stream.len());
        let whole = frames(max_event, &split(&stream, &[]));
        prop_assert_eq!(joined(parts), joined(whole));
    }
}

#[test]
fn an_event_inside_a_chunk_is_a_slice_of_it() {
    let chunk = Bytes::from_static(b"data: a\n\ndata: b\n\ndata: c");
    let frames = frames(100, std::slice::from_ref(&chunk));
    assert_eq!(frames.len(), 3);
    assert_eq!(frames[0].bytes.as_ptr(), chunk.as_ptr());
    assert_eq!(frames[1].bytes.as_ptr(), chunk[9..].as_ptr());
    assert_eq!(frames[2].kind, FrameKind::Rest);
}

#[test]
fn the_line_feed_of_a_blank_line_is_apart() {
    for chunks in [vec![&b"data: a\r\n\r\nx\n\n"[..]], vec![b"data: a\r\n\r", b"\nx\n\n"]] {
        let chunks: Vec<_> = chunks.into_iter().map(Bytes::from_static).collect();
        let frames = frames(100, &chunks);
        let cut: Vec<_> = frames.iter().map(|frame| (&frame.bytes[..], &frame.kind)).collect();
        assert_eq!(
            cut,
            [
                (&b"data: a\r\n\r"[..], &FrameKind::Event),
                (b"\n", &FrameKind::LineFeed),
                (b"x\n\n", &FrameKind::Event),
            ]
        );
    }
}

#[test]
fn a_megabyte_in_single_bytes_is_searched_once() {
    let mut stream = b"data: ".to_vec();
    stream.resize(1 << 20, b'x');
    stream.extend_from_slice(b"\n\n");
    let stream = Bytes::from(stream);
    let chunks: Vec<_> = (0..stream.len()).map(|at| stream.slice(at..=at)).collect();
    let frames = frames(2 << 20, &chunks);
    assert_eq!((frames.len(), frames[0].bytes.len()), (1, stream.len()));
}

#[test]
fn pending_bytes_can_be_taken_back() {
    let mut scanner = Scanner::new(100);
    scanner.push(Bytes::from_static(b"data: a\n\nda"));
    assert!(scanner.next().is_some() && scanner.next().is_none());
    scanner.push(Bytes::from_static(b"ta"));
    assert_eq!(scanner.take_pending().concat(), b"data");
    assert_eq!((scanner.pending(), scanner.position()), (0, 13));
}

#[test]
fn chunks_may_be_pushed_ahead() {
    let mut scanner = Scanner::new(100);
    scanner.push(Bytes::from_static(b"data: a\n"));
    scanner.push(Bytes::from_static(b"\ndata: b\n\n"));
    assert_eq!(scanner.next().unwrap().bytes, &b"data: a\n\n"[..]);
    assert_eq!(scanner.next().unwrap().start, 9);
    assert!(scanner.next().is_none());
}
