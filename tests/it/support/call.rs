//! A request over either protocol, and the ways to leave it.

use super::h2::{H2, H2Call};
use super::request::Request;
use super::wire::{Answer, Ending, Headers, Wire};
use std::net::SocketAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proto {
    H1,
    H2c,
}

impl Proto {
    pub const ALL: [Self; 2] = [Self::H1, Self::H2c];
}

/// How a client goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// HTTP/1: FIN both ways.
    Close,
    /// HTTP/1: the connection is reset.
    Reset,
    /// HTTP/1: FIN, and still reading.
    HalfClose,
    /// HTTP/2: RST_STREAM; the connection stays.
    StreamReset,
    /// HTTP/2: the connection is closed.
    ConnectionClose,
}

impl Leave {
    pub const ALL: [Self; 5] =
        [Self::Close, Self::Reset, Self::HalfClose, Self::StreamReset, Self::ConnectionClose];

    pub fn proto(self) -> Proto {
        match self {
            Self::Close | Self::Reset | Self::HalfClose => Proto::H1,
            Self::StreamReset | Self::ConnectionClose => Proto::H2c,
        }
    }
}

/// One request on a connection of its own.
pub enum Call {
    H1(Box<Wire>),
    H2(Box<(H2, H2Call)>),
}

/// What of a client outlives its leaving.
#[derive(Default)]
pub struct Left {
    _half_open: Option<Box<Wire>>,
    _connection: Option<Box<H2>>,
}

impl Call {
    pub async fn start(proto: Proto, to: SocketAddr, request: &Request) -> Self {
        match proto {
            Proto::H1 => {
                let mut wire = Wire::connect(to).await;
                wire.send(&request.bytes()).await;
                Self::H1(Box::new(wire))
            }
            Proto::H2c => {
                let mut connection = H2::connect(to).await;
                let call = connection.send(request).await;
                Self::H2(Box::new((connection, call)))
            }
        }
    }

    /// Status and headers; `None` if the connection ends first.
    pub async fn head(&mut self) -> Option<(u16, Headers)> {
        match self {
            Self::H1(wire) => wire.head().await,
            Self::H2(pair) => pair.1.head().await,
        }
    }

    /// The next piece of a streamed body; `Ok(None)` at its clean end.
    pub async fn piece(&mut self) -> Result<Option<Vec<u8>>, Ending> {
        match self {
            Self::H1(wire) => wire.chunk().await,
            Self::H2(pair) => pair.1.piece().await,
        }
    }

    /// Read a streamed body until its text contains `needle`.
    pub async fn until(&mut self, needle: &str) -> String {
        let mut text = String::new();
        while !text.contains(needle) {
            match self.piece().await {
                Ok(Some(piece)) => text.push_str(&String::from_utf8_lossy(&piece)),
                end => panic!("{end:?} before {needle:?}:\n{text}"),
            }
        }
        text
    }

    /// The rest of a streamed body, and how it ended.
    pub async fn rest(&mut self) -> (String, Ending) {
        let mut bytes = Vec::new();
        let ending = loop {
            match self.piece().await {
                Ok(Some(piece)) => bytes.extend(piece),
                Ok(None) => break Ending::Whole,
                Err(ending) => break ending,
            }
        };
        (String::from_utf8_lossy(&bytes).into_owned(), ending)
    }

    /// The whole answer, streamed or plain.
    pub async fn answer(&mut self) -> Answer {
        match self {
            Self::H1(wire) => wire.answer().await,
            Self::H2(pair) => {
                let (status, headers) = pair.1.head().await.expect("an answer's head");
                let (text, ending) = self.rest().await;
                Answer { status, headers, body: text.into_bytes(), ending }
            }
        }
    }

    /// Go away in this manner.
    pub async fn leave(self, how: Leave) -> Left {
        match (self, how) {
            (Self::H1(wire), Leave::Close) => drop(wire),
            (Self::H1(wire), Leave::Reset) => wire.reset(),
            (Self::H1(mut wire), Leave::HalfClose) => {
                wire.half_close().await;
                return Left { _half_open: Some(wire), ..Left::default() };
            }
            (Self::H2(pair), Leave::StreamReset) => {
                let (connection, mut call) = *pair;
                call.reset();
                return Left { _connection: Some(Box::new(connection)), ..Left::default() };
            }
            (Self::H2(pair), Leave::ConnectionClose) => drop(pair),
            _ => panic!("{how:?} is not of this protocol"),
        }
        Left::default()
    }
}

/// One request on a connection of its own, to its end.
pub async fn ask(proto: Proto, to: SocketAddr, request: &Request) -> Answer {
    Call::start(proto, to, request).await.answer().await
}
