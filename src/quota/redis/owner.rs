//! The one task that owns the connection: sends what the machine says, tells it what comes back,
//! connects again when the connection is gone.
//!
//! ```text
//!   Apart ──▶ Connecting ──▶ Standing ──▶ Apart      after a fault that ends the connection,
//!     ▲            │                                 or several commands without an answer
//!     └────────────┘ after a pause that grows
//! ```

use super::clock;
use super::link::{self, Confirm, Connected, Fault, Heard, Hints, Link, Target};
use super::shared::Shared;
use super::wire::Encoder;
use crate::config::RedisForm;
use crate::core::quota::{StoreFault, StoreMeter, StoreOp};
use crate::quota::replica::{Answer, Call, Command, Token};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use rand::Rng;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

/// First and longest pause before another connection.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// So many commands in a row without an answer end a connection.
const SILENT: u32 = 3;

/// The owner's tools.
pub(super) struct Owner {
    pub shared: Arc<Shared>,
    pub target: Arc<Target>,
    pub encoder: Arc<Encoder>,
    pub confirm: Option<Confirm>,
    /// Longest wait for one answer.
    pub timeout: Duration,
    /// Between two looks at where the sentinels lead; well inside a lease.
    pub watch: Duration,
    pub meter: Arc<dyn StoreMeter>,
}

enum Line {
    Apart { until: Instant },
    Connecting(BoxFuture<'static, Result<Connected, Fault>>, Instant),
    Standing { link: Link, hints: Hints, _watch: Option<AbortOnDropHandle<()>> },
}

/// The connection and how it has been doing.
struct State {
    line: Line,
    /// Counts connections: a call knows over which it went.
    serial: u64,
    /// Connections that failed in a row.
    failures: u32,
    /// Commands in a row without an answer.
    silent: u32,
}

/// A call that is over.
struct Done {
    token: Token,
    op: StoreOp,
    serial: u64,
    took: Duration,
    answer: Result<Answer, Fault>,
}

enum Happened {
    Woken,
    Done(Done),
    Heard(Option<Heard>),
    Connected(Result<Connected, Fault>),
}

impl Owner {
    /// Runs until it is aborted.
    pub async fn run(self) {
        let mut calls = FuturesUnordered::new();
        let line = Line::Apart { until: Instant::now() };
        let mut state = State { line, serial: 0, failures: 0, silent: 0 };
        loop {
            let next = self.send(&state, &calls);
            match self.wait(&mut state, &mut calls, next).await {
                Happened::Woken => {}
                Happened::Done(done) => self.done(&mut state, done),
                Happened::Heard(Some(Heard::Hint(hint))) => {
                    self.shared.with(|machine, now| machine.hint(&hint, now));
                }
                // A cluster's client mends the connections to its nodes itself.
                Happened::Heard(Some(Heard::Gone)) if *self.target.form() == RedisForm::Cluster => {
                }
                Happened::Heard(Some(Heard::Moved)) => {
                    let text = "the sentinels lead to another primary";
                    self.apart(&mut state, &Fault::new(StoreFault::ReadOnly, text));
                }
                Happened::Heard(Some(Heard::Gone) | None) => {
                    let fault = Fault::new(StoreFault::Unreachable, "the connection was closed");
                    self.apart(&mut state, &fault);
                }
                Happened::Connected(result) => self.connected(&mut state, result),
            }
        }
    }

    /// Send what is due; when to look again.
    fn send(&self, state: &State, calls: &FuturesUnordered<BoxFuture<'static, Done>>) -> Instant {
        let (due, next) = self.shared.with(|machine, now| (machine.poll(now), machine.next(now)));
        if let Line::Standing { link, .. } = &state.line {
            for call in due {
                calls.push(self.call(link.clone(), state.serial, call));
            }
        }
        Instant::now() + next.saturating_sub(clock::now())
    }

    fn call(&self, link: Link, serial: u64, call: Call) -> BoxFuture<'static, Done> {
        let within = self.timeout;
        Box::pin(async move {
            let Call { token, command } = call;
            let op = match command {
                Command::Join(_) => StoreOp::Join,
                Command::Beat(_) => StoreOp::Beat,
                Command::Set(_) => StoreOp::Set,
                Command::Look => StoreOp::Look,
            };
            let begun = Instant::now();
            let answer = link.call(&command, within).await;
            Done { token, op, serial, took: begun.elapsed(), answer }
        })
    }

