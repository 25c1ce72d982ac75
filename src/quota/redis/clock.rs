//! The clock of leases.

use crate::quota::replica::Moment;
use rustix::time::{ClockId, clock_gettime};

/// A clock that never goes back and goes on while the machine is suspended: a lease that ran out
/// during the suspend must be seen to have run out.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
/// Here the monotonic clock itself counts the time of a suspend.
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Now.
pub(super) fn now() -> Moment {
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Moment::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_as_the_monotonic_clock_does() {
        let theirs = std::time::Instant::now();
        let ours = now();
        let mut later = now();
        while later == ours {
            later = now();
        }
        assert!(later > ours && later - ours <= theirs.elapsed());
    }
}
