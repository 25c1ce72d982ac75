//! HTTP/1.1 response heads and body framing.

use bytes::{Buf, BytesMut};

const MAX_HEADERS: usize = 100;
/// Largest response head read.
pub(super) const HEAD_LIMIT: usize = 64 * 1024;

/// The parts of a response head that the client uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) close: bool,
    pub(super) framing: Framing,
    pub(super) retry_after: Option<String>,
    pub(super) retry_after_ms: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) request_id: Option<String>,
    pub(super) target: Option<String>,
}

/// How a body ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    /// At the close of the connection.
    #[default]
    Close,
}

/// Not HTTP/1.1 as the standard has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Parses a head from the start of `buffer` and removes it; `None` if it is not whole yet.
pub(super) fn parse_head(buffer: &mut BytesMut) -> Result<Option<Head>, Malformed> {
    let mut slots = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut slots);
    let used = match response.parse(buffer).map_err(|_| Malformed)? {
        httparse::Status::Complete(used) => used,
        httparse::Status::Partial if buffer.len() > HEAD_LIMIT => return Err(Malformed),
        httparse::Status::Partial => return Ok(None),
    };
    let mut head = Head { status: response.code.ok_or(Malformed)?, ..Head::default() };
    head.close = response.version == Some(0);
    let mut length = None;
    for header in response.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        head.field(header.name, value, &mut length)?;
    }
    if head.framing != Framing::Chunked {
        head.framing = length.map_or(Framing::Close, Framing::Length);
    }
    if matches!(head.status, 100..200 | 204 | 304) {
        head.framing = Framing::Length(0);
    }
    buffer.advance(used);
    Ok(Some(head))
}

impl Head {
    fn field(
        &mut self,
        name: &str,
        value: &str,
        length: &mut Option<u64>,
    ) -> Result<(), Malformed> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        let owned = || Some(value.to_owned());
        if is("content-length") {
            let parsed = value.parse().map_err(|_| Malformed)?;
            if length.is_some_and(|l| l != parsed) {
                return Err(Malformed);
            }
            *length = Some(parsed);
        } else if is("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err(Malformed);
            }
            self.framing = Framing::Chunked;
        } else if is("connection") {
            self.close |= value.split(',').any(|t| t.trim().eq_ignore_ascii_case("close"));
        } else if is("retry-after") {
            self.retry_after = owned();
        } else if is("retry-after-ms") {
            self.retry_after_ms = owned();
        } else if is("x-streamgate-reason") {
            self.reason = owned();
        } else if is("x-request-id") || is("request-id") {
            self.request_id = owned();
        } else if is("target-pod") || is("x-sim-engine") {
            self.target = owned();
        }
        Ok(())
    }
}

/// Decodes a body that arrives in pieces.
#[derive(Debug)]
pub(super) struct Body {
    framing: Framing,
    state: Chunk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    Size,
    Data(u64),
    DataEnd,
    Trailers,
    Done,
}

