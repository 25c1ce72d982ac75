//! A strict JSON scanner over borrowed text (RFC 8259): it validates and reports spans, and
//! copies nothing. Every byte is looked at a constant number of times.
//!
//! Stricter than Python's `json`, which vLLM uses, in two places, so that no body means one thing
//! here and another at the engine: `NaN`/`Infinity` and unpaired surrogate escapes are refused.

use super::bad::BadRequest;
use memchr::memchr2;

/// What kind of value starts at the scanner's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

/// Where and why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Byte offset in the body.
    pub at: usize,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Expected(&'static str),
    Ended,
    Control,
    Escape,
    Surrogate,
    Number,
    NotFinite,
    TooDeep(usize),
    Trailing,
}

impl From<Fault> for BadRequest {
    fn from(Fault { at, why }: Fault) -> Self {
        let why = match why {
            Why::Expected(what) => format!("expected {what} at byte {at}"),
            Why::Ended => format!("it ends at byte {at} in the middle of a value; send it whole"),
            Why::Control => {
                format!("raw control character in a string at byte {at}; escape it as \\u00XX")
            }
            Why::Escape => format!("unknown escape in a string at byte {at}"),
            Why::Surrogate => format!(
                "unpaired surrogate escape in a string at byte {at}; send valid Unicode text"
            ),
            Why::Number => format!("malformed number at byte {at}"),
            Why::NotFinite => {
                format!("NaN and Infinity are not JSON (byte {at}); send a finite number or null")
            }
            Why::TooDeep(limit) => {
                format!("nested deeper than {limit} levels at byte {at}; flatten it")
            }
            Why::Trailing => {
                format!("more data after the end of the object at byte {at}; send one JSON object")
            }
        };
        BadRequest::body(format_args!("The request body is not acceptable JSON: {why}."))
    }
}

/// A validated string, still as it stands in the body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Str<'a> {
    /// The bytes between the quotes.
    pub raw: &'a str,
    /// Bytes that decoding its escapes saves.
    saved: usize,
    /// Bytes of non-ASCII characters that are written as escapes, once decoded.
    wide_escapes: usize,
}

impl<'a> Str<'a> {
    /// Length in bytes after decoding.
    pub fn len(&self) -> usize {
        self.raw.len() - self.saved
    }

    /// How many of these bytes belong to non-ASCII characters.
    pub fn wide(&self) -> usize {
        let raw = self.raw.bytes().map(|b| usize::from(!b.is_ascii())).sum::<usize>();
        raw + self.wide_escapes
    }

    /// Whether it decodes to `name`.
    pub fn is(&self, name: &str) -> bool {
        if self.saved == 0 {
            self.raw == name
        } else {
            self.len() == name.len() && self.chars().eq(name.chars())
        }
    }

    /// The decoded characters.
    pub fn chars(&self) -> Chars<'a> {
        Chars(self.raw.chars())
    }
}

/// Decodes a validated string.
pub(super) struct Chars<'a>(std::str::Chars<'a>);

impl Chars<'_> {
    fn hex4(&mut self) -> u32 {
        let digits = self.0.by_ref().take(4);
        digits.fold(0, |code, c| code * 16 + c.to_digit(16).unwrap_or(0))
    }

    fn unicode(&mut self) -> char {
        let high = self.hex4();
        if !(0xD800..0xDC00).contains(&high) {
            return char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER);
        }
        self.0.by_ref().take(2).for_each(drop);
        let low = self.hex4();
        let code = 0x10000 + ((high - 0xD800) << 10) + (low.wrapping_sub(0xDC00) & 0x3FF);
        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

impl Iterator for Chars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let c = self.0.next()?;
        if c != '\\' {
            return Some(c);
        }
        Some(match self.0.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => self.unicode(),
            other => other,
        })
    }
}

