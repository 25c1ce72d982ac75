//! What the user sees while a run goes on.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::live::{Live, Snapshot};
use crate::record::Outcome;

const ON_TERMINAL: Duration = Duration::from_millis(250);
const OTHERWISE: Duration = Duration::from_secs(10);

/// A bar on a terminal, a line now and then otherwise.
pub(super) struct Progress {
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Progress {
    pub(super) fn start(live: &Live, show: bool) -> Self {
        let stop = CancellationToken::new();
        let task = show.then(|| tokio::spawn(refresh(live.clone(), stop.clone())));
        Self { stop, task }
    }

    /// Shows the last state and ends.
    pub(super) async fn finish(self) {
        self.stop.cancel();
        if let Some(task) = self.task {
            // A panic in the display is no reason to lose the run.
            let _ = task.await;
        }
    }
}

async fn refresh(live: Live, stop: CancellationToken) {
    let terminal = std::io::stderr().is_terminal();
    let bar = terminal.then(bar);
    let every = if terminal { ON_TERMINAL } else { OTHERWISE };
    let mut last = (Instant::now(), 0);
    loop {
        let ended = tokio::select! {
            () = stop.cancelled() => true,
            () = tokio::time::sleep(every) => false,
        };
        let now = live.snapshot();
        let rate = (now.decided - last.1) as f64 / last.0.elapsed().as_secs_f64().max(1e-3);
        last = (Instant::now(), now.decided);
        match &bar {
            Some(bar) => {
                bar.set_length(now.planned.max(now.decided));
                bar.set_position(now.decided);
                bar.set_message(line(&now, rate));
            }
            None => eprintln!("{}/{} {}", now.decided, now.planned, line(&now, rate)),
        }
        if ended {
            if let Some(bar) = bar {
                bar.abandon();
            }
            return;
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    let template = "{elapsed_precise} {bar:24} {pos}/{len} {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn line(now: &Snapshot, rate: f64) -> String {
    format!(
        "{} | {rate:.1}/s | in flight {} | good {} | refused {} | dropped {} | broken {}",
        now.phase,
        now.in_flight,
        now.good,
        now.of(Outcome::Refused),
        now.of(Outcome::DroppedArrival),
        now.of(Outcome::Broken) + now.of(Outcome::Failed),
    )
}