impl Body {
    pub(super) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Length(0) => Chunk::Done,
            Framing::Length(n) => Chunk::Data(n),
            Framing::Chunked => Chunk::Size,
            Framing::Close => Chunk::Data(u64::MAX),
        };
        Self { framing, state }
    }

    /// Whether the body has ended as its framing says.
    pub(super) fn done(&self) -> bool {
        self.state == Chunk::Done
    }

    /// Whether the end of the connection is the regular end of this body.
    pub(super) fn ends_at_close(&self) -> bool {
        self.framing == Framing::Close
    }

    /// The next piece of content in `buffer`; `None` if more bytes are needed or it is done.
    pub(super) fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<BytesMut>, Malformed> {
        loop {
            match self.state {
                Chunk::Done => return Ok(None),
                Chunk::Data(_) if buffer.is_empty() => return Ok(None),
                Chunk::Data(left) => return Ok(Some(self.data(left, buffer))),
                Chunk::Size => match httparse::parse_chunk_size(buffer).map_err(|_| Malformed)? {
                    httparse::Status::Partial => return Ok(None),
                    httparse::Status::Complete((used, size)) => {
                        buffer.advance(used);
                        self.state = if size == 0 { Chunk::Trailers } else { Chunk::Data(size) };
                    }
                },
                Chunk::DataEnd => {
                    if buffer.len() < 2 {
                        return Ok(None);
                    }
                    if !buffer.starts_with(b"\r\n") {
                        return Err(Malformed);
                    }
                    buffer.advance(2);
                    self.state = Chunk::Size;
                }
                Chunk::Trailers => match buffer.iter().position(|b| *b == b'\n') {
                    None => return Ok(None),
                    Some(end) => {
                        if matches!(buffer.split_to(end + 1).as_ref(), b"\r\n" | b"\n") {
                            self.state = Chunk::Done;
                        }
                    }
                },
            }
        }
    }

    fn data(&mut self, left: u64, buffer: &mut BytesMut) -> BytesMut {
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let left = left - take as u64;
        self.state = match (left, self.framing) {
            (0, Framing::Chunked) => Chunk::DataEnd,
            (0, _) => Chunk::Done,
            (left, _) => Chunk::Data(left),
        };
        buffer.split_to(take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(framing: Framing, wire: &[u8], step: usize) -> (Vec<u8>, bool) {
        let (mut body, mut buffer, mut out) = (Body::new(framing), BytesMut::new(), Vec::new());
        for part in wire.chunks(step) {
            buffer.extend_from_slice(part);
            while let Some(piece) = body.next(&mut buffer).unwrap() {
                out.extend_from_slice(&piece);
            }
        }
        (out, body.done())
    }

    #[test]
    fn bodies_decode_however_they_are_cut() {
        let chunked = b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nt: v\r\n\r\n";
        for step in 1..chunked.len() {
            assert_eq!(decode(Framing::Chunked, chunked, step), (b"hello world".to_vec(), true));
        }
        assert_eq!(decode(Framing::Length(3), b"abc", 2), (b"abc".to_vec(), true));
        assert_eq!(decode(Framing::Length(4), b"abc", 2), (b"abc".to_vec(), false));
        assert_eq!(decode(Framing::Close, b"abc", 2), (b"abc".to_vec(), false));
        assert_eq!(decode(Framing::Chunked, b"5\r\nhello\r\n0\r\n", 4), (b"hello".to_vec(), false));
    }

    #[test]
    fn a_broken_chunk_is_an_error() {
        let mut body = Body::new(Framing::Chunked);
        let mut buffer = BytesMut::from(&b"2\r\nabXX"[..]);
        assert_eq!(body.next(&mut buffer).unwrap().unwrap().as_ref(), b"ab");
        assert_eq!(body.next(&mut buffer), Err(Malformed));
    }

    #[test]
    fn heads_give_what_the_client_needs() {
        let mut wire = BytesMut::from(
            &b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nretry-after-ms: 6900\r\n\
               X-Streamgate-Reason: tenant_in_flight\r\nConnection: keep-alive, Close\r\n\
               content-length: 2\r\n\r\n{}"[..],
        );
        let head = parse_head(&mut wire).unwrap().unwrap();
        assert_eq!((head.status, head.close, head.framing), (429, true, Framing::Length(2)));
        assert_eq!(head.reason.as_deref(), Some("tenant_in_flight"));
        assert_eq!(head.retry_after.as_deref(), Some("7"));
        assert_eq!(wire.as_ref(), b"{}");
        let mut part = BytesMut::from(&b"HTTP/1.1 200 OK\r\ntransfer-enc"[..]);
        assert_eq!(parse_head(&mut part), Ok(None));
        let mut bad = BytesMut::from(&b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"[..]);
        assert_eq!(parse_head(&mut bad), Err(Malformed));
    }
}
