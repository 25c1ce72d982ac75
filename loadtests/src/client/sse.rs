//! A reader of server-sent events, written for this client alone: a fault in the product's own
//! scanner cannot hide behind the same fault here.

/// Longest line or event that is read; a longer one is a fault of the server.
const LIMIT: usize = 8 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event:` field; empty if there was none.
    pub name: &'a str,
    /// The `data:` fields, joined by line feeds.
    pub data: &'a [u8],
}

/// A line or an event is larger than the client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// Splits a stream of bytes into events, however the bytes are cut.
#[derive(Debug, Default)]
pub struct SseReader {
    line: Vec<u8>,
    name: String,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_cr: bool,
    started: bool,
}

impl SseReader {
    /// Reads on, calling `on` for each event that is complete (its blank line was read).
    ///
    /// # Errors
    /// [`TooLong`] when a line or an event exceeds 8 MiB.
    pub fn feed(&mut self, bytes: &[u8], on: &mut impl FnMut(Event<'_>)) -> Result<(), TooLong> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            let (part, tail) = rest.split_at(end);
            let feed_of_cr = tail[0] == b'\n' && self.after_cr && part.is_empty();
            if !feed_of_cr {
                self.push(part)?;
                self.end_line(on)?;
            }
            self.after_cr = tail[0] == b'\r';
            rest = &tail[1..];
        }
        if !rest.is_empty() {
            self.after_cr = false;
            self.push(rest)?;
        }
        Ok(())
    }

    fn push(&mut self, part: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + part.len() > LIMIT {
            return Err(TooLong);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self, on: &mut impl FnMut(Event<'_>)) -> Result<(), TooLong> {
        let mut line = std::mem::take(&mut self.line);
        if !self.started {
            self.started = true;
            if line.starts_with(&[0xef, 0xbb, 0xbf]) {
                line.drain(..3);
            }
        }
        if line.is_empty() {
            self.dispatch(on);
        } else {
            self.field(&line)?;
        }
        line.clear();
        self.line = line;
        Ok(())
    }

    fn field(&mut self, line: &[u8]) -> Result<(), TooLong> {
        let (name, value) = match line.iter().position(|b| *b == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.data.len() + value.len() > LIMIT {
                    return Err(TooLong);
                }
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, on: &mut impl FnMut(Event<'_>)) {
        if self.has_data {
            on(Event { name: &self.name, data: &self.data });
        }
        self.has_data = false;
        self.data.clear();
        self.name.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parts: &[&[u8]]) -> Vec<(String, String)> {
        let (mut reader, mut events) = (SseReader::default(), Vec::new());
        for part in parts {
            reader
                .feed(part, &mut |e| {
                    events.push((e.name.to_owned(), String::from_utf8_lossy(e.data).into_owned()));
                })
                .unwrap();
        }
        events
    }

    fn event(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn every_cut_of_a_stream_gives_the_same_events() {
        let text = "\u{feff}: hello\r\ndata: {\"a\":\r\ndata:\"é\"}\r\n\r\nevent: error\ndata: x\n\n\
                    data\n\nid: 7\n\ndata: y\r\rdata: lost";
        let expected =
            vec![event("", "{\"a\":\n\"é\"}"), event("error", "x"), event("", ""), event("", "y")];
        let bytes = text.as_bytes();
        assert_eq!(read(&[bytes]), expected);
        let ones: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(&ones), expected);
        for cut in 1..bytes.len() {
            assert_eq!(read(&[&bytes[..cut], &bytes[cut..]]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn only_the_first_space_of_a_value_is_dropped() {
        assert_eq!(read(&[b"data:  two\n\n"]), [event("", " two")]);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut reader = SseReader::default();
        let part = vec![b'x'; LIMIT / 2 + 1];
        assert_eq!(reader.feed(&part, &mut |_| {}), Ok(()));
        assert_eq!(reader.feed(&part, &mut |_| {}), Err(TooLong));
    }
}
