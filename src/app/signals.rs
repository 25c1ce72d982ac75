//! Signals: SIGTERM and SIGINT end the process by its drain; a second one cuts at once.

use crate::lifecycle::Lifecycle;
use std::io;
use tokio::signal::unix::{SignalKind, signal};

/// Forward signals to the lifecycle from now on.
///
/// # Errors
/// The handlers cannot be installed.
pub(super) fn forward(lifecycle: Lifecycle) -> io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        loop {
            let name = tokio::select! {
                _ = term.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            tracing::info!(signal = name, "told to stop");
            lifecycle.terminate();
        }
    });
    Ok(())
}
