//! The life of an engine.
//!
//! ```text
//! Serving ─ timeout 0 ─────────► Aborting ─ abort_exit ──────────────────► Exited
//!    │  └─ timeout > 0 ─► Draining ─ all streams ended ─ drain_exit ──────► Exited
//!    │                        └─ timeout over ─► Frozen ─ no connection
//!    │                                                    left, frozen_exit ► Exited
//!    └─ engine process killed ─► EngineDead ─ dead_exit ──────────────────► Exited
//! ```
//!
//! Aborting: every stream ends, looking finished or with an error. Draining: accepted requests,
//! queued ones too, complete. Frozen: no byte more, no close. In all four the listener is open,
//! new generation requests get 500, and `/health` answers 200 (503 once the engine is dead).
//! A kill takes the engine from any phase to Exited at once, resetting every connection.

use super::clock::nanos;
use super::shared::Shared;
use std::sync::Arc;
use std::time::Duration;

/// Phase of an engine's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Accepting.
    Serving,
    /// SIGTERM with a timeout: finishing what was accepted.
    Draining,
    /// SIGTERM without a timeout: ending all streams.
    Aborting,
    /// The timeout is over: silent.
    Frozen,
    /// The engine process died, the server lives on for a moment.
    EngineDead,
    /// The server has exited.
    Exited,
}

impl Phase {
    /// Its name in the statistics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Aborting => "aborting",
            Self::Frozen => "frozen",
            Self::EngineDead => "engine_dead",
            Self::Exited => "exited",
        }
    }
}

/// Leaves Serving for a shutdown. `false` if it has begun before (a second signal is ignored).
pub(crate) fn begin_shutdown(shared: &Arc<Shared>, timeout: Duration) -> bool {
    let next = if timeout.is_zero() { Phase::Aborting } else { Phase::Draining };
    let begun = leave_serving(shared, next);
    if begun {
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            if timeout.is_zero() {
                sleep(&shared, shared.config.shutdown.abort_exit).await;
            } else {
                drain(&shared, timeout).await;
            }
            shared.exit();
        });
    }
    begun
}

/// The engine process dies. `false` if the engine was not serving.
pub(crate) fn engine_dies(shared: &Arc<Shared>) -> bool {
    let begun = leave_serving(shared, Phase::EngineDead);
    if begun {
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            sleep(&shared, shared.config.shutdown.dead_exit).await;
            shared.exit();
        });
    }
    begun
}

fn leave_serving(shared: &Shared, next: Phase) -> bool {
    let begun = shared.phase.send_if_modified(|phase| {
        let serving = *phase == Phase::Serving;
        if serving {
            *phase = next;
        }
        serving
    });
    shared.recorder.touch();
    begun
}

async fn drain(shared: &Shared, timeout: Duration) {
    let deadline = shared.clock.real(shared.clock.now().saturating_add(nanos(timeout)));
    match tokio::time::timeout_at(deadline.into(), shared.active.zero()).await {
        Ok(()) => sleep(shared, shared.config.shutdown.drain_exit).await,
        Err(_) => {
            shared.set_phase(Phase::Frozen);
            shared.connections.zero().await;
            sleep(shared, shared.config.shutdown.frozen_exit).await;
        }
    }
}

/// Sleeps a virtual duration.
pub(crate) async fn sleep(shared: &Shared, length: Duration) {
    tokio::time::sleep(shared.clock.real_duration(length)).await;
}
