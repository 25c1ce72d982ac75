//! Events to bytes: SSE lines, chunks, and where they are cut. No I/O.

use crate::engine::faults::{Cut, Faults};
use crate::engine::wire::Event;
use crate::http1::write_chunk;

/// The body ended at the byte a fault asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BytesCut;

/// Collects the chunked bytes of a stream.
#[derive(Debug)]
pub(super) struct Writer {
    faults: Faults,
    out: Vec<u8>,
    events: u64,
    body: u64,
}

impl Writer {
    pub(super) fn new(faults: &Faults) -> Self {
        Self { faults: faults.clone(), out: Vec::new(), events: 0, body: 0 }
    }

    /// Events so far.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Bytes not yet taken.
    pub(super) fn pending(&self) -> usize {
        self.out.len()
    }

    /// The bytes to send.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Appends an event as one chunk.
    pub(super) fn event(&mut self, event: &Event) -> Result<(), BytesCut> {
        let mut bytes = Vec::with_capacity(event.data.len() + 32);
        if self.events == 0 && self.faults.bom {
            bytes.extend_from_slice("\u{feff}".as_bytes());
        }
        self.events += 1;
        if self.faults.comments {
            self.line(&mut bytes, ": comment", "");
        }
        if let Some(name) = event.name {
            self.field(&mut bytes, "event", name);
        }
        match split_point(&event.data).filter(|_| self.faults.split_data) {
            Some(at) => {
                self.field(&mut bytes, "data", &event.data[..at]);
                self.field(&mut bytes, "data", &event.data[at..]);
            }
            None => self.field(&mut bytes, "data", &event.data),
        }
        self.line(&mut bytes, "", "");
        self.body_bytes(&bytes)
    }

    /// Appends a keep-alive comment as one chunk.
    pub(super) fn keep_alive(&mut self) -> Result<(), BytesCut> {
        let mut bytes = Vec::new();
        self.line(&mut bytes, ": keep-alive", "");
        self.line(&mut bytes, "", "");
        self.body_bytes(&bytes)
    }

    /// Appends the proper end of the body.
    pub(super) fn end(&mut self) {
        self.out.extend_from_slice(b"0\r\n\r\n");
    }

    fn field(&self, bytes: &mut Vec<u8>, name: &str, value: &str) {
        bytes.extend_from_slice(name.as_bytes());
        self.line(bytes, if self.faults.no_space { ":" } else { ": " }, value);
    }

    fn line(&self, bytes: &mut Vec<u8>, a: &str, b: &str) {
        bytes.extend_from_slice(a.as_bytes());
        bytes.extend_from_slice(b.as_bytes());
        bytes.extend_from_slice(self.faults.line_end.bytes());
    }

    fn body_bytes(&mut self, bytes: &[u8]) -> Result<(), BytesCut> {
        let room = match self.faults.cut {
            Some(Cut::Bytes(n)) => usize::try_from(n - self.body).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let sent = &bytes[..bytes.len().min(room)];
        self.body += sent.len() as u64;
        let chunk = self.faults.chunk_bytes.unwrap_or(usize::MAX);
        sent.chunks(chunk).for_each(|piece| write_chunk(&mut self.out, piece));
        if bytes.len() >= room { Err(BytesCut) } else { Ok(()) }
    }
}

/// A place near the middle of a JSON text where a line break changes nothing: after a comma
/// outside of strings.
fn split_point(json: &str) -> Option<usize> {
    let (mut in_string, mut escaped) = (false, false);
    let commas = json.bytes().enumerate().filter_map(move |(at, byte)| {
        let comma = byte == b',' && !in_string;
        match byte {
            b'"' if !escaped => in_string = !in_string,
            _ => {}
        }
        escaped = byte == b'\\' && !escaped;
        comma.then_some(at + 1)
    });
    commas.min_by_key(|at| at.abs_diff(json.len() / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"a":"x,y\",z","b":1}"#;

    fn written(query: &str, events: &[Event]) -> (String, Result<(), BytesCut>) {
        let mut writer = Writer::new(&Faults::parse(query).unwrap());
        let result = events.iter().try_for_each(|e| writer.event(e));
        (String::from_utf8(writer.take()).unwrap(), result)
    }

    fn body(query: &str, data: &str, name: Option<&'static str>) -> String {
        let (bytes, result) = written(query, &[Event { name, data: data.into() }]);
        assert_eq!(result, Ok(()));
        let (len, rest) = bytes.split_once("\r\n").unwrap();
        let body = rest.strip_suffix("\r\n").unwrap();
        assert_eq!(usize::from_str_radix(len, 16).unwrap(), body.len());
        body.to_owned()
    }

    #[test]
    fn forms_of_an_event() {
        assert_eq!(body("", "{}", None), "data: {}\n\n");
        assert_eq!(body("", "{}", Some("x")), "event: x\ndata: {}\n\n");
        assert_eq!(body("no-space", "{}", Some("x")), "event:x\ndata:{}\n\n");
        assert_eq!(body("line-end=crlf", "{}", None), "data: {}\r\n\r\n");
        assert_eq!(body("line-end=cr&comments", "{}", None), ": comment\rdata: {}\r\r");
        assert_eq!(body("bom", "{}", None), "\u{feff}data: {}\n\n");
        assert_eq!(
            body("split-data", JSON, None),
            "data: {\"a\":\"x,y\\\",z\",\ndata: \"b\":1}\n\n"
        );
        assert_eq!(body("split-data", "[DONE]", None), "data: [DONE]\n\n");
    }

    #[test]
    fn small_chunks_and_cuts_at_a_byte() {
        let event = Event { name: None, data: "12345".into() };
        let (bytes, _) = written("chunk-bytes=8", std::slice::from_ref(&event));
        assert_eq!(bytes, "8\r\ndata: 12\r\n5\r\n345\n\n\r\n");
        let two = [event.clone(), event.clone()];
        for (at, expected) in [
            (0, ""),
            (3, "3\r\ndat\r\n"),
            (13, "d\r\ndata: 12345\n\n\r\n"),
            (15, "d\r\ndata: 12345\n\n\r\n2\r\nda\r\n"),
        ] {
            let (bytes, result) = written(&format!("cut=bytes:{at}"), &two);
            assert_eq!((bytes.as_str(), result), (expected, Err(BytesCut)), "{at}");
        }
        assert_eq!(written("cut=bytes:27", &two).1, Ok(()));
    }
}
