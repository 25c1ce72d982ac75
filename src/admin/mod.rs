//! L3: the admin port. Probes, metrics, what runs now, and the few calls that change something;
//! the live page; and the client behind `streamgate status` and `streamgate drain`.
//!
//! The port is for operators, the kubelet and Prometheus. It keeps serving during a drain, it
//! cannot be exhausted by slow clients (`server`), and only callers that may do so change
//! anything ([`access`]). Nothing is kept here: every answer is read from its owner.

pub mod access;
mod actions;
mod answers;
pub mod client;
mod endpoint_drain;
mod page;
mod places;
mod routes;
mod server;
mod stall;
pub mod status;

use crate::core::drain_port::DrainPort;
use crate::core::endpoint_drain_port::EndpointDrains;
use crate::core::observe::Observe;
use crate::telemetry::Telemetry;
use access::Access;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Connections at once where there are descriptors enough.
pub const MAX_CONNECTIONS: usize = 256;

/// What the admin port serves.
pub struct Admin {
    pub observe: Arc<dyn Observe>,
    pub telemetry: Arc<Telemetry>,
    pub drain: Arc<dyn DrainPort>,
    /// The drains of engine endpoints.
    pub endpoints: Arc<dyn EndpointDrains>,
    /// Who may change something.
    pub access: Access,
    /// Version of the binary.
    pub version: &'static str,
    /// How long a drain call without `wait` waits: `drain.deadline`.
    pub default_wait: Duration,
    /// Connections at once, at least 2; when there are as many, an idle or slow one gives way.
    pub max_connections: usize,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Admin {
    /// Serve until `shutdown` resolves, then finish the answers that are under way (at most
    /// five seconds). A blocked drain call is answered before this returns if its drain has
    /// ended. Dropping the future drops every connection.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let most = self.max_connections;
        server::serve(listener, most, routes::router(self), shutdown).await;
    }
}
