//! The task that owns this replica's side of all endpoint drains.

use super::asks::Asks;
use super::{Command, Settled};
use crate::core::endpoint_drain::{Action, Desk, Dispatch, EndpointDrainState, Stage, View};
use crate::core::endpoint_drain_port::{BoardStatus, DrainBoard, EndpointsPort};
use crate::core::ids::EndpointId;
use crate::core::quota::StoreFault;
use futures::future::{BoxFuture, FutureExt};
use rand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// How often this replica counts what it has at an endpoint that drains.
const COUNT: Duration = Duration::from_millis(50);
/// Without a hint, the board is read again after this: while something drains, and else.
const READ_BUSY: Duration = Duration::from_millis(500);
const READ_IDLE: Duration = Duration::from_secs(2);
/// Pause after an exchange without an answer: while something drains or is to be told or asked,
/// and else.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_IDLE: Duration = Duration::from_secs(1);
/// How long a process that ends tries to have the board know how far it came.
const LAST_WORD: Duration = Duration::from_millis(500);

/// What everybody may know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct States {
    /// The board was read.
    pub read: bool,
    pub board: BoardStatus,
    /// This process ends; nobody should wait for it.
    pub closing: bool,
    pub by_endpoint: BTreeMap<EndpointId, EndpointDrainState>,
}

impl States {
    pub fn of(&self, endpoint: &EndpointId) -> Option<&EndpointDrainState> {
        self.by_endpoint.get(endpoint)
    }
}

pub(super) struct Owner {
    desk: Desk,
    endpoints: Arc<dyn EndpointsPort>,
    board: Arc<dyn DrainBoard>,
    inbox: mpsc::UnboundedReceiver<Command>,
    states: watch::Sender<States>,
    asks: Asks,
    /// What the board was last told and took.
    told: Option<Dispatch>,
    read_at: Instant,
    /// The process ends; whoever waits is told at the latest then.
    closing: Option<Instant>,
}

/// What woke the task.
enum Woken {
    Command(Option<Command>),
    Answer(Result<View, StoreFault>),
    Board,
    Other,
}

