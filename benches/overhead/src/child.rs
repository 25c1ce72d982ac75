//! The two proxies, each in a process of its own.

use crate::process;
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// The key of the tenant that sends the load.
pub const KEY: &str = "sg-bench-load";
/// Longest wait for a proxy to listen.
const START: Duration = Duration::from_secs(10);

/// A proxy that listens; killed by drop.
pub struct Proxy {
    pub address: SocketAddr,
    child: Child,
    _files: Option<TempDir>,
}

impl Proxy {
    /// The bare Pingora proxy: this binary again.
    pub async fn bare(upstream: SocketAddr) -> Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bare", "--listen", &address.to_string()]);
        command.args(["--upstream", &upstream.to_string()]);
        Self::start(command, address, None).await
    }

    /// Streamgate as it comes: defaults, one worker thread, two tenants, memory store, JSON log.
    pub async fn gate(binary: &Path, upstream: SocketAddr) -> Result<Self> {
        let (address, admin) = (free_address()?, free_address()?);
        let files = TempDir::new()?;
        let config = files.path().join("streamgate.yaml");
        std::fs::write(&config, configuration(address, admin, upstream))?;
        let mut command = Command::new(binary);
        command.arg("serve").arg("--config").arg(&config);
        Self::start(command, address, Some(files)).await
    }

    /// Processor time used so far.
    pub fn cpu(&self) -> Result<Duration> {
        process::cpu(self.child.id())
    }

    /// Resident bytes.
    pub fn resident(&self) -> Result<u64> {
        process::resident(self.child.id())
    }

    async fn start(
        mut command: Command,
        address: SocketAddr,
        files: Option<TempDir>,
    ) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        let name = command.get_program().to_owned();
        let child = command.spawn().with_context(|| format!("cannot start {}", name.display()))?;
        let mut proxy = Self { address, child, _files: files };
        proxy.listening().await?;
        Ok(proxy)
    }

    async fn listening(&mut self) -> Result<()> {
        let until = Instant::now() + START;
        while TcpStream::connect(self.address).await.is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the proxy ended at its start: {status}");
            }
            if Instant::now() > until {
                bail!("the proxy does not listen on {} after {START:?}", self.address);
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loopback port that was free a moment ago: Pingora's server cannot be asked which port it
/// took.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn configuration(proxy: SocketAddr, admin: SocketAddr, upstream: SocketAddr) -> String {
    let hash = |key: &str| {
        Sha256::digest(key).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    };
    format!(
        "listen: {{proxy: \"{proxy}\", admin: \"{admin}\"}}\n\
         runtime: {{threads: 1}}\n\
         pools:\n  - {{name: main, models: [\"*\"], endpoints: [\"{upstream}\"]}}\n\
         tenants:\n  \
         - {{id: load, api_keys: [\"sha256:{}\"], max_in_flight: 5000}}\n  \
         - {{id: other, api_keys: [\"sha256:{}\"], max_in_flight: 4}}\n",
        hash(KEY),
        hash("sg-bench-other"),
    )
}
