//! The task that owns the drain.

use super::{Command, Status};
use crate::core::drain::{Action, DrainMachine, DrainRules, Event, Farewell};
use crate::core::drain_port::DrainWait;
use crate::core::observe::DrainPhase;
use crate::core::traffic::Traffic;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

pub(super) struct Owner {
    machine: DrainMachine,
    traffic: Arc<dyn Traffic>,
    inbox: mpsc::UnboundedReceiver<Command>,
    status: watch::Sender<Status>,
    farewell: watch::Sender<Farewell>,
    /// Streams that had to be cut.
    cut: u64,
}

impl Owner {
    pub(super) fn new(
        rules: DrainRules,
        traffic: Arc<dyn Traffic>,
        inbox: mpsc::UnboundedReceiver<Command>,
        farewell: watch::Sender<Farewell>,
    ) -> (Self, watch::Receiver<Status>) {
        let serving = Status { phase: DrainPhase::Serving, end: None, exit: None };
        let (status, receiver) = watch::channel(serving);
        let machine = DrainMachine::new(rules);
        (Self { machine, traffic, inbox, status, farewell, cut: 0 }, receiver)
    }

    /// Runs until the last handle is gone.
    pub(super) async fn run(mut self) {
        while let Some((event, at)) = self.next_event().await {
            for action in self.machine.on(event, at.into_std()) {
                self.perform(*action);
            }
            self.publish(event);
        }
    }

    async fn next_event(&mut self) -> Option<(Event, Instant)> {
        let wakes_at = self.machine.wakes_at().map(Instant::from_std);
        tokio::select! {
            // Commands first, then a good end rather than a cut at the same moment.
            biased;
            command = self.inbox.recv() => command.map(|command| match command {
                Command::Begin(at) => (Event::Begin, at),
                Command::Terminate(at) => (Event::Terminate, at),
            }),
            () = self.traffic.idle(), if self.machine.awaits_idle() => {
                Some((Event::Idle, Instant::now()))
            }
            () = sleep_until_some(wakes_at) => Some((Event::Tick, Instant::now())),
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Close => {
                self.traffic.close();
                self.farewell.send_replace(Farewell::Refuses);
            }
            Action::Cut => self.cut = self.traffic.cut(),
        }
    }

    fn publish(&self, event: Event) {
        let phase = self.machine.phase();
        let end = self.machine.has_ended().then_some(match phase {
            DrainPhase::Drained => DrainWait::Drained,
            _ => DrainWait::TimedOut { in_flight: self.cut },
        });
        let status = Status { phase, end, exit: self.machine.exit() };
        let before = *self.status.borrow();
        if before.phase != status.phase {
            let in_flight = self.traffic.in_flight();
            tracing::info!(phase = phase.as_str(), cause = cause(event), in_flight, "drain");
        }
        if before.end.is_none() && status.end.is_some() {
            self.summarise();
        }
        self.status.send_replace(status);
    }

    fn summarise(&self) {
        let began = self.machine.start().map(Instant::from_std);
        let seconds = began.map_or(0.0, |began| began.elapsed().as_secs_f64());
        let phase = self.machine.phase().as_str();
        let (cut, left) = (self.cut, self.traffic.in_flight());
        if cut == 0 && left == 0 {
            tracing::info!(phase, seconds, "the drain has ended; no stream was cut");
        } else {
            tracing::warn!(phase, seconds, cut, left, "the drain has ended; streams were cut");
        }
    }
}

const fn cause(event: Event) -> &'static str {
    match event {
        Event::Begin => "prestop",
        Event::Terminate => "sigterm",
        Event::Idle => "idle",
        Event::Tick => "time",
    }
}

async fn sleep_until_some(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