type Exchange = Option<(Dispatch, BoxFuture<'static, Result<View, StoreFault>>)>;

impl Owner {
    pub fn new(
        name: &str,
        margin: Duration,
        endpoints: Arc<dyn EndpointsPort>,
        board: Arc<dyn DrainBoard>,
        inbox: mpsc::UnboundedReceiver<Command>,
    ) -> (Self, watch::Receiver<States>) {
        let (states, receiver) = watch::channel(States::default());
        let desk = Desk::new(name, margin);
        let read_at = Instant::now();
        let (asks, told, closing) = (Asks::default(), None, None);
        (Self { desk, endpoints, board, inbox, states, asks, told, read_at, closing }, receiver)
    }

    /// Runs until the last handle is gone.
    pub async fn run(mut self) {
        let mut exchange: Exchange = None;
        loop {
            self.turn();
            self.give_up();
            if exchange.is_none() {
                exchange = self.next_exchange();
            }
            match self.wait(&mut exchange).await {
                Woken::Command(None) => return,
                Woken::Command(Some(command)) => self.command(command),
                Woken::Answer(answer) => {
                    let sent = exchange.take().map(|(dispatch, _)| dispatch);
                    self.answered(sent, answer);
                }
                Woken::Board => self.read_at = Instant::now(),
                Woken::Other => {}
            }
        }
    }

    /// Look around, do what follows, and tell everybody.
    fn turn(&mut self) {
        let now = Instant::now().into_std();
        // First: what is to be served again must not look as if it drained by itself.
        self.act();
        for endpoint in self.endpoints.draining() {
            self.desk.noticed(&endpoint, now);
        }
        self.act();
        let endpoints = Arc::clone(&self.endpoints);
        self.desk.look(now, |endpoint| endpoints.seen(endpoint));
        self.act();
        self.publish();
    }

    fn act(&mut self) {
        for action in self.desk.take_actions() {
            match &action {
                Action::Stop(endpoint) => self.endpoints.stop(endpoint),
                Action::Mark(endpoint, since) => self.endpoints.mark(endpoint, *since),
                Action::Serve(endpoint) => self.endpoints.serve(endpoint),
                Action::Cut(endpoint) => self.cut(endpoint),
            }
        }
    }

    fn cut(&self, endpoint: &EndpointId) {
        let cut = self.endpoints.cut(endpoint);
        let before = self.states.borrow().of(endpoint).map(|state| state.state);
        if before != Some(Stage::Cut) {
            tracing::warn!(%endpoint, cut, "the endpoint's deadline passed; its streams are cut");
        }
    }

    fn publish(&self) {
        let now = Instant::now().into_std();
        let by_endpoint = self.desk.states(now, |endpoint| self.endpoints.seen(endpoint));
        self.tell(&by_endpoint);
        let closing = self.has_said_all();
        self.states.send_modify(|states| {
            states.by_endpoint = by_endpoint;
            states.closing |= closing;
        });
    }

    /// The process ends, and its last counts were taken by the board or need not be: what is then
    /// published is final.
    fn has_said_all(&self) -> bool {
        let Some(until) = self.closing else { return false };
        !self.desk.is_busy() || Instant::now() >= until || !self.has_news(&self.dispatch())
    }

    /// Log what changed.
    fn tell(&self, after: &BTreeMap<EndpointId, EndpointDrainState>) {
        let before = self.states.borrow();
        for (endpoint, state) in after {
            let stage = before.of(endpoint).map(|state| (state.state, state.cause));
            if stage != Some((state.state, state.cause)) {
                let (to, in_flight) = (state.state.as_str(), state.in_flight);
                let (confirmed, of) = (state.confirmed(), state.replicas.len());
                let cause = state.cause;
                tracing::info!(%endpoint, state = to, cause, in_flight, confirmed, of, "endpoint drain");
            }
        }
    }

    /// The next question to the board, if it is time for one: at once when there is something to
    /// tell, else when it is to be read again.
    fn next_exchange(&mut self) -> Exchange {
        let now = Instant::now();
        let dispatch = self.dispatch();
        let news = self.has_news(&dispatch) || self.asks.are_unsent();
        let failing = self.told.is_none() && now < self.read_at;
        let due = now >= self.read_at || (news && !failing);
        due.then(|| {
            self.asks.send();
            let (board, said) = (Arc::clone(&self.board), dispatch.clone());
            (dispatch, async move { board.exchange(said).await }.boxed())
        })
    }

    fn dispatch(&self) -> Dispatch {
        let now = Instant::now().into_std();
        self.desk.dispatch(now, |endpoint| self.endpoints.seen(endpoint))
    }

    /// Whether the board has not taken all of this yet.
    fn has_news(&self, dispatch: &Dispatch) -> bool {
        !dispatch.entries.is_empty()
            || self.told.as_ref().is_none_or(|told| told.shares != dispatch.shares)
    }

    /// The next thing that happens. Cancel-safe in all its branches.
    async fn wait(&mut self, exchange: &mut Exchange) -> Woken {
        let busy = self.desk.is_busy();
        let now = Instant::now();
        let reading = exchange.is_some();
        let next = if busy { (now + COUNT).min(self.read_at.max(now)) } else { self.read_at };
        let next = if reading || next <= now { now + COUNT } else { next };
        let next = self.asks.next().map_or(next, |over| next.min(over));
        let answer = async {
            match exchange {
                Some((_, answer)) => answer.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = self.inbox.recv() => Woken::Command(command),
            answer = answer => Woken::Answer(answer),
            () = self.board.changed() => Woken::Board,
            () = self.endpoints.changed() => Woken::Other,
            () = sleep_until(next) => Woken::Other,
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Order { endpoint, wait, at, done } => {
                tracing::info!(%endpoint, wait_seconds = wait.as_secs_f64(), "endpoint drain ordered");
                self.desk.order(&endpoint, wait, at.into_std());
                self.turn();
                // Whoever asked may have left.
                let _ = done.send(());
            }
            Command::Restore { endpoint, at, done } => {
                if self.desk.restore(&endpoint, at.into_std()) {
                    self.turn();
                    let _ = done.send(Settled::PutBack);
                } else {
                    self.asks.push(endpoint, at, done);
                    // Also in the pause after a failure.
                    self.read_at = Instant::now();
                }
            }
            Command::Close => {
                self.closing.get_or_insert(Instant::now() + LAST_WORD);
            }
        }
    }

    /// Restorations whose time is over, and those after which something drained here, wait no
    /// longer for the board.
    fn give_up(&mut self) {
        let (now, closing, desk) = (Instant::now(), self.closing.is_some(), &self.desk);
        let over =
            self.asks.take(|ask| closing || ask.until() <= now || desk.drains(&ask.endpoint));
        if over.is_empty() {
            return;
        }
        for ask in &over {
            if !self.desk.drains(&ask.endpoint) {
                self.desk.restore_unheard(&ask.endpoint, ask.at.into_std());
            }
        }
        self.turn();
        over.into_iter().for_each(|ask| ask.settle(Settled::Unheard));
    }

    fn answered(&mut self, sent: Option<Dispatch>, answer: Result<View, StoreFault>) {
        let now = Instant::now();
        match answer {
            Ok(view) => {
                self.desk.heard(view, now.into_std());
                let desk = &mut self.desk;
                let settled = self.asks.answered(|endpoint| desk.restore(endpoint, now.into_std()));
                self.told = sent;
                self.read_at = now + self.pause();
                self.turn();
                self.states.send_modify(|states| {
                    states.read = true;
                    states.board.up = true;
                });
                settled.into_iter().for_each(|(ask, settled)| ask.settle(settled));
            }
            Err(fault) => {
                self.desk.lost();
                self.told = None;
                let busy = self.desk.is_busy() || self.asks.are_any();
                self.read_at = now + jittered(if busy { PAUSE } else { PAUSE_IDLE });
                let board = BoardStatus { up: false, last_fault: Some(fault) };
                self.states.send_modify(|states| states.board = board);
            }
        }
    }

    fn pause(&self) -> Duration {
        match (self.board.is_shared(), self.desk.is_busy()) {
            (true, true) => jittered(READ_BUSY),
            _ => jittered(READ_IDLE),
        }
    }
}

/// Up to a quarter earlier, so that replicas do not ask in step.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::rng().random_range(0.75..=1.0))
}
