//! The ports of the engine drain: to the endpoints of this process, to the board that all
//! replicas share, and to the drain itself.

use super::endpoint_drain::{Dispatch, EndpointDrainState, Seen, Stage, View};
use super::ids::EndpointId;
use super::quota::StoreFault;
use futures::future::BoxFuture;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The endpoints of this process, as drains see them. Nothing here blocks or does I/O.
pub trait EndpointsPort: Send + Sync {
    /// One endpoint now.
    fn seen(&self, endpoint: &EndpointId) -> Seen;

    /// Endpoints that are not chosen because they drain, for whatever reason.
    fn draining(&self) -> Vec<EndpointId>;

    /// Every endpoint that can be named, for whoever misspelt one.
    fn known(&self) -> Vec<EndpointId>;

    /// Do not choose it any more, now or when it becomes an endpoint of a pool. What was chosen
    /// before is counted when this returns.
    fn stop(&self, endpoint: &EndpointId);

    /// The same, because the engine said at `since` that it shuts down. Void if it is known to
    /// have been replaced after that.
    fn mark(&self, endpoint: &EndpointId, since: Instant);

    /// Undo [`stop`](Self::stop) and [`mark`](Self::mark).
    fn serve(&self, endpoint: &EndpointId);

    /// End what runs there: upstream connections are closed; clients that have seen something are
    /// told by an error event, the other requests may go elsewhere. How many requests there were;
    /// their ends are not waited for.
    fn cut(&self, endpoint: &EndpointId) -> usize;

    /// Resolves when an endpoint may have begun to drain, or come back, since this call or since
    /// the last one resolved. Cancel-safe.
    fn changed(&self) -> BoxFuture<'_, ()>;
}

/// What all replicas share about drains: see [`endpoint_drain`](super::endpoint_drain).
pub trait DrainBoard: Send + Sync {
    /// Say and read, in one step, within the store's operation timeout (and the time for a
    /// connection). Cancel-safe: a dropped exchange may have been executed all the same.
    fn exchange(&self, dispatch: Dispatch) -> BoxFuture<'_, Result<View, StoreFault>>;

    /// Resolves when the board may have changed since this call or since the last one resolved.
    /// Only a hint: it may come late, or never. Cancel-safe.
    fn changed(&self) -> BoxFuture<'_, ()>;

    /// Whether others may say something here: a board of one process needs no looking.
    fn is_shared(&self) -> bool;
}

/// How waiting for an endpoint's drain ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointWait {
    /// Nothing of any live replica runs there, confirmed by each.
    pub drained: bool,
    pub state: EndpointDrainState,
}

impl EndpointWait {
    /// An operator put the endpoint back in service while this waited.
    pub fn was_restored(&self) -> bool {
        self.state.state == Stage::Restored
    }
}

/// How the restoration of an endpoint ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restoration {
    /// It drained, and the board has the word that it serves again.
    Restored,
    /// It drained and serves again here. The others hear of it when the board does.
    RestoredHere,
    /// It drained nowhere: the board was asked after the call.
    NotDrained,
    /// It did not drain here, and the board could not be asked. The word that it serves is kept
    /// for the board, and ends drains that were ordered before the call.
    NotKnown,
    /// It drains all the same: somebody ordered it again, or the engine said so, after the call.
    Overruled,
}

/// Whether the board can be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BoardStatus {
    /// It answered the last question.
    pub up: bool,
    /// Why a question last had no answer, also after the board recovered.
    pub last_fault: Option<StoreFault>,
}

/// No endpoint of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEndpoint {
    /// Those that there are.
    pub known: Vec<EndpointId>,
}

/// Drains endpoints, fleet-wide.
pub trait EndpointDrains: Send + Sync {
    /// Order the drain of `endpoint`, or join the one under way, and wait at most `limit` for its
    /// end. When the future is first polled the order is given; dropping it ends the waiting and
    /// not the drain.
    fn drain(
        &self,
        endpoint: EndpointId,
        limit: Duration,
    ) -> BoxFuture<'static, Result<EndpointWait, UnknownEndpoint>>;

    /// Put `endpoint` back in service. Resolves once the board has the word or knows of no drain,
    /// or after a short while without its answer. Dropping the future, once polled, ends the
    /// waiting and not the restoration.
    fn restore(
        &self,
        endpoint: EndpointId,
    ) -> BoxFuture<'static, Result<Restoration, UnknownEndpoint>>;

    /// Every endpoint that drains.
    fn states(&self) -> Vec<EndpointDrainState>;

    /// Whether drains can be agreed.
    fn board(&self) -> BoardStatus;
}
