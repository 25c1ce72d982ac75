//! Time of a run: one origin, one scale, absolute deadlines.
//!
//! A run may go faster than real time: everything that a scenario says is *virtual* time, and
//! lasts `virtual / scale` on the wall. Each deadline is computed from the origin, so a late
//! wake-up delays one event and never those after it.

mod scale;
mod timer;

pub(crate) use scale::TimeScale;
pub use timer::{Sleep, sleep_until};

use std::time::{Duration, Instant};

/// Microseconds of virtual time since the origin of a run.
pub type Micros = u64;

/// Maps between the wall and a run's virtual time.
#[derive(Debug, Clone, Copy)]
pub struct RunClock(TimeScale);

impl RunClock {
    /// Virtual time 0 is `origin`; a scale that is not a positive number counts as 1.
    #[must_use]
    pub fn new(origin: Instant, scale: f64) -> Self {
        let scale = if scale.is_finite() && scale > 0.0 { scale } else { 1.0 };
        Self(TimeScale::new(origin, scale))
    }

    /// How many times faster than the wall the run goes.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.0.scale()
    }

    /// The virtual time of a moment; 0 before the origin.
    #[must_use]
    pub fn at(&self, moment: Instant) -> Micros {
        (self.0.seconds(moment) * 1e6).round() as Micros
    }

    /// The virtual time now.
    #[must_use]
    pub fn now(&self) -> Micros {
        self.at(Instant::now())
    }

    /// The moment of a virtual time.
    #[must_use]
    pub fn real(&self, at: Micros) -> Instant {
        self.0.moment(seconds(at))
    }

    /// How long a virtual duration lasts on the wall.
    #[must_use]
    pub fn real_duration(&self, length: Duration) -> Duration {
        self.0.real_duration(length)
    }

    /// Waits until a virtual time, exact to about 0.1 ms of real time. Cancel safe.
    pub async fn sleep_until(&self, at: Micros) {
        sleep_until(self.real(at)).await;
    }
}

/// A duration in microseconds; saturates.
#[must_use]
pub fn micros(length: Duration) -> Micros {
    Micros::try_from(length.as_micros()).unwrap_or(Micros::MAX)
}

/// Microseconds as seconds.
#[must_use]
pub fn seconds(at: Micros) -> f64 {
    at as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_runs_scale_times_as_fast() {
        let origin = Instant::now();
        let clock = RunClock::new(origin, 10.0);
        assert_eq!(clock.at(origin + Duration::from_millis(250)), 2_500_000);
        assert_eq!(clock.real(2_500_000), origin + Duration::from_millis(250));
        assert_eq!(clock.real_duration(Duration::from_secs(90)), Duration::from_secs(9));
        assert_eq!(RunClock::new(origin, 0.0).scale(), 1.0);
    }

    #[test]
    fn moments_before_the_origin_are_zero() {
        let origin = Instant::now() + Duration::from_secs(5);
        assert_eq!(RunClock::new(origin, 1.0).now(), 0);
    }
}