    /// The next thing that happens. Cancel-safe in all its branches: nothing is lost when another
    /// one wins.
    async fn wait(
        &self,
        state: &mut State,
        calls: &mut FuturesUnordered<BoxFuture<'static, Done>>,
        next: Instant,
    ) -> Happened {
        let line = async {
            match &mut state.line {
                Line::Apart { until } => {
                    sleep_until(*until).await;
                    Happened::Woken
                }
                Line::Connecting(connecting, _) => Happened::Connected(connecting.await),
                Line::Standing { hints, .. } => Happened::Heard(hints.recv().await),
            }
        };
        let happened = tokio::select! {
            Some(done) = calls.next() => Happened::Done(done),
            happened = line => happened,
            () = self.shared.wake.notified() => Happened::Woken,
            () = sleep_until(next) => Happened::Woken,
        };
        if matches!(&state.line, Line::Apart { until } if *until <= Instant::now()) {
            let (target, encoder) = (Arc::clone(&self.target), Arc::clone(&self.encoder));
            let connecting = Box::pin(link::connect(target, encoder, self.confirm, self.watch));
            state.line = Line::Connecting(connecting, Instant::now());
        }
        happened
    }

    fn connected(&self, state: &mut State, result: Result<Connected, Fault>) {
        let begun = match &state.line {
            Line::Connecting(_, begun) => *begun,
            Line::Apart { .. } | Line::Standing { .. } => Instant::now(),
        };
        let fault = result.as_ref().err().map(|fault| fault.fault);
        self.meter.operation(StoreOp::Connect, begun.elapsed(), fault);
        match result {
            Ok(Connected { link, hints, deaf, watch }) => {
                if let Some(fault) = deaf {
                    let costs = "waiting for others takes up to half a second longer";
                    self.shared.journal.deaf(&fault, costs);
                }
                state.serial += 1;
                state.silent = 0;
                state.line = Line::Standing { link, hints, _watch: watch };
                self.shared.with(|machine, now| machine.connected(now));
            }
            Err(fault) => {
                self.shared.journal.fault(StoreOp::Connect.as_str(), &fault);
                self.apart(state, &fault);
            }
        }
    }

    fn done(&self, state: &mut State, done: Done) {
        let Done { token, op, serial, took, answer } = done;
        self.meter.operation(op, took, answer.as_ref().err().map(|fault| fault.fault));
        let outcome = match &answer {
            Ok(answer) => Ok(answer.clone()),
            Err(fault) => Err(fault.fault),
        };
        self.shared.with(|machine, now| machine.answered(&token, outcome, now));
        self.shared.progress.notify_waiters();
        match answer {
            Ok(_) if serial == state.serial => (state.silent, state.failures) = (0, 0),
            Ok(_) => {}
            Err(fault) => {
                self.shared.journal.fault(op.as_str(), &fault);
                self.failed(state, serial, &fault);
            }
        }
    }

    fn failed(&self, state: &mut State, serial: u64, fault: &Fault) {
        if serial != state.serial || !matches!(state.line, Line::Standing { .. }) {
            return;
        }
        state.silent = if fault.fault == StoreFault::Timeout { state.silent + 1 } else { 0 };
        if fault.ends_connection() || state.silent >= SILENT {
            self.apart(state, fault);
        }
    }

    /// Give the connection up and make another after a pause; the first at once.
    fn apart(&self, state: &mut State, fault: &Fault) {
        let pause = match state.failures {
            0 => Duration::ZERO,
            n => {
                let pause = PAUSE.0.saturating_mul(1 << n.min(8)).min(PAUSE.1);
                pause.mul_f64(rand::rng().random_range(0.5..=1.0))
            }
        };
        state.failures = state.failures.saturating_add(1);
        state.line = Line::Apart { until: Instant::now() + pause };
        self.shared.with(|machine, now| machine.disconnected(fault.fault, now));
    }
}
