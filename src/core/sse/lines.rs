//! Where lines end, when the bytes come in pieces.

use memchr::memchr2;

/// Finds the blank line that ends an event. Remembers what a chunk's end leaves open: a line that
/// has begun, and a CR whose LF may still come.
#[derive(Clone, Debug, Default)]
pub(super) struct Boundary {
    in_line: bool,
    after_cr: bool,
}

/// The end of an event inside the searched bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Offset after the line end of the blank line, without the LF of a CRLF.
    pub at: usize,
    /// The blank line ended with CR: an LF that follows belongs to it.
    pub cr: bool,
}

impl Boundary {
    /// Search the next bytes of the stream; `None` when they are used up first. After `Some` the
    /// state is that of a new event.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Option<End> {
        let mut at = 0;
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            at = usize::from(bytes[0] == b'\n');
        }
        while let Some(found) = memchr2(b'\n', b'\r', &bytes[at..]) {
            let blank = found == 0 && !self.in_line;
            let cr = bytes[at + found] == b'\r';
            self.in_line = false;
            at += found + 1;
            if blank {
                return Some(End { at, cr });
            }
            if cr {
                match bytes.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
        }
        self.in_line |= at < bytes.len();
        None
    }
}

/// The lines of one event, without their ends. A last line without an end is a line too.
#[derive(Clone, Debug)]
pub(super) struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let Some(end) = memchr2(b'\n', b'\r', self.0) else {
            return Some(std::mem::take(&mut self.0));
        };
        let line = &self.0[..end];
        let crlf = self.0[end..].starts_with(b"\r\n");
        self.0 = &self.0[end + 1 + usize::from(crlf)..];
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_line_ends_an_event_whatever_ends_the_lines() {
        for (bytes, at, cr) in [
            (&b"a\n\nb"[..], 3, false),
            (b"a\r\rb", 3, true),
            (b"a\r\n\r\nb", 4, true),
            (b"a\n\r\n", 3, true),
            (b"a\r\n\n", 4, false),
            (b"\n", 1, false),
        ] {
            assert_eq!(Boundary::default().find(bytes), Some(End { at, cr }), "{bytes:?}");
        }
        for bytes in [&b""[..], b"a", b"a\n", b"a\r", b"a\r\n", b"a\r\nb\n", b"a\nb\rc\r\n"] {
            assert_eq!(Boundary::default().find(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_cr_and_its_lf_in_different_chunks_are_one_line_end() {
        let mut boundary = Boundary::default();
        assert_eq!(boundary.find(b"a\r"), None);
        assert_eq!(boundary.find(b""), None);
        assert_eq!(boundary.find(b"\nb\r"), None, "CR LF is one end, not a blank line");
        assert_eq!(boundary.find(b"\n\n"), Some(End { at: 2, cr: false }));
    }

    #[test]
    fn a_line_that_began_in_an_earlier_chunk_is_not_blank() {
        let mut boundary = Boundary::default();
        assert_eq!(boundary.find(b"data"), None);
        assert_eq!(boundary.find(b"\n"), None);
        assert_eq!(boundary.find(b"\n"), Some(End { at: 1, cr: false }));
    }

    #[test]
    fn lines_are_split_at_each_kind_of_end() {
        let lines: Vec<_> = Lines::new(b"a\nb\rc\r\n\n\rd").collect();
        assert_eq!(lines, [&b"a"[..], b"b", b"c", b"", b"", b"d"]);
        assert_eq!(Lines::new(b"").count(), 0);
    }
}
