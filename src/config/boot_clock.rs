//! The clock that nobody sets.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A clock that never goes back and goes on while the machine is suspended.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
/// Here the monotonic clock itself counts the time of a suspend.
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The time since this machine started, suspends included. Processes of one machine read the same.
pub fn since_boot() -> Duration {
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_as_the_monotonic_clock_does() {
        let theirs = std::time::Instant::now();
        let ours = since_boot();
        let mut later = since_boot();
        while later == ours {
            later = since_boot();
        }
        assert!(later > ours && later - ours <= theirs.elapsed());
    }
}
