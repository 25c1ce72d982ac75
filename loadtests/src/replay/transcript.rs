//! A captured answer: head, framing and body.

use std::ops::Range;
use std::path::Path;

/// An answer as it was on the wire.
#[derive(Debug, Clone)]
pub struct Transcript {
    raw: Vec<u8>,
    head_len: usize,
    status: u16,
    headers: Vec<(String, String)>,
    /// Where the bytes of each chunk (or of the whole body) lie in `raw`.
    chunks: Vec<Range<usize>>,
    complete: bool,
    request: Option<CapturedRequest>,
}

/// The request that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedRequest {
    /// Method.
    pub method: String,
    /// Path.
    pub path: String,
    /// Body; may be empty.
    pub body: String,
    /// Headers besides the usual ones.
    pub headers: Vec<(String, String)>,
    /// Sent as HTTP/1.0.
    pub http10: bool,
}

/// A place in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// After that many bytes on the wire.
    Raw(usize),
    /// Right after that many bytes of the decoded body; 0 is after the head.
    Body(usize),
}

/// A file that is no captured answer.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The bytes do not begin with a response head.
    #[error("there is no whole HTTP/1 response head")]
    Head,
    /// The chunk framing is broken.
    #[error("broken chunk framing at byte {0}")]
    Chunk(usize),
}

impl Transcript {
    /// Loads `NAME.raw`, and `NAME.cmd` if it is there.
    ///
    /// # Errors
    /// The file cannot be read, or is no answer.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, TranscriptError> {
        let path = path.as_ref();
        let raw = std::fs::read(path)
            .map_err(|source| TranscriptError::Read { path: path.display().to_string(), source })?;
        let mut transcript = Self::from_bytes(raw)?;
        let command = std::fs::read_to_string(path.with_extension("cmd")).ok();
        transcript.request = command.as_deref().and_then(parse_command);
        Ok(transcript)
    }

    /// Parses bytes from the wire. The body may be cut anywhere.
    ///
    /// # Errors
    /// No whole head, or broken framing.
    pub fn from_bytes(raw: Vec<u8>) -> Result<Self, TranscriptError> {
        let mut slots = [httparse::EMPTY_HEADER; 100];
        let mut response = httparse::Response::new(&mut slots);
        let Ok(httparse::Status::Complete(head_len)) = response.parse(&raw) else {
            return Err(TranscriptError::Head);
        };
        let status = response.code.ok_or(TranscriptError::Head)?;
        let headers: Vec<(String, String)> = response
            .headers
            .iter()
            .map(|h| (h.name.to_owned(), String::from_utf8_lossy(h.value).into_owned()))
            .collect();
        let mut transcript = Self {
            raw,
            head_len,
            status,
            headers,
            chunks: Vec::new(),
            complete: false,
            request: None,
        };
        transcript.frame()?;
        Ok(transcript)
    }

    fn frame(&mut self) -> Result<(), TranscriptError> {
        if self.header("transfer-encoding").is_some() {
            return self.frame_chunks();
        }
        let len = self.header("content-length").and_then(|v| v.parse().ok()).unwrap_or(usize::MAX);
        let end = self.raw.len().min(self.head_len.saturating_add(len));
        self.complete = end - self.head_len == len;
        if end > self.head_len {
            self.chunks.push(self.head_len..end);
        }
        Ok(())
    }

    fn frame_chunks(&mut self) -> Result<(), TranscriptError> {
        let mut at = self.head_len;
        loop {
            let rest = self.raw.get(at..).unwrap_or_default();
            let Ok(status) = httparse::parse_chunk_size(rest) else {
                return Err(TranscriptError::Chunk(at));
            };
            let httparse::Status::Complete((used, len)) = status else { return Ok(()) };
            let start = at + used;
            if len == 0 {
                self.complete = self.raw.get(start..start + 2) == Some(b"\r\n".as_slice());
                return Ok(());
            }
            let end = usize::try_from(len).map_or(usize::MAX, |len| start.saturating_add(len));
            self.chunks.push(start..end.min(self.raw.len()));
            if self.raw.get(end..).is_some_and(|r| r.len() >= 2 && !r.starts_with(b"\r\n")) {
                return Err(TranscriptError::Chunk(end));
            }
            at = end.saturating_add(2);
        }
    }

    /// All bytes.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The head, its empty line included.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.raw[..self.head_len]
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Header names and values in their order.
    #[must_use]
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The first header with that name, in any spelling.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// The data of each chunk; of a body without chunks, its one piece.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.chunks.iter().map(|range| &self.raw[range.clone()])
    }

    /// The decoded body.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        self.chunks().flatten().copied().collect()
    }

    /// Whether the body has its end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The request, where the capture has it.
    #[must_use]
    pub fn request(&self) -> Option<&CapturedRequest> {
        self.request.as_ref()
    }

    /// The number of bytes on the wire up to a position.
    #[must_use]
    pub fn raw_offset(&self, position: Position) -> usize {
        match position {
            Position::Raw(at) => at.min(self.raw.len()),
            Position::Body(0) => self.head_len,
            Position::Body(mut left) => {
                for chunk in &self.chunks {
                    if left <= chunk.len() {
                        return chunk.start + left;
                    }
                    left -= chunk.len();
                }
                self.raw.len()
            }
        }
    }
}

