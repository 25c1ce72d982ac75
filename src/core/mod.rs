//! L0: the pure core. Types, decisions and state machines without I/O, clock reads or runtime;
//! time is an argument. The ports that adapters implement are declared here too.

pub mod api;
pub mod cause;
pub mod drain_port;
pub mod endpoint_health;
pub mod hold;
pub mod ids;
pub mod ledger;
pub mod observe;
pub mod outcome;
pub mod policy;
pub mod quota;
pub mod reason;
pub mod retry;
pub mod retry_budget;
pub mod routing;
pub mod slo;
pub mod slots;
pub mod sse;
pub mod stream;
pub mod sync;
pub mod timing;
pub mod wait_line;
