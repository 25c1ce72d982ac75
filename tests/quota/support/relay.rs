//! A TCP relay inside the test, which can delay, stall, swallow answers and reset.

#![allow(dead_code, reason = "shared by suites; what one needs another does not")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// What happens to bytes from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// Added to each way.
    pub delay: Duration,
    /// Nothing passes, either way; what was sent passes later.
    pub stalled: bool,
    /// Commands pass, answers vanish.
    pub deaf: bool,
    /// New connections are closed at once.
    pub closed: bool,
}

/// A relay in front of a port.
pub struct Relay {
    port: u16,
    server: watch::Sender<u16>,
    mode: watch::Sender<Mode>,
    reset: broadcast::Sender<()>,
    /// Bursts of bytes that came from clients.
    requests: Arc<AtomicU64>,
    _task: AbortOnDropHandle<()>,
}

impl Relay {
    pub async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let server = watch::Sender::new(server);
        let mode = watch::Sender::new(Mode::default());
        let reset = broadcast::Sender::new(1);
        let requests = Arc::new(AtomicU64::new(0));
        let lines = Lines {
            server: server.subscribe(),
            mode: mode.subscribe(),
            reset: reset.clone(),
            requests: Arc::clone(&requests),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(lines.accept(listener)));
        Self { port, server, mode, reset, requests, _task: task }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// New connections lead to this port.
    pub fn lead_to(&self, server: u16) {
        self.server.send_replace(server);
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Close all connections.
    pub fn reset(&self) {
        // Nobody is connected: nothing to close.
        let _ = self.reset.send(());
    }

    /// Writes of clients that came through so far; at least one for each command that was waited
    /// for.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

#[derive(Clone)]
struct Lines {
    server: watch::Receiver<u16>,
    mode: watch::Receiver<Mode>,
    reset: broadcast::Sender<()>,
    requests: Arc<AtomicU64>,
}

impl Lines {
    async fn accept(self, listener: TcpListener) {
        let mut lines = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            if !self.mode.borrow().closed {
                lines.spawn(self.clone().carry(client));
            }
        }
    }

    async fn carry(self, client: TcpStream) {
        let mut reset = self.reset.subscribe();
        let server = SocketAddr::from(([127, 0, 0, 1], *self.server.borrow()));
        let Ok(server) = TcpStream::connect(server).await else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let there = pump(from_client, to_server, self.mode.clone(), Some(self.requests), false);
        let back = pump(from_server, to_client, self.mode, None, true);
        tokio::select! {
            _ = reset.recv() => {}
            () = there => {}
            () = back => {}
        }
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    count: Option<Arc<AtomicU64>>,
    answers: bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        let now = *mode.borrow_and_update();
        if now.delay > Duration::ZERO {
            tokio::time::sleep(now.delay).await;
        }
        if mode.wait_for(|mode| !mode.stalled).await.is_err() {
            return;
        }
        if let Some(count) = &count {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let vanishes = answers && mode.borrow().deaf;
        if !vanishes && to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
