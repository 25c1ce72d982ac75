//! L2: the drain of this process, from the first signal to the exit code.
//!
//! The rules are the state machine of [`core::drain`](crate::core::drain), with its diagram and
//! every edge. Here one task owns it: it hears commands, time and the end of traffic, and does
//! what the machine says (close the queue, cut the streams). Everybody else holds a
//! [`Lifecycle`], a cheap handle, or a `watch` from it. Nothing here waits for a connection.

mod endpoints;
mod owner;
#[cfg(test)]
mod tests;

pub use endpoints::EndpointDrainHandle;

use crate::config;
use crate::core::drain::{DrainRules, Farewell};
use crate::core::drain_port::{DrainPort, DrainWait};
use crate::core::observe::DrainPhase;
use crate::core::traffic::Traffic;
use futures::future::BoxFuture;
use owner::Owner;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

/// The handle of the drain. Clones share it; the last one ends the owner task.
#[derive(Clone)]
pub struct Lifecycle(Arc<Shared>);

struct Shared {
    commands: mpsc::UnboundedSender<Command>,
    status: watch::Receiver<Status>,
    /// Leaves from the first command on, before the owner has heard of it.
    farewell: watch::Sender<Farewell>,
    begun: OnceLock<Instant>,
    traffic: Arc<dyn Traffic>,
    _owner: AbortOnDropHandle<()>,
}

/// What is asked of the owner. Carries its time, so that a busy owner shortens nothing.
#[derive(Clone, Copy, Debug)]
enum Command {
    Begin(Instant),
    Terminate(Instant),
}

/// Where the drain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    pub phase: DrainPhase,
    /// How the drain ended, once it has.
    pub end: Option<DrainWait>,
    /// The exit code, once the process should end.
    pub exit: Option<u8>,
}

impl Lifecycle {
    /// Start serving. Must be called inside a runtime.
    pub fn start(drain: &config::Drain, traffic: Arc<dyn Traffic>) -> Self {
        let rules = DrainRules {
            propagation: drain.propagation,
            deadline: drain.deadline,
            cut_margin: drain.cut_margin,
        };
        let (commands, inbox) = mpsc::unbounded_channel();
        let farewell = watch::Sender::default();
        let (owner, status) = Owner::new(rules, Arc::clone(&traffic), inbox, farewell.clone());
        Self(Arc::new(Shared {
            commands,
            status,
            farewell,
            begun: OnceLock::new(),
            traffic,
            _owner: AbortOnDropHandle::new(tokio::spawn(owner.run())),
        }))
    }

    /// Begin the drain (a preStop call, an operator). A drain that has begun goes on unchanged.
    /// When this returns, [`phase`](Self::phase) is past Serving.
    pub fn begin(&self) {
        self.command(Command::Begin);
    }

    /// SIGTERM was received: begin the drain if it has not begun, and end the process after it.
    /// The second time, cut at once.
    pub fn terminate(&self) {
        self.command(Command::Terminate);
    }

    /// Where the drain is now.
    pub fn phase(&self) -> DrainPhase {
        match (self.0.status.borrow().phase, self.0.begun.get()) {
            (DrainPhase::Serving, Some(_)) => DrainPhase::LameDuck,
            (phase, _) => phase,
        }
    }

    /// Time since the drain began; `None` while serving.
    pub fn since(&self) -> Option<Duration> {
        self.0.begun.get().map(Instant::elapsed)
    }

    /// Changes of the drain.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.0.status.clone()
    }

    /// What this means for the connections of clients.
    pub fn farewell(&self) -> watch::Receiver<Farewell> {
        self.0.farewell.subscribe()
    }

    /// Wait at most `limit` for the end of the drain, which this does not begin. A cut is over
    /// when the cut streams have ended. Cancel-safe.
    pub fn wait(&self, limit: Duration) -> impl Future<Output = DrainWait> + Send + use<> {
        let (mut status, traffic) = (self.0.status.clone(), Arc::clone(&self.0.traffic));
        async move {
            let ended = timeout(limit, status.wait_for(|status| status.end.is_some())).await;
            let end = ended.ok().and_then(Result::ok).and_then(|status| status.end);
            end.unwrap_or_else(|| DrainWait::TimedOut { in_flight: traffic.in_flight() })
        }
    }

    /// Resolves to the exit code when the process should end: 0 drained, 2 streams were cut.
    /// Cancel-safe.
    pub async fn exit(&self) -> u8 {
        let mut status = self.0.status.clone();
        match status.wait_for(|status| status.exit.is_some()).await {
            Ok(status) => status.exit.unwrap_or(0),
            // The owner never ends while a handle lives; without it nothing can be waited for.
            Err(_) => 1,
        }
    }

    fn command(&self, command: impl Fn(Instant) -> Command) {
        let now = Instant::now();
        self.0.begun.get_or_init(|| now);
        self.0.farewell.send_if_modified(|farewell| {
            let first = *farewell == Farewell::Stays;
            *farewell = (*farewell).max(Farewell::Leaves);
            first
        });
        // Fails only without an owner, see `exit`.
        let _ = self.0.commands.send(command(now));
    }
}

impl DrainPort for Lifecycle {
    fn begin(&self) {
        Self::begin(self);
    }

    fn wait(&self, limit: Duration) -> BoxFuture<'static, DrainWait> {
        Box::pin(Self::wait(self, limit))
    }

    fn phase(&self) -> DrainPhase {
        Self::phase(self)
    }
}
