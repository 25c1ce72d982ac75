//! Request heads.

use bytes::Buf;

use super::io::Io;

const MAX_HEADERS: usize = 200;

/// A parsed request head.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) method: String,
    /// The target up to the query.
    pub(crate) path: String,
    /// The query without its question mark; empty if there is none.
    pub(crate) query: String,
    /// Minor version: 0 or 1.
    pub(crate) minor: u8,
    /// In the order received, names in the sender's spelling, values as UTF-8 (lossy).
    pub(crate) headers: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeadError {
    #[error("the peer closed before a whole request head")]
    Closed,
    #[error("not an HTTP/1 request head")]
    Invalid,
}

/// How the body of a request is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(usize),
    Chunked,
}

impl Head {
    /// The first header with that name, in any spelling.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Whether the connection ends after the answer.
    pub(crate) fn wants_close(&self) -> bool {
        let has = |token: &str| {
            self.headers
                .iter()
                .filter(|(n, _)| n.eq_ignore_ascii_case("connection"))
                .flat_map(|(_, v)| v.split(','))
                .any(|t| t.trim().eq_ignore_ascii_case(token))
        };
        has("close") || (self.minor == 0 && !has("keep-alive"))
    }

    pub(super) fn expects_continue(&self) -> bool {
        self.minor > 0
            && self.header("expect").is_some_and(|v| v.trim().eq_ignore_ascii_case("100-continue"))
    }

    pub(super) fn framing(&self) -> Option<Framing> {
        if let Some(coding) = self.header("transfer-encoding") {
            let last = coding.rsplit(',').next().unwrap_or_default().trim();
            return last.eq_ignore_ascii_case("chunked").then_some(Framing::Chunked);
        }
        match self.header("content-length") {
            None => Some(Framing::Length(0)),
            Some(length) => length.trim().parse().ok().map(Framing::Length),
        }
    }
}

/// Reads one head of at most `limit` bytes. Cancel safe: bytes stay in the buffer.
pub(crate) async fn read_head(io: &mut Io, limit: usize) -> Result<Head, HeadError> {
    loop {
        skip_blank_lines(io);
        if let Some((head, len)) = parse(io.buffer())? {
            io.buffer().advance(len);
            return Ok(head);
        }
        if io.buffer().len() > limit {
            return Err(HeadError::Invalid);
        }
        if !io.fill().await {
            return Err(HeadError::Closed);
        }
    }
}

fn skip_blank_lines(io: &mut Io) {
    while matches!(io.buffer().first(), Some(b'\r' | b'\n')) {
        io.buffer().advance(1);
    }
}

fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, HeadError> {
    let mut slots = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut slots);
    let httparse::Status::Complete(len) = request.parse(bytes).map_err(|_| HeadError::Invalid)?
    else {
        return Ok(None);
    };
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version)
    else {
        return Err(HeadError::Invalid);
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = request
        .headers
        .iter()
        .map(|h| (h.name.to_owned(), String::from_utf8_lossy(h.value).into_owned()))
        .collect();
    let head =
        Head { method: method.into(), path: path.into(), query: query.into(), minor, headers };
    Ok(Some((head, len)))
}
