//! A real `redis-server` on a free loopback port, ended on drop.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to answer its first PING.
const READY: Duration = Duration::from_secs(10);

/// A running server. Its data directory outlives a [`restart`](Self::restart).
pub struct RedisServer {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
    options: Vec<String>,
}

impl RedisServer {
    /// Starts a server without persistence; `options` are added to the command line.
    pub fn start(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options: Vec<String> = options.iter().map(|s| (*s).to_owned()).collect();
        let (child, port) = launch(dir.path(), &options);
        Self { child, port, dir, options }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// A new connection.
    pub fn connect(&self) -> redis::Connection {
        self.client().get_connection().expect("a connection to our own server")
    }

    pub fn client(&self) -> redis::Client {
        redis::Client::open(format!("redis://127.0.0.1:{}/", self.port)).expect("a valid URL")
    }

    /// Stops the process (saving what its options tell it to save) and starts it again over the same
    /// data, on another port if the old one is taken.
    pub fn restart(&mut self) {
        let mut connection = self.connect();
        // The server closes the connection instead of answering.
        let _ = redis::cmd("SHUTDOWN").query::<()>(&mut connection);
        self.child.wait().expect("the server ends");
        (self.child, self.port) = launch(self.dir.path(), &self.options);
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server on a free port. The port may be taken between choosing and binding, so the server
/// that answers must be the process started here; otherwise another port is tried.
fn launch(dir: &Path, options: &[String]) -> (Child, u16) {
    for _ in 0..10 {
        let port = free_port();
        let mut child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .arg("--dir")
            .arg(dir)
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        if ready(&mut child, port) {
            return (child, port);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
    panic!("no redis-server came up on a free port");
}

fn free_port() -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    socket.local_addr().expect("a bound socket has an address").port()
}

/// Waits until `child` itself answers on `port`.
fn ready(child: &mut Child, port: u16) -> bool {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).expect("a valid URL");
    let until = Instant::now() + READY;
    while Instant::now() < until {
        if child.try_wait().is_ok_and(|status| status.is_some()) {
            return false;
        }
        if let Ok(mut connection) = client.get_connection()
            && let Ok(info) = redis::cmd("INFO").arg("server").query::<String>(&mut connection)
        {
            return info.contains(&format!("process_id:{}\r", child.id()));
        }
        pause(Duration::from_millis(5));
    }
    false
}

/// Between two looks at a condition.
#[expect(clippy::disallowed_methods, reason = "no runtime here: the test's thread waits itself")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}
