//! Time that runs faster or slower than the wall's.

use std::time::{Duration, Instant};

/// An origin and how many seconds pass after it in one of the wall's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeScale {
    origin: Instant,
    scale: f64,
}

impl TimeScale {
    /// `scale` must be positive and finite.
    pub fn new(origin: Instant, scale: f64) -> Self {
        Self { origin, scale }
    }

    /// Seconds of scaled time per second of the wall's.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Scaled seconds from the origin to a moment; 0 before it.
    pub fn seconds(&self, moment: Instant) -> f64 {
        moment.saturating_duration_since(self.origin).as_secs_f64() * self.scale
    }

    /// The moment that many scaled seconds after the origin.
    pub fn moment(&self, seconds: f64) -> Instant {
        self.origin + Duration::from_secs_f64(seconds / self.scale)
    }

    /// How long a scaled duration lasts on the wall.
    pub fn real_duration(&self, length: Duration) -> Duration {
        length.div_f64(self.scale)
    }
}
