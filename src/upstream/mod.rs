//! L2: the endpoints behind the ingress, which of them may be chosen, and how a failed attempt
//! goes on.
//!
//! ```text
//! let demand = pool.demand();                        // from the wish to run until the end
//! let mut attempts = pool.attempts(kind);
//! loop {
//!     let lease = attempts.pick()?;                  // counted on the endpoint until dropped
//!     … connect to lease.address(), ask …
//!     match attempts.failed(&lease, failure, client_has_bytes) {
//!         Next::Retry { pause } => …,                // drop the lease, sleep, go on
//!         Next::GiveUp(end) => …,
//!     }
//! }
//! ```
//!
//! * A lease counts one request on one endpoint: up when it is picked, down when it is dropped.
//!   An endpoint that leaves and comes back under the same name, in whatever pool, goes on with
//!   the leases of before as long as they live, and starts at zero after them (`counts`).
//! * The choice and the count are one step: no endpoint gets more than its limit from this
//!   process. It neither blocks nor does I/O; names are resolved and health is probed by the
//!   pool's one keeper task.
//! * An endpoint that drains by an order is not chosen until it is served again, also if a reload
//!   removes it and brings it back ([`Pools::stop`]); what was chosen before is counted by then.
//! * Where endpoints are not listed, the pool's one finder task follows their source and tells the
//!   pool (`discovery`). What the source says of an endpoint and what requests and probes see of it
//!   are kept apart: it is chosen only if neither speaks against it.
//! * Rules without I/O are in core: `routing` (the choice), `endpoint_health` (may it be chosen),
//!   `retry` (what follows from a failure), `retry_budget`, `discovery` (slices to endpoints).

pub mod attempts;
mod counts;
mod discovery;
pub mod endpoint;
mod keeper;
pub mod pool;
pub mod pools;
#[cfg(test)]
mod tests;

pub use attempts::{Attempts, Next};
pub use endpoint::EndpointLease;
pub use pool::{DemandGuard, Pool};
pub use pools::Pools;
