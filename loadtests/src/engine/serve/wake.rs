//! Waiting for the next thing to happen to a generation.

use std::time::Instant;

use tokio::sync::watch;

use crate::engine::backend::{Source, Tick};
use crate::engine::phase::Phase;
use crate::http1::Io;

/// Why a stream goes on.
pub(super) enum Wake {
    Token(Tick),
    /// The engine ends or freezes its streams.
    Phase(Phase),
    Gone,
    /// Nothing for the keep-alive interval.
    Silent,
}

/// Waits for the next thing to happen to a generation.
pub(super) async fn wake(
    io: &mut Io,
    source: Option<&mut Source>,
    phase: &mut watch::Receiver<Phase>,
    silent_at: Option<Instant>,
) -> Wake {
    let ended = |p: &Phase| matches!(p, Phase::Aborting | Phase::Frozen | Phase::EngineDead);
    let token = async {
        match source {
            Some(source) => source.next().await,
            None => std::future::pending().await,
        }
    };
    let silence = async {
        match silent_at {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        phase = phase.wait_for(ended) => match phase {
            Ok(phase) => Wake::Phase(*phase),
            // The engine is gone, and with it soon this connection.
            Err(_) => Wake::Gone,
        },
        () = io.closed() => Wake::Gone,
        tick = token => Wake::Token(tick),
        () = silence => Wake::Silent,
    }
}
