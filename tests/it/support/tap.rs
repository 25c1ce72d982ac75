//! A relay in front of an engine that keeps every byte of both directions.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// Relays to one engine. To keep requests apart, let the gate open a connection for each
/// (`upstream_idle: 0s`).
pub struct Tap {
    pub addr: SocketAddr,
    connections: Arc<Mutex<Vec<Arc<Mutex<Exchange>>>>>,
    _task: AbortOnDropHandle<()>,
}

/// What went over one connection.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    pub request: Vec<u8>,
    pub answer: Vec<u8>,
}

impl Tap {
    pub async fn start(engine: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let list = connections.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(engine) = TcpStream::connect(engine).await else { continue };
                let _ = (client.set_nodelay(true), engine.set_nodelay(true));
                let exchange = Arc::new(Mutex::new(Exchange::default()));
                list.lock().unwrap().push(exchange.clone());
                let ((from_client, to_client), (from_engine, to_engine)) =
                    (client.into_split(), engine.into_split());
                tokio::spawn(relay(from_client, to_engine, exchange.clone(), |e| &mut e.request));
                tokio::spawn(relay(from_engine, to_client, exchange, |e| &mut e.answer));
            }
        });
        Self { addr, connections, _task: AbortOnDropHandle::new(task) }
    }

    /// The one POST since the last look.
    pub fn take(&self) -> Exchange {
        let connections = std::mem::take(&mut *self.connections.lock().unwrap());
        let all = connections.iter().map(|exchange| exchange.lock().unwrap().clone());
        let mut posts = all.filter(|exchange| exchange.request.starts_with(b"POST "));
        let (one, None) = (posts.next().expect("a request at the engine"), posts.next()) else {
            panic!("more than one request at the engine");
        };
        one
    }
}

async fn relay(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    exchange: Arc<Mutex<Exchange>>,
    side: fn(&mut Exchange) -> &mut Vec<u8>,
) {
    let mut piece = Vec::new();
    while matches!(from.read_buf(&mut piece).await, Ok(1..)) {
        side(&mut exchange.lock().unwrap()).extend(&piece);
        if to.write_all(&piece).await.is_err() {
            return;
        }
        piece.clear();
    }
    let _ = to.shutdown().await;
}

impl Exchange {
    /// The body of the request.
    pub fn asked(&self) -> &[u8] {
        body(&self.request)
    }

    /// The body of the answer, its chunks joined.
    pub fn answered(&self) -> Vec<u8> {
        let (mut rest, mut joined) = (body(&self.answer), Vec::new());
        while let Some(at) = memchr::memmem::find(rest, b"\r\n") {
            let size = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16);
            let (size, start) = (size.unwrap(), at + 2);
            if size == 0 {
                break;
            }
            joined.extend(&rest[start..start + size]);
            rest = &rest[start + size + 2..];
        }
        joined
    }
}

fn body(message: &[u8]) -> &[u8] {
    let at = memchr::memmem::find(message, b"\r\n\r\n").expect("a whole head");
    &message[at + 4..]
}
