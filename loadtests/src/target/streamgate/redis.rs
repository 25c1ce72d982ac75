//! The Redis that replicas of a run share.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::process::{Frozen, Process, free_port, listening};

/// A running `redis-server` without persistence.
#[derive(Debug)]
pub(super) struct Redis {
    pub(super) addr: SocketAddr,
    process: Process,
}

impl Redis {
    pub(super) async fn start(folder: &Path) -> anyhow::Result<Self> {
        let addr = free_port()?;
        let port = addr.port().to_string();
        let args =
            ["--port", port.as_str(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let log = folder.join("redis.log");
        let mut process = Process::spawn("redis-server", Path::new("redis-server"), &args, &log)?;
        process.ready(|| listening(addr)).await?;
        Ok(Self { addr, process })
    }

    /// Stops it from answering until the guard is dropped.
    pub(super) fn freeze(&self) -> anyhow::Result<Frozen> {
        self.process.freeze()
    }

    pub(super) async fn stop(self) {
        self.process.stop(Duration::from_secs(5)).await;
    }
}
