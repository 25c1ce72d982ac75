//! The endpoints of this process, as their drains see them: pools and holders together.

use crate::admission::Holders;
use crate::core::endpoint_drain::Seen;
use crate::core::endpoint_drain_port::EndpointsPort;
use crate::core::ids::EndpointId;
use crate::core::observe::EndpointPhase;
use crate::upstream::{Pool, Pools};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pools know which endpoint is chosen, holders what runs where.
pub(super) struct EngineSide {
    pub pools: Arc<Pools>,
    pub holders: Arc<Holders>,
}

impl EngineSide {
    fn gateways(&self) -> impl Iterator<Item = Arc<Pool>> {
        self.pools.all().into_iter().filter(|pool| pool.is_gateway())
    }

    /// The longest that pods behind a gateway go on after they were told to stop.
    fn pods_timeout(&self) -> Option<Duration> {
        self.gateways().filter_map(|pool| pool.spec().engine_shutdown_timeout).max()
    }
}

impl EndpointsPort for EngineSide {
    fn seen(&self, endpoint: &EndpointId) -> Seen {
        let Some(pool) = self.pools.of_endpoint(endpoint.as_str()) else {
            let pod = self.gateways().next().is_some();
            return Seen {
                phase: None,
                pod,
                in_flight: self.holders.on_endpoint(endpoint),
                shutdown_timeout: self.pods_timeout(),
            };
        };
        Seen {
            phase: pool.endpoint_phase(endpoint.as_str()),
            pod: false,
            // Counted from the choice on; a holder knows its endpoint only after that.
            in_flight: pool.in_flight(endpoint.as_str()).unwrap_or(0),
            shutdown_timeout: pool.spec().engine_shutdown_timeout,
        }
    }

    fn draining(&self) -> Vec<EndpointId> {
        let states = self.pools.states().into_iter().flat_map(|pool| pool.endpoints);
        let draining = states.filter(|state| state.state == EndpointPhase::Draining);
        draining.map(|state| state.endpoint).collect()
    }

    fn known(&self) -> Vec<EndpointId> {
        let states = self.pools.states().into_iter().flat_map(|pool| pool.endpoints);
        let endpoints = states.map(|state| state.endpoint);
        endpoints.chain(self.holders.pods()).collect()
    }

    fn stop(&self, endpoint: &EndpointId) {
        self.pools.stop(endpoint);
    }

    fn mark(&self, endpoint: &EndpointId, since: Instant) {
        if let Some(pool) = self.pools.of_endpoint(endpoint.as_str()) {
            pool.mark(endpoint, since);
        }
    }

    fn serve(&self, endpoint: &EndpointId) {
        self.pools.serve(endpoint);
    }

    fn cut(&self, endpoint: &EndpointId) -> usize {
        self.holders.evict_endpoint(endpoint)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.pools.changed())
    }
}