/// Reads forward through one text.
pub(super) struct Scanner<'a> {
    text: &'a str,
    pos: usize,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, pos: 0 }
    }

    /// Byte offset of the next unread byte.
    pub fn pos(&self) -> usize {
        self.pos
    }

    /// The text from `start` to the position.
    pub fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.pos).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    fn fault(&self, why: Why) -> Fault {
        let why = if self.pos >= self.text.len() && !matches!(why, Why::TooDeep(_)) {
            Why::Ended
        } else {
            why
        };
        Fault { at: self.pos, why }
    }

    pub fn fail<T>(&self, why: Why) -> Result<T, Fault> {
        Err(self.fault(why))
    }

    pub fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.pos += 1;
        }
    }

    /// Skips white space, then eats `byte` if it is next.
    pub fn eat(&mut self, byte: u8) -> bool {
        self.skip_space();
        let hit = self.peek() == Some(byte);
        self.pos += usize::from(hit);
        hit
    }

    /// Skips white space and tells what value starts here, without reading it.
    pub fn kind(&mut self) -> Result<Kind, Fault> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::String),
            Some(b'-') if self.text[self.pos..].starts_with("-I") => self.fail(Why::NotFinite),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            Some(b't') => Ok(Kind::True),
            Some(b'f') => Ok(Kind::False),
            Some(b'n') => Ok(Kind::Null),
            Some(b'N' | b'I') => self.fail(Why::NotFinite),
            _ => self.fail(Why::Expected("a value")),
        }
    }

    /// Reads `true`, `false` or `null`, whichever `kind` says.
    pub fn literal(&mut self, kind: Kind) -> Result<(), Fault> {
        let word = match kind {
            Kind::True => "true",
            Kind::False => "false",
            _ => "null",
        };
        if self.text.as_bytes()[self.pos..].starts_with(word.as_bytes()) {
            self.pos += word.len();
            Ok(())
        } else {
            self.fail(Why::Expected("a value"))
        }
    }

    /// Reads the string that starts here.
    pub fn string(&mut self) -> Result<Str<'a>, Fault> {
        let bytes = self.text.as_bytes();
        let start = self.pos + 1;
        let (mut saved, mut wide_escapes) = (0, 0);
        self.pos = start;
        loop {
            let rest = &bytes[self.pos..];
            let Some(plain) = memchr2(b'"', b'\\', rest) else {
                self.pos = bytes.len();
                return self.fail(Why::Ended);
            };
            if rest[..plain].iter().fold(false, |bad, b| bad | (*b < 0x20)) {
                self.pos += rest.iter().position(|b| *b < 0x20).unwrap_or(0);
                return self.fail(Why::Control);
            }
            self.pos += plain;
            if bytes[self.pos] == b'"' {
                let raw = &self.text[start..self.pos];
                self.pos += 1;
                return Ok(Str { raw, saved, wide_escapes });
            }
            let (written, decoded) = self.escape()?;
            saved += written - decoded;
            wide_escapes += if decoded > 1 { decoded } else { 0 };
            self.pos += written;
        }
    }

    /// The written and decoded length of the escape that starts here.
    fn escape(&self) -> Result<(usize, usize), Fault> {
        match self.text.as_bytes().get(self.pos + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok((2, 1)),
            Some(b'u') => self.unicode_escape(),
            None => Err(Fault { at: self.text.len(), why: Why::Ended }),
            Some(_) => self.fail(Why::Escape),
        }
    }

    fn unicode_escape(&self) -> Result<(usize, usize), Fault> {
        let high = self.hex4(self.pos + 2)?;
        match high {
            0xD800..=0xDBFF => {
                let paired = self.text.as_bytes()[self.pos + 6..].starts_with(b"\\u")
                    && matches!(self.hex4(self.pos + 8), Ok(0xDC00..=0xDFFF));
                if paired { Ok((12, 4)) } else { self.fail(Why::Surrogate) }
            }
            _ => match char::from_u32(high) {
                Some(c) => Ok((6, c.len_utf8())),
                None => self.fail(Why::Surrogate),
            },
        }
    }

    fn hex4(&self, at: usize) -> Result<u32, Fault> {
        let digits = self.text.as_bytes().get(at..at + 4);
        let digits = digits.ok_or(Fault { at: self.text.len(), why: Why::Ended })?;
        digits.iter().try_fold(0, |code, b| match char::from(*b).to_digit(16) {
            Some(digit) => Ok(code * 16 + digit),
            None => self.fail(Why::Escape),
        })
    }

    /// Reads the number that starts here and returns it as written.
    pub fn number(&mut self) -> Result<&'a str, Fault> {
        let start = self.pos;
        self.pos += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.pos += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.pos += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.pos += 1;
            self.pos += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'0'..=b'9' | b'.' | b'+' | b'-' | b'a'..=b'z' | b'A'..=b'Z'))
        {
            return self.fail(Why::Number);
        }
        Ok(self.since(start))
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.pos;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.pos += 1;
        }
        if self.pos == start { self.fail(Why::Number) } else { Ok(()) }
    }

    /// Reads a member's key and the colon after it.
    pub fn key(&mut self) -> Result<Str<'a>, Fault> {
        self.skip_space();
        if self.peek() != Some(b'"') {
            return self.fail(Why::Expected("a key in double quotes"));
        }
        let key = self.string()?;
        if self.eat(b':') { Ok(key) } else { self.fail(Why::Expected("':'")) }
    }

    /// Succeeds if nothing but white space is left.
    pub fn end(&mut self) -> Result<(), Fault> {
        self.skip_space();
        if self.pos == self.text.len() {
            Ok(())
        } else {
            Err(Fault { at: self.pos, why: Why::Trailing })
        }
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
