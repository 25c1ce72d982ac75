//! L2: the endpoints behind the ingress, which of them may be chosen, and how a failed attempt
//! goes on.
//!
//! ```text
//! Pools::for_model(model, pinned) → Arc<Pool>
//!     pool.demand()               → DemandGuard      from the wish to run until the end
//!     pool.pick(&tried)           → EndpointLease    counted on the endpoint until dropped
//!     lease.mark(Mark::…)         what this attempt saw that speaks against the endpoint
//! ```
//!
//! * A lease counts one request on one endpoint: up when it is picked, down when it is dropped.
//!   It belongs to the endpoint object it was picked from, so an endpoint that leaves and comes
//!   back under the same name starts at zero and is not counted down by strangers.
//! * The choice and the count are one step: no endpoint gets more than its limit from this
//!   process. It neither blocks nor does I/O; names are resolved and health is probed by the
//!   pool's one keeper task.

pub mod endpoint;
pub mod pool;
pub mod pools;

pub use endpoint::EndpointLease;
pub use pool::{DemandGuard, Pool, PoolKind, PoolSpec};
pub use pools::{NoPool, Pools};
