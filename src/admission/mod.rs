//! L2: who may run now, who waits, who is refused, and who is running.
//!
//! ```text
//! AdmissionController::admit(AdmitRequest, now)
//!     → Ok(Admitted { permit, waited, shadow_refusal })   keep `permit` until the engine's work ended
//!     → Err(Refused { reason, … })                        keep it until the answer is written
//! ```
//!
//! What is guaranteed:
//! * A [`Permit`] owns one slot on every level of the path and one entry in [`Holders`]. Dropping
//!   it, also by a panic or an aborted task, gives the slot back first and then unregisters, so
//!   when the registry is empty every slot is back.
//! * A tenant's queue never holds more than `max_depth` waiters. Whoever waits is not passed by a
//!   newcomer of the same tenant for the same pool (`core::wait_line` has the whole rule). A
//!   waiter that is dropped gives up its place at once; a slot granted meanwhile comes back.
//! * `tenant_in_flight` and `pool_saturated` are said only after the store itself said "full" to
//!   this request; a store that cannot say gives `quota_unavailable`.
//! * After [`AdmissionController::close_queue`] returned, nobody is admitted any more.
//!
//! Modules: [`controller`] decides, `lane` is one tenant's queue, [`permit`] what an admitted
//! request owns, [`holders`] the registry that operators and the drain look at.

pub mod controller;
pub mod estimates;
pub mod holders;
mod lane;
pub mod permit;
pub mod request;

pub use controller::AdmissionController;
pub use estimates::HoldEstimates;
pub use holders::{Answering, Holder, Holders, OpenGuard};
pub use permit::Permit;
pub use request::{AdmitRequest, Admitted, Refused};
