//! The clock of leases.

use crate::config;
use crate::quota::replica::Moment;

/// Now, on a clock that never goes back and goes on while the machine is suspended: a lease that
/// ran out during the suspend must be seen to have run out.
pub(super) fn now() -> Moment {
    config::since_boot()
}
