//! The fields of one event.

use super::lines::Lines;
use std::borrow::Cow;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// What one event says. Bytes are not checked to be UTF-8: whoever reads `data` decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event<'a> {
    /// The last non-empty `event` field; without one the type is `message`.
    pub name: Option<&'a [u8]>,
    /// The `data` lines joined by LF; borrowed when there is one line. `None`: no `data` field, so
    /// that a client dispatches nothing (a comment, a blank line, a lone `event:` or `id:`).
    pub data: Option<Cow<'a, [u8]>>,
    /// The last `id` field without a NUL.
    pub id: Option<&'a [u8]>,
    /// The last `retry` field that is a number, in milliseconds.
    pub retry: Option<u64>,
}

impl<'a> Event<'a> {
    /// Read the lines of one event, with or without its final blank line. `first`: these are the
    /// first bytes of the stream, where a byte order mark is dropped. Unknown fields are ignored.
    pub fn parse(bytes: &'a [u8], first: bool) -> Self {
        let bytes = if first { bytes.strip_prefix(BOM).unwrap_or(bytes) } else { bytes };
        let mut event = Self::default();
        for line in Lines::new(bytes) {
            let (field, value) = split_field(line);
            match field {
                b"data" => event.push_data(value),
                b"event" => event.name = Some(value).filter(|name| !name.is_empty()),
                b"id" if !value.contains(&0) => event.id = Some(value),
                b"retry" => event.retry = number(value).or(event.retry),
                _ => {}
            }
        }
        event
    }

    fn push_data(&mut self, value: &'a [u8]) {
        match &mut self.data {
            None => self.data = Some(Cow::Borrowed(value)),
            Some(data) => {
                let joined = data.to_mut();
                joined.push(b'\n');
                joined.extend_from_slice(value);
            }
        }
    }
}

/// Field name and value; one space after the colon is dropped. A comment has an empty name.
fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b':', line) {
        None => (line, b""),
        Some(colon) => {
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(bytes: &[u8]) -> Option<Vec<u8>> {
        Event::parse(bytes, false).data.map(Cow::into_owned)
    }

    #[test]
    fn one_space_after_the_colon_is_dropped() {
        assert_eq!(data(b"data: x\n\n").unwrap(), b"x");
        assert_eq!(data(b"data:x\n\n").unwrap(), b"x");
        assert_eq!(data(b"data:  x\n\n").unwrap(), b" x");
        assert_eq!(data(b"data: a:b\n\n").unwrap(), b"a:b");
    }

    #[test]
    fn data_lines_are_joined_and_one_line_is_borrowed() {
        assert_eq!(data(b"data: a\ndata\ndata:b\n\n").unwrap(), b"a\n\nb");
        assert!(matches!(Event::parse(b"data: a\n\n", false).data, Some(Cow::Borrowed(b"a"))));
    }

    #[test]
    fn a_data_field_without_colon_dispatches_an_empty_message() {
        assert_eq!(data(b"data\n\n").unwrap(), b"");
        assert_eq!(data(b"event: x\n\n"), None);
        assert_eq!(data(b": keep-alive\n\n"), None);
        assert_eq!(data(b"\n"), None);
        assert_eq!(data(b"Data: case matters\n\n"), None);
        assert_eq!(data(b" data: no leading space\n\n"), None);
    }

    #[test]
    fn the_other_fields_follow_the_rules() {
        let event = Event::parse(
            b"event: first\r\nevent: last\r\nid: 7\r\nid: a\0b\r\nretry: 10\r\nretry: +1\r\nx: y\r\n\r\n",
            false,
        );
        assert_eq!(event.name, Some(&b"last"[..]));
        assert_eq!(event.id, Some(&b"7"[..]));
        assert_eq!(event.retry, Some(10));
        assert_eq!(Event::parse(b"event: x\nevent\ndata\n\n", false).name, None);
        assert_eq!(Event::parse(b"retry:\n\n", false).retry, None);
    }

    #[test]
    fn a_byte_order_mark_is_dropped_at_the_start_only() {
        let bytes = b"\xef\xbb\xbfdata: x\n\n";
        assert!(Event::parse(bytes, true).data.is_some());
        assert!(Event::parse(bytes, false).data.is_none());
    }
}
