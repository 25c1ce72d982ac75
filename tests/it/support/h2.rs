//! HTTP/2 as a client that sees every frame's consequence.

use super::bounded;
use super::request::Request;
use super::wire::{Ending, Headers};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

/// Bytes of a stream's body that may come unread.
const WINDOW: u32 = 512 * 1024;

/// One connection; dropping it closes it.
pub struct H2 {
    send: SendRequest<Bytes>,
    _task: AbortOnDropHandle<()>,
}

impl H2 {
    /// Cleartext, with prior knowledge.
    pub async fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream).await
    }

    /// Over any stream.
    pub async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let mut builder = h2::client::Builder::new();
        // Streams are read in turn: one that waits must not use up the connection's window.
        builder.initial_window_size(WINDOW).initial_connection_window_size(256 * WINDOW);
        let handshake = builder.handshake(stream);
        let (send, connection) = bounded("an HTTP/2 handshake", handshake).await.unwrap();
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            // Its streams tell how it ended.
            let _ = connection.await;
        }));
        Self { send, _task: task }
    }

    /// Send a whole request.
    pub async fn send(&mut self, request: &Request) -> H2Call {
        let mut call = self.open(request, request.body().is_empty()).await;
        if !request.body().is_empty() {
            call.write(request.body().clone(), true);
        }
        call
    }

    /// Send a request's head; its body follows unless `end`.
    pub async fn open(&mut self, request: &Request, end: bool) -> H2Call {
        let mut send = bounded("a free stream", self.send.clone().ready()).await.unwrap();
        let (answer, body) = send.send_request(request.http2(), end).unwrap();
        H2Call { answer: Some(answer), request: body, body: None }
    }
}

/// One stream.
pub struct H2Call {
    answer: Option<ResponseFuture>,
    request: SendStream<Bytes>,
    body: Option<RecvStream>,
}

impl H2Call {
    /// Send a part of the request's body.
    pub fn write(&mut self, part: Bytes, end: bool) {
        self.request.send_data(part, end).unwrap();
    }

    /// Status and headers; `None` if the stream ends first.
    pub async fn head(&mut self) -> Option<(u16, Headers)> {
        let answer = bounded("an answer's head", self.answer.take()?).await.ok()?;
        let (head, body) = answer.into_parts();
        self.body = Some(body);
        let headers = head.headers.iter();
        let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
        let headers = headers.map(|(name, value)| (name.to_string(), text(value))).collect();
        Some((head.status.as_u16(), headers))
    }

    /// The next piece of the body; `Ok(None)` at END_STREAM.
    pub async fn piece(&mut self) -> Result<Option<Vec<u8>>, Ending> {
        let body = self.body.as_mut().expect("the head was read");
        match bounded("data or the end", body.data()).await {
            Some(Ok(data)) => {
                let _ = body.flow_control().release_capacity(data.len());
                Ok(Some(data.to_vec()))
            }
            Some(Err(error)) if error.is_reset() => Err(Ending::Reset),
            Some(Err(_)) => Err(Ending::Cut),
            None => Ok(None),
        }
    }

    /// Reset the stream.
    pub fn reset(&mut self) {
        self.request.send_reset(Reason::CANCEL);
    }
}
