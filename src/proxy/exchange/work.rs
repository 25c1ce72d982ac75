//! What is held while an engine works for a request.
//!
//! The slot, the place in the pool's demand and the count on the endpoint come back together, when
//! the engine's work has ended: its answer came whole, or its connection is closed and the engine
//! has closed its side too. They come back **before** the client is given the last bytes, so a
//! client that has seen the end may send its next request at once.

use crate::admission::{Holder, Permit};
use crate::proxy::engine::{EngineCall, Engines};
use crate::upstream::{DemandGuard, EndpointLease};
use tokio::sync::OwnedSemaphorePermit;

/// One admitted request at work.
pub(super) struct Work {
    pub permit: Permit,
    pub attempt: Option<Attempt>,
    _demand: DemandGuard,
    /// Room for one engine connection: attempts are made one after another.
    _room: OwnedSemaphorePermit,
}

/// One endpoint that was chosen, and the call to it.
pub(super) struct Attempt {
    pub lease: EndpointLease,
    pub call: Option<Box<EngineCall>>,
}

impl Work {
    pub fn new(permit: Permit, demand: DemandGuard, room: OwnedSemaphorePermit) -> Self {
        Self { permit, attempt: None, _demand: demand, _room: room }
    }

    pub fn holder(&self) -> &Holder {
        self.permit.holder()
    }

    /// The engine's work has ended: by itself if its answer came whole, else because we close.
    pub async fn end(mut self, engines: &Engines) {
        let Some(attempt) = &mut self.attempt else { return };
        engines.end(&mut attempt.call).await;
    }
}
