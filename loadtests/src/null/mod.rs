//! A target that answers at once: what is measured against it is the generator alone.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A server on loopback that answers every POST with a whole stream of one content event, in one
/// write. Stops when dropped.
#[derive(Debug)]
pub struct NullTarget {
    addr: SocketAddr,
    _stop: DropGuard,
}

impl NullTarget {
    /// Starts on a free port.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let stop = CancellationToken::new();
        let token = stop.clone();
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    () = token.cancelled() => return,
                    accepted = listener.accept() => accepted,
                };
                if let Ok((stream, _)) = accepted {
                    tokio::spawn(token.clone().run_until_cancelled_owned(serve(stream)));
                }
            }
        });
        Ok(Self { addr, _stop: stop.drop_guard() })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

async fn serve(mut stream: TcpStream) {
    // Fails only on a dead socket, which the first read reports.
    let _ = stream.set_nodelay(true);
    let mut buffer = BytesMut::with_capacity(16 * 1024);
    loop {
        match request(&buffer) {
            Some((length, tokens)) => {
                buffer.advance(length);
                if stream.write_all(&answer(tokens)).await.is_err() {
                    return;
                }
            }
            None => match stream.read_buf(&mut buffer).await {
                Ok(n) if n > 0 => {}
                _ => return,
            },
        }
    }
}

/// Length of the whole request at the start of the buffer, and the tokens it asks for.
fn request(buffer: &[u8]) -> Option<(usize, u32)> {
    let mut slots = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Request::new(&mut slots);
    let Ok(httparse::Status::Complete(used)) = head.parse(buffer) else { return None };
    let length = head.headers.iter().find(|h| h.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|h| std::str::from_utf8(h.value).ok()?.parse().ok()).unwrap_or(0);
    let body = buffer.get(used..used + length)?;
    Some((used + length, tokens(body)))
}

fn tokens(body: &[u8]) -> u32 {
    const KEY: &[u8] = b"\"max_tokens\":";
    let at = body.windows(KEY.len()).position(|w| w == KEY).map(|at| at + KEY.len());
    let digits = at.map(|at| &body[at..]).unwrap_or_default();
    let value = digits.iter().take_while(|b| b.is_ascii_digit());
    value.fold(0, |n: u32, b| n.saturating_mul(10).saturating_add(u32::from(b - b'0')))
}

fn answer(tokens: u32) -> Vec<u8> {
    let events = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"x\"}}}}]}}\n\n\
         data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n\
         data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":1,\"completion_tokens\":{tokens}}}}}\n\n\
         data: [DONE]\n\n"
    );
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked";
    format!("{head}\r\n\r\n{:x}\r\n{events}\r\n0\r\n\r\n", events.len()).into_bytes()
}