/// `$ METHOD PATH BODY [-H name: value | --http1.0]`.
fn parse_command(text: &str) -> Option<CapturedRequest> {
    let rest = text.trim().strip_prefix("$ ")?;
    let (method, rest) = rest.split_once(' ')?;
    let (path, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (body, options) = match (rest.find(" -H "), rest.find(" --http1.0")) {
        (Some(at), _) | (None, Some(at)) => rest.split_at(at),
        (None, None) => (rest, ""),
    };
    let header = options.trim().strip_prefix("-H ").and_then(|h| h.split_once(": "));
    Some(CapturedRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        body: body.trim_end().to_owned(),
        headers: header.map(|(n, v)| (n.to_owned(), v.to_owned())).into_iter().collect(),
        http10: options.trim() == "--http1.0",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &[u8] =
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";

    #[test]
    fn chunks_body_and_offsets() {
        let t = Transcript::from_bytes(CHUNKED.to_vec()).unwrap();
        assert_eq!(t.chunks().collect::<Vec<_>>(), [b"abc".as_slice(), b"de"]);
        assert_eq!((t.body().as_slice(), t.is_complete(), t.status()), (&b"abcde"[..], true, 200));
        let head = t.head().len();
        let offsets = [0, 2, 3, 4, 5, 6].map(|n| t.raw_offset(Position::Body(n)));
        let end = CHUNKED.len();
        assert_eq!(offsets, [head, head + 5, head + 6, head + 12, head + 13, end]);
        assert_eq!(t.raw_offset(Position::Raw(9999)), end);
    }

    #[test]
    fn a_cut_body_is_known_as_such() {
        for cut in 1..=28 {
            let t = Transcript::from_bytes(CHUNKED[..CHUNKED.len() - cut].to_vec());
            if let Ok(t) = t {
                assert!(!t.is_complete(), "{cut}");
                assert!(b"abcde".starts_with(t.body().as_slice()), "{cut}");
            }
        }
        let plain = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab";
        let t = Transcript::from_bytes(plain.to_vec()).unwrap();
        assert_eq!((t.body().as_slice(), t.is_complete()), (&b"ab"[..], false));
        assert!(Transcript::from_bytes(b"HTTP/1.1 200".to_vec()).is_err());
    }

    #[test]
    fn commands() {
        let with = |options: &str| parse_command(&format!("$ POST /v1/x {{\"a\": 1}} {options}"));
        let plain = with("").unwrap();
        assert_eq!((plain.path.as_str(), plain.body.as_str()), ("/v1/x", "{\"a\": 1}"));
        assert_eq!(with("-H connection: close").unwrap().headers[0].1, "close");
        assert!(with("--http1.0").unwrap().http10);
    }
}
