//! The simulated engine, on a thread of its own.

use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::sync::mpsc;
use streamgate_loadtests::engine::{Engine, EngineConfig};

/// A running engine. Its thread ends with the process.
pub fn start(config: EngineConfig) -> Result<SocketAddr> {
    let (tell, told) = mpsc::channel();
    std::thread::Builder::new().name("engine".into()).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(tell.send(Err(error))),
        };
        runtime.block_on(async {
            match Engine::start(config).await {
                Ok(engine) => {
                    // Nobody listens if the run has failed meanwhile.
                    let _ = tell.send(Ok(engine.addr()));
                    engine.wait_exit().await;
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        });
    })?;
    told.recv().context("the engine's thread ended")?.context("the engine cannot listen")
}
