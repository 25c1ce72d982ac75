//! A server that greets like a Redis and answers every script with one line.

use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// The server; gone when dropped.
pub struct FakeRedis {
    port: u16,
    line: watch::Sender<String>,
    _task: AbortOnDropHandle<()>,
}

impl FakeRedis {
    /// Answers `line`, such as `-LOADING Redis is loading`.
    pub async fn start(line: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let line = watch::Sender::new(line.to_owned());
        let answers = Arc::new(line.subscribe());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                connections.spawn(serve(connection, Arc::clone(&answers)));
            }
        });
        Self { port, line, _task: AbortOnDropHandle::new(task) }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    pub fn answer(&self, line: &str) {
        self.line.send_replace(line.to_owned());
    }
}

async fn serve(mut connection: TcpStream, line: Arc<watch::Receiver<String>>) {
    let mut received = Vec::new();
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = connection.read(&mut buffer).await {
        received.extend_from_slice(&buffer[..read]);
        while let Some((command, length)) = command(&received) {
            received.drain(..length);
            let answer = match command.as_str() {
                "HELLO" => "%1\r\n+server\r\n+redis\r\n".to_owned(),
                "SUBSCRIBE" => ">3\r\n+subscribe\r\n+sg:{q0}\r\n:1\r\n".to_owned(),
                "EVALSHA" | "EVAL" => format!("{}\r\n", *line.borrow()),
                _ => "+OK\r\n".to_owned(),
            };
            if connection.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// The name of the first whole command, and its length in bytes.
fn command(bytes: &[u8]) -> Option<(String, usize)> {
    let mut at = 0;
    let count = number(bytes, b'*', &mut at)?;
    let mut name = None;
    for _ in 0..count {
        let size = number(bytes, b'$', &mut at)?;
        let word = bytes.get(at..at + size)?;
        at += size + 2;
        name.get_or_insert_with(|| String::from_utf8_lossy(word).to_ascii_uppercase());
    }
    (at <= bytes.len()).then_some((name?, at))
}

/// The number of a line that begins with `mark`.
fn number(bytes: &[u8], mark: u8, at: &mut usize) -> Option<usize> {
    let rest = bytes.get(*at..)?.strip_prefix(&[mark])?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    *at += end + 3;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}
