//! One Streamgate process.

use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::admin::Admin;
use super::config::{Ports, Wanted, config};
use super::process::{Process, free_port, listening};

/// A running replica with its configuration file.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) name: String,
    pub(super) ports: Ports,
    file: PathBuf,
    process: Process,
}

impl Replica {
    /// Starts a replica and waits until it serves.
    pub(super) async fn start(
        program: &Path,
        folder: &Path,
        name: &str,
        wanted: &Wanted<'_>,
        admin: &Admin,
    ) -> anyhow::Result<Self> {
        let ports = Ports { proxy: free_port()?, admin: free_port()? };
        let (file, log) = (folder.join(format!("{name}.yaml")), folder.join(format!("{name}.log")));
        write(&file, wanted, ports)?;
        let path = file.to_string_lossy().into_owned();
        let args = ["serve", "--config", path.as_str()];
        let mut process = Process::spawn(name, program, &args, &log)?;
        process
            .ready(|| async { admin.ready(ports.admin).await && listening(ports.proxy).await })
            .await?;
        Ok(Self { name: name.to_owned(), ports, file, process })
    }

    /// Gives it a new configuration to reload.
    pub(super) fn reload(&self, wanted: &Wanted<'_>) -> anyhow::Result<()> {
        write(&self.file, wanted, self.ports)?;
        self.process.signal(Signal::HUP)
    }

    /// Drains and ends it.
    pub(super) async fn stop(self, patience: std::time::Duration) -> String {
        self.process.stop(patience).await
    }
}

/// Writes by rename, so that a reload never sees half a file.
fn write(file: &Path, wanted: &Wanted<'_>, ports: Ports) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&config(wanted, ports))?;
    let next = file.with_extension("next");
    std::fs::write(&next, text + "\n")?;
    std::fs::rename(&next, file)?;
    Ok(())
}
