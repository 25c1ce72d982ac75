//! A real `redis-server` on a free loopback port, ended on drop.

#![allow(dead_code, reason = "shared by suites; what one needs another does not")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to answer its first PING.
const READY: Duration = Duration::from_secs(20);

/// A running server. Its data directory outlives a [`restart`](Self::restart).
pub struct RedisServer {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
    options: Vec<String>,
    frozen: bool,
}

impl RedisServer {
    /// A server without persistence; `options` are added to its command line.
    pub fn start(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options: Vec<String> = options.iter().map(|s| (*s).to_owned()).collect();
        let (child, port) = launch(dir.path(), &options, None);
        Self { child, port, dir, options, frozen: false }
    }

    /// A sentinel that watches `master` on `port`, alone.
    pub fn sentinel(master: &str, port: u16) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let config = dir.path().join("sentinel.conf");
        let text = format!(
            "sentinel monitor {master} 127.0.0.1 {port} 1\n\
             sentinel down-after-milliseconds {master} 2000\n\
             sentinel failover-timeout {master} 6000\n"
        );
        std::fs::write(&config, text).expect("a file");
        let options = vec![config.display().to_string(), "--sentinel".to_owned()];
        let (child, port) = launch(dir.path(), &options, None);
        Self { child, port, dir, options, frozen: false }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// A new connection, for looking and meddling.
    pub fn connect(&self) -> redis::Connection {
        connect(self.port).expect("a connection to our own server")
    }

    /// The process ends at once; what it knew is gone unless its options saved it.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Start again, on the same port, after [`kill`](Self::kill).
    pub fn revive(&mut self) {
        (self.child, self.port) = launch(self.dir.path(), &self.options, Some(self.port));
    }

    /// The process stops running: its connections stand, and nothing is answered.
    pub fn freeze(&mut self) {
        signal("-STOP", self.child.id());
        self.frozen = true;
    }

    pub fn thaw(&mut self) {
        signal("-CONT", self.child.id());
        self.frozen = false;
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if self.frozen {
            self.thaw();
        }
        self.kill();
    }
}

fn connect(port: u16) -> redis::RedisResult<redis::Connection> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/"))?;
    client.get_connection_with_timeout(Duration::from_secs(5))
}

fn signal(signal: &str, process: u32) {
    let status = Command::new("kill").args([signal, &process.to_string()]).status();
    assert!(status.expect("kill is installed").success(), "{signal} {process}");
}

/// Starts a server on `port`, or on a free one. A free port may be taken between choosing and
/// binding, so the server that answers must be the process started here; otherwise another is
/// tried.
fn launch(dir: &Path, options: &[String], port: Option<u16>) -> (Child, u16) {
    for _ in 0..10 {
        let port = port.unwrap_or_else(free_port);
        let port_text = port.to_string();
        let common = ["--port", &port_text, "--bind", "127.0.0.1"];
        let sentinel = options.iter().any(|option| option == "--sentinel");
        let mut server = Command::new("redis-server");
        if sentinel {
            // The configuration file comes first.
            server.args(options).args(common);
        } else {
            server.args(common).args(["--save", ""]).arg("--dir").arg(dir).args(options);
        }
        let mut child = server
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
    panic!("no redis-server came up");
}

pub fn free_port() -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    socket.local_addr().expect("a bound socket has an address").port()
}

/// Waits until `child` itself listens on `port`. Servers that ask for a password say so.
fn ready(child: &mut Child, port: u16) -> bool {
    let until = Instant::now() + READY;
    while Instant::now() < until {
        if child.try_wait().is_ok_and(|status| status.is_some()) {
            return false;
        }
        match connect(port) {
            Ok(mut connection) => {
                let info = redis::cmd("INFO").arg("server").query::<String>(&mut connection);
                match info {
                    Ok(info) => return info.contains(&format!("process_id:{}\r", child.id())),
                    Err(error) if matches!(error.code(), Some("NOAUTH" | "NOPERM")) => return true,
                    Err(_) => {}
                }
            }
            Err(_) => std::thread::yield_now(),
        }
    }
    false
}
