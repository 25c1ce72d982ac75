//! HTTP/2 with a connection that several clients share.

use super::{Ask, Fate};
use crate::cluster::Service;
use crate::support::bounded;
use crate::support::wire::{Answer, Ending};
use bytes::Bytes;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// Bytes of a stream's body that may come unread.
const WINDOW: u32 = 256 * 1024;

/// One connection at a time; after a GOAWAY the next request opens another, and what runs on the
/// old one goes on.
pub struct Shared {
    service: Service,
    connection: Mutex<Option<SendRequest<Bytes>>>,
}

impl Shared {
    pub fn new(service: Service) -> Self {
        Self { service, connection: Mutex::new(None) }
    }

    pub async fn ask(&self, ask: &Ask) -> Fate {
        let answer = match self.send(ask).await {
            Ok(answer) => answer,
            Err(fate) => return fate,
        };
        let head = match bounded("an answer's head", answer).await {
            Ok(head) => head,
            Err(error) => return Fate::Lost(format!("no answer: {error}")),
        };
        let (head, body) = head.into_parts();
        let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
        let headers = head.headers.iter();
        let headers = headers.map(|(name, value)| (name.to_string(), text(value))).collect();
        let (body, ending) = whole(body).await;
        ask.judge(&Answer { status: head.status.as_u16(), headers, body, ending })
    }

    /// Send on the connection if it takes requests, else on a new one.
    async fn send(&self, ask: &Ask) -> Result<ResponseFuture, Fate> {
        let mut connection = self.connection.lock().await;
        loop {
            let sender = match connection.take() {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            // A GOAWAY is an error here, before anything of the request is sent.
            let Ok(mut sender) = bounded("a free stream", sender.ready()).await else { continue };
            let Ok((answer, mut body)) = sender.send_request(ask.request.http2(), false) else {
                continue;
            };
            *connection = Some(sender);
            return match body.send_data(ask.request.body().clone(), true) {
                Ok(()) => Ok(answer),
                Err(error) => Err(Fate::Lost(format!("the body could not be sent: {error}"))),
            };
        }
    }

    async fn connect(&self) -> Result<SendRequest<Bytes>, Fate> {
        let to = self.service.pick().ok_or(Fate::NoEndpoint)?;
        let refused =
            |error: &dyn std::fmt::Display| Fate::ConnectionRefused(format!("{to}: {error}"));
        let stream = TcpStream::connect(to).await.map_err(|error| refused(&error))?;
        let _ = stream.set_nodelay(true);
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW).initial_connection_window_size(64 * WINDOW);
        let handshake = bounded("a handshake", builder.handshake(stream)).await;
        let (sender, connection) = handshake.map_err(|error| refused(&error))?;
        // It ends with its last stream and sender; those tell how.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }
}

/// A body, and how it ended.
async fn whole(mut body: RecvStream) -> (Vec<u8>, Ending) {
    let mut bytes = Vec::new();
    loop {
        match bounded("data or the end", body.data()).await {
            Some(Ok(data)) => {
                let _ = body.flow_control().release_capacity(data.len());
                bytes.extend_from_slice(&data);
            }
            Some(Err(error)) if error.is_reset() => return (bytes, Ending::Reset),
            Some(Err(_)) => return (bytes, Ending::Cut),
            None => return (bytes, Ending::Whole),
        }
    }
}
