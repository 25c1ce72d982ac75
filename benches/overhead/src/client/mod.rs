//! A client that costs little, so that on two cores there is room for what is measured.

mod answer;
mod h1;
mod h2c;

pub use answer::Answer;

use crate::child::KEY;
use anyhow::Result;
use std::net::SocketAddr;

/// What the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, one connection for each lane.
    Http1,
    /// HTTP/2 without TLS, one connection for all lanes.
    Http2,
}

/// A chat request.
#[derive(Clone, Debug)]
pub struct Ask {
    pub body: String,
    /// Names and values.
    pub headers: Vec<(&'static str, String)>,
}

impl Ask {
    /// `tokens` output tokens; the engine's events carry the time they were made.
    pub fn chat(tokens: u32, stream: bool) -> Self {
        let body = format!(
            r#"{{"model":"sim","max_tokens":{tokens},"stream":{stream},"messages":[{{"role":"user","content":"How many roads must a man walk down?"}}]}}"#
        );
        let mut headers = vec![
            ("authorization", format!("Bearer {KEY}")),
            ("content-type", "application/json".to_owned()),
            ("user-agent", "streamgate-overhead".to_owned()),
        ];
        if stream {
            headers.push(("x-sim-stamp", "1".to_owned()));
        }
        Self { body, headers }
    }

    /// With one more header.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// The chat path: the hot one.
const PATH: &str = "/v1/chat/completions";

/// Something that can ask, one request after another.
pub enum Lane {
    Http1(h1::Connection),
    Http2(h2c::Stream),
}

impl Lane {
    /// `count` lanes to `address`.
    pub async fn open(address: SocketAddr, protocol: Protocol, count: usize) -> Result<Vec<Self>> {
        let mut lanes = Vec::with_capacity(count);
        match protocol {
            Protocol::Http1 => {
                for _ in 0..count {
                    lanes.push(Self::Http1(h1::Connection::open(address).await?));
                }
            }
            Protocol::Http2 => {
                let stream = h2c::Stream::open(address).await?;
                lanes.resize_with(count, || Self::Http2(stream.clone()));
            }
        }
        Ok(lanes)
    }

    /// Ask and read the answer to its end.
    ///
    /// # Errors
    /// Any answer but a whole 200.
    pub async fn ask(&mut self, ask: &Ask, answer: &mut Answer) -> Result<()> {
        match self {
            Self::Http1(connection) => connection.ask(ask, answer).await,
            Self::Http2(stream) => stream.ask(ask, answer).await,
        }
    }

    /// Ask and read until `events` events have come, then leave the answer open.
    pub async fn ask_some(&mut self, ask: &Ask, answer: &mut Answer, events: u64) -> Result<()> {
        match self {
            Self::Http1(connection) => connection.ask_some(ask, answer, events).await,
            Self::Http2(_) => anyhow::bail!("streams are left open over HTTP/1.1 only"),
        }
    }
}
