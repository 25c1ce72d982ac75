//! An engine that is a process of its own: signals are for it, and the process ends with it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::{Engine, EngineConfig};

/// Serves until the engine has exited by itself after SIGTERM or SIGINT, with vLLM's
/// `--shutdown-timeout` (virtual time). `listening` is told the address once it serves.
///
/// # Errors
/// The address cannot be bound, or signals cannot be listened to.
pub async fn serve(
    config: EngineConfig,
    shutdown_timeout: Duration,
    listening: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let engine = Engine::start(config).await?;
    listening(engine.addr());
    loop {
        tokio::select! {
            // A second signal finds the shutdown begun and changes nothing.
            _ = term.recv() => { engine.begin_shutdown(shutdown_timeout); }
            _ = interrupt.recv() => { engine.begin_shutdown(shutdown_timeout); }
            () = engine.wait_exit() => return Ok(()),
        }
    }
}
