//! Signals that end a command.

use tokio::signal::unix::{SignalKind, signal};

/// Waits for Ctrl-C or SIGTERM; for ever, if neither can be listened to.
pub(crate) async fn stopped() {
    let Ok(mut term) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => if interrupt.is_err() {
            std::future::pending::<()>().await;
        },
        _ = term.recv() => {}
    }
}
