//! The drains of engine endpoints, agreed by all replicas.
//!
//! The rules are those of [`core::endpoint_drain`](crate::core::endpoint_drain), with their
//! diagram. Here one task owns this replica's side: it hears orders, what the endpoints do by
//! themselves, what the board says and the time; it stops, serves and cuts endpoints as the rules
//! say, and tells the board. Everybody else holds an [`EndpointDrainHandle`].

mod asks;
mod owner;
#[cfg(test)]
mod tests;

use crate::core::endpoint_drain::{EndpointDrainState, Stage};
use crate::core::endpoint_drain_port::{
    BoardStatus, DrainBoard, EndpointDrains, EndpointWait, EndpointsPort, Restoration,
    UnknownEndpoint,
};
use crate::core::ids::EndpointId;
use asks::TOLD;
use futures::future::BoxFuture;
use owner::{Owner, States};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

/// The handle of all endpoint drains. Clones share it; the last one ends the owner task.
#[derive(Clone)]
pub struct EndpointDrainHandle(Arc<Shared>);

struct Shared {
    commands: mpsc::UnboundedSender<Command>,
    states: watch::Receiver<States>,
    endpoints: Arc<dyn EndpointsPort>,
    _owner: AbortOnDropHandle<()>,
}

/// What is asked of the owner. Answered when it was acted on.
enum Command {
    Order {
        endpoint: EndpointId,
        wait: Duration,
        at: Instant,
        done: oneshot::Sender<()>,
    },
    /// Answered within [`TOLD`] of `at`.
    Restore {
        endpoint: EndpointId,
        at: Instant,
        done: oneshot::Sender<Settled>,
    },
    Close,
}

/// What was found out for a restoration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// It drained; the word that it serves is said.
    PutBack,
    /// The board said after the call that it drains nowhere.
    NotDrained,
    /// The board did not answer in time; the word that it serves is said unless it drains by now.
    Unheard,
}

impl EndpointDrainHandle {
    /// Begin to follow the board. Must be called inside a runtime. `name` must be unlike that of
    /// every other process that uses the board; `margin`: how long before an engine's own end its
    /// streams are cut.
    pub fn start(
        name: &str,
        margin: Duration,
        endpoints: Arc<dyn EndpointsPort>,
        board: Arc<dyn DrainBoard>,
    ) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let (owner, states) = Owner::new(name, margin, Arc::clone(&endpoints), board, inbox);
        let owner = AbortOnDropHandle::new(tokio::spawn(owner.run()));
        Self(Arc::new(Shared { commands, states, endpoints, _owner: owner }))
    }

    /// Wait until the board was read once, at most for `limit`: what drains already is not chosen
    /// from then on. Cancel-safe.
    pub async fn ready(&self, limit: Duration) -> bool {
        let mut states = self.0.states.clone();
        let read = states.wait_for(|states| states.read);
        timeout(limit, read).await.is_ok_and(|read| read.is_ok())
    }

    /// This process ends: the board learns how far it has come, which takes half a second at the
    /// most, and whoever waits is told. Cancel-safe; the closing goes on without its caller.
    pub async fn close(&self) {
        let mut states = self.0.states.clone();
        let _ = self.0.commands.send(Command::Close);
        // Fails only without an owner, and then nobody waits.
        let _ = states.wait_for(|states| states.closing).await;
    }

    fn check(&self, endpoint: &EndpointId) -> Result<(), UnknownEndpoint> {
        let seen = self.0.endpoints.seen(endpoint);
        let spoken_of = self.0.states.borrow().of(endpoint).is_some();
        if seen.phase.is_some() || seen.pod || spoken_of {
            return Ok(());
        }
        Err(UnknownEndpoint { known: self.0.endpoints.known() })
    }

    async fn order(&self, endpoint: &EndpointId, wait: Duration, at: Instant) {
        let (done, acted) = oneshot::channel();
        // Fails only without an owner, which lives as long as this handle.
        let _ = self.0.commands.send(Command::Order { endpoint: endpoint.clone(), wait, at, done });
        let _ = acted.await;
    }

    async fn put_back(&self, endpoint: &EndpointId, at: Instant) -> Settled {
        let (done, settled) = oneshot::channel();
        let _ = self.0.commands.send(Command::Restore { endpoint: endpoint.clone(), at, done });
        settled.await.unwrap_or(Settled::Unheard)
    }

    /// The state of `endpoint` once it `holds`, or at `until`.
    async fn state_when(
        &self,
        endpoint: &EndpointId,
        until: Instant,
        holds: impl Fn(Option<&EndpointDrainState>) -> bool,
    ) -> Option<EndpointDrainState> {
        let mut states = self.0.states.clone();
        let met = states.wait_for(|states| states.closing || holds(states.of(endpoint)));
        let met = timeout_at(until, met).await.ok().and_then(Result::ok);
        let met = met.and_then(|states| states.of(endpoint).cloned());
        met.or_else(|| self.0.states.borrow().of(endpoint).cloned())
    }
}

impl EndpointDrains for EndpointDrainHandle {
    fn drain(
        &self,
        endpoint: EndpointId,
        limit: Duration,
    ) -> BoxFuture<'static, Result<EndpointWait, UnknownEndpoint>> {
        let this = self.clone();
        Box::pin(async move {
            let began = Instant::now();
            this.check(&endpoint)?;
            this.order(&endpoint, limit, began).await;
            let ended = |state: Option<&EndpointDrainState>| {
                state.is_some_and(|state| is_drained(state) || state.state == Stage::Restored)
            };
            let state = this.state_when(&endpoint, began + limit, ended).await;
            let state = state.ok_or_else(|| UnknownEndpoint { known: this.0.endpoints.known() })?;
            Ok(EndpointWait { drained: is_drained(&state), state })
        })
    }

    fn restore(
        &self,
        endpoint: EndpointId,
    ) -> BoxFuture<'static, Result<Restoration, UnknownEndpoint>> {
        let this = self.clone();
        Box::pin(async move {
            let began = Instant::now();
            this.check(&endpoint)?;
            let settled = this.put_back(&endpoint, began).await;
            let posted =
                |state: Option<&EndpointDrainState>| state.is_none_or(|state| state.posted);
            let state = this.state_when(&endpoint, began + TOLD, posted).await;
            if state.as_ref().is_some_and(EndpointDrainState::drains) {
                return Ok(Restoration::Overruled);
            }
            Ok(match (settled, posted(state.as_ref())) {
                (Settled::PutBack, true) => Restoration::Restored,
                (Settled::PutBack, false) => Restoration::RestoredHere,
                (Settled::NotDrained, true) => Restoration::NotDrained,
                // Something else that was said of it is not on the board yet.
                (Settled::NotDrained, false) | (Settled::Unheard, _) => Restoration::NotKnown,
            })
        })
    }

    fn states(&self) -> Vec<EndpointDrainState> {
        let states = self.0.states.borrow();
        states.by_endpoint.values().filter(|state| state.drains()).cloned().collect()
    }

    fn board(&self) -> BoardStatus {
        self.0.states.borrow().board
    }
}

/// Nothing of the process that was to be drained runs any more.
fn is_drained(state: &EndpointDrainState) -> bool {
    matches!(state.state, Stage::Drained | Stage::Replaced)
}
