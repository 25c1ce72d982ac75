//! Request bodies: by length or chunked.

use bytes::{Buf, Bytes, BytesMut};

use super::io::Io;
use super::request::{Framing, Head};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the peer closed before the whole body")]
    Closed,
    #[error("the body is not framed as its head says")]
    Invalid,
    #[error("the body is larger than the limit")]
    TooLarge,
}

/// Reads the body that belongs to `head`, answering `Expect: 100-continue` first.
/// Not cancel safe for chunked bodies.
pub(crate) async fn read_body(io: &mut Io, head: &Head, limit: usize) -> Result<Bytes, BodyError> {
    let framing = head.framing().ok_or(BodyError::Invalid)?;
    if head.expects_continue() && framing != Framing::Length(0) {
        io.write(b"HTTP/1.1 100 Continue\r\n\r\n").await.map_err(|_| BodyError::Closed)?;
    }
    match framing {
        Framing::Length(len) if len > limit => Err(BodyError::TooLarge),
        Framing::Length(len) => {
            io.reserve(len);
            take(io, len).await
        }
        Framing::Chunked => read_chunked(io, limit).await,
    }
}

async fn take(io: &mut Io, len: usize) -> Result<Bytes, BodyError> {
    while io.buffer().len() < len {
        more(io).await?;
    }
    Ok(io.buffer().split_to(len).freeze())
}

async fn more(io: &mut Io) -> Result<(), BodyError> {
    if io.fill().await { Ok(()) } else { Err(BodyError::Closed) }
}

async fn read_chunked(io: &mut Io, limit: usize) -> Result<Bytes, BodyError> {
    let mut body = BytesMut::new();
    loop {
        let len = chunk_size(io).await?;
        if len == 0 {
            skip_trailers(io).await?;
            return Ok(body.freeze());
        }
        if body.len() + len > limit {
            return Err(BodyError::TooLarge);
        }
        body.extend_from_slice(&take(io, len).await?);
        if take(io, 2).await?.as_ref() != b"\r\n" {
            return Err(BodyError::Invalid);
        }
    }
}

async fn chunk_size(io: &mut Io) -> Result<usize, BodyError> {
    loop {
        match httparse::parse_chunk_size(io.buffer()).map_err(|_| BodyError::Invalid)? {
            httparse::Status::Complete((used, len)) => {
                io.buffer().advance(used);
                return usize::try_from(len).map_err(|_| BodyError::TooLarge);
            }
            httparse::Status::Partial => more(io).await?,
        }
    }
}

/// Trailers end at the first empty line.
async fn skip_trailers(io: &mut Io) -> Result<(), BodyError> {
    loop {
        match io.buffer().iter().position(|b| *b == b'\n') {
            Some(end) => {
                let line = io.buffer().split_to(end + 1);
                if matches!(line.as_ref(), b"\r\n" | b"\n") {
                    return Ok(());
                }
            }
            None => more(io).await?,
        }
    }
}
