//! Processes that a run starts, and stops again.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// Real time for a process to become ready.
const START: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);

/// A child process; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: std::path::PathBuf,
}

impl Process {
    /// Starts a program with its output in a file.
    pub(crate) fn spawn(
        name: &str,
        program: &Path,
        args: &[&str],
        log: &Path,
    ) -> anyhow::Result<Self> {
        let file = std::fs::File::create(log).with_context(|| log.display().to_string())?;
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            // Ctrl-C on the terminal is for the load tester, which then ends its children in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {} ({})", name, program.display()))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned() })
    }

    /// Waits until `ready` says so.
    pub(crate) async fn ready<F: Future<Output = bool>>(
        &mut self,
        ready: impl Fn() -> F,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + START;
        while !ready().await {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at its start ({status}):\n{}", self.name, self.tail());
            }
            if Instant::now() > end {
                bail!("{} was not ready in {START:?}:\n{}", self.name, self.tail());
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// The last lines of its output.
    fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Waits until it ends by itself; tells how, with the last lines of its output.
    pub(crate) async fn ended(&mut self) -> String {
        let status = self.child.wait().await;
        let status = status.map_or_else(|e| e.to_string(), |s| s.to_string());
        format!("{status}\n{}", self.tail())
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(self.pid()?, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        id.with_context(|| format!("{} has ended", self.name))
    }

    /// Stops it from running (SIGSTOP) until the guard is dropped.
    pub(crate) fn freeze(&self) -> anyhow::Result<Frozen> {
        let frozen = Frozen(self.pid()?);
        self.signal(Signal::STOP)?;
        Ok(frozen)
    }

    /// SIGTERM, then waits; kills it after `patience`. Returns what became of it.
    pub(crate) async fn stop(mut self, patience: Duration) -> String {
        if self.signal(Signal::TERM).is_err() {
            return format!("{} had ended", self.name);
        }
        match timeout(patience, self.child.wait()).await {
            Ok(Ok(status)) => format!("{} ended with {status}", self.name),
            Ok(Err(error)) => format!("{}: {error}", self.name),
            Err(_) => {
                // It ends with the drop below if this fails.
                let _ = self.child.start_kill();
                format!("{} did not end in {patience:?} and was killed", self.name)
            }
        }
    }
}

/// A process that does not run.
#[derive(Debug)]
pub(crate) struct Frozen(Pid);

impl Drop for Frozen {
    fn drop(&mut self) {
        // Fails only if the process has ended.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// A port that is free now.
pub(crate) fn free_port() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Whether something accepts connections there.
pub(crate) async fn listening(addr: SocketAddr) -> bool {
    tokio::net::TcpStream::connect(addr).await.is_ok()
}
